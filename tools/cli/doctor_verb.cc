// stria doctor: is this machine as the cluster needs it, and what to do.
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <memory>

#include "common/address.h"
#include "common/program.h"
#include "common/sentence.h"
#include "tools/cli/context.h"
#include "tools/cli/dev/process.h"
#include "tools/cli/doctor/ask.h"
#include "tools/cli/doctor/gather.h"
#include "tools/cli/doctor/rules.h"
#include "tools/cli/doctor/ways.h"
#include "tools/cli/member_ask.h"
#include "tools/cli/setup/data_node.h"
#include "tools/cli/setup/init_cluster.h"
#include "tools/cli/setup/machine.h"
#include "tools/cli/setup/meta_member.h"
#include "trust/place.h"

namespace stria::cli {
namespace {

using doctor::Facts;

constexpr char kNodeTrust[] = "/etc/stria/trust/data";
constexpr uint16_t kEtcdPort = 2379;
constexpr int kMembersAnswerS = 5;

// What the machine's settings tell of the way to the cluster.
struct Own {
  DataSettings data;
  std::string meta_trust;  // of a metadata server here
  MetaSettings meta;
};

Own ReadOwn(Machine* machine, Facts* facts) {
  Own own;
  if (const Result<std::string> text = machine->ReadFile(kDataSettingsFile); text.ok()) {
    Result<DataSettings> data = ReadDataSettings(*text, kDataSettingsFile);
    if (data.ok()) own.data = std::move(*data);
    else facts->settings_error = data.error().message;
  }
  if (const Result<std::string> text = machine->ReadFile(kMetaSettingsFile); text.ok()) {
    const Result<MetaSettings> meta = ReadMetaSettings(*text, kMetaSettingsFile);
    if (!meta.ok()) facts->ha.error = meta.error().message;
    if (meta.ok()) own.meta = *meta;
    if (meta.ok() && meta->trust != kTrustOff) {
      own.meta_trust = !meta->trust.empty() ? meta->trust : (meta->data.empty() ? "/var/lib/stria/meta" : meta->data) + "/trust";
    }
  }
  return own;
}

// As other commands find it; where nothing tells them, as what runs or is mounted on this machine does. `way`: which of these that was.
Result<std::unique_ptr<ClusterClient>> ReachCluster(const Context& ctx, const Own& own, Facts* facts, doctor::Way* way) {
  Context plain = ctx;
  plain.own_ways = nullptr;  // here they are ways like the others
  Result<std::unique_ptr<ClusterClient>> client = plain.Connect();
  if (client.ok() || !ctx.meta.empty() || !ctx.env_meta.empty()) return client;
  const std::string node_trust = access(kNodeTrust, F_OK) == 0 ? kNodeTrust : "";
  const std::vector<doctor::Way> ways = doctor::WaysToCluster(own.data.meta, kDataSettingsFile, node_trust, ctx.mounts, doctor::ReadFstab());
  if (ways.empty()) return client;
  *way = ways.front();
  facts->cluster_by = way->by;
  for (size_t i = 1; i < ways.size(); ++i) facts->other_clusters.push_back(ways[i].by + ", of " + ways[i].metas.front());
  Context here = ctx;
  for (const std::string& a : way->metas) here.meta += (here.meta.empty() ? "" : ",") + a;
  if (here.trust.empty() && here.env_trust.empty()) here.trust = way->trust;
  const AsOwnerOf owner(here.trust);
  return here.Connect(way->near);
}

// One of several metadata servers is here. The others are asked as root of this machine: with a data node's certificate that would be refused.
void LookAtMembers(const Context& ctx, const Own& own, Facts* facts) {
  doctor::HaFact& ha = facts->ha;
  ha.there = own.meta.has_ha;
  if (!ha.there) return;
  ha.member = own.meta.ha_member;
  ha.tls = !own.meta.ha_ca.empty();
  const Result<std::vector<std::string>> etcd = WithPorts(own.meta.ha_etcd, kEtcdPort);
  if (const Result<void> enough = CheckEtcd(own.meta.ha_etcd); !enough.ok()) ha.error = std::string(kMetaSettingsFile) + ", ha.etcd: " + enough.error().message;
  else if (!etcd.ok()) ha.error = etcd.error().WithContext(std::string(kMetaSettingsFile) + ", ha.etcd").message;
  else if (ha.member.empty()) ha.error = std::string(kMetaSettingsFile) + " has a table [ha] without member: say how this metadata server is called";
  if (!ha.error.empty()) return;
  for (const std::string& address : *etcd) {
    doctor::PeerFact peer;
    peer.whose = "etcd";
    peer.address = address;
    ha.etcd.push_back(std::move(peer));
  }
  doctor::TryPeers(&ha.etcd);
  if (!facts->root) return;
  Context here = ctx;
  here.meta = "unix:" + PathsOf(own.meta).socket;
  here.trust = kTrustOff;
  here.timeout_s = kMembersAnswerS;
  const Result<std::unique_ptr<ClusterClient>> client = here.Connect();
  if (!client.ok()) return;
  (*client)->set_progress(nullptr);
  ha.members = AskMembersIfAny(**client);
}

void LookAtPeers(const std::vector<std::string>& metas, const ClusterMap* map, Facts* facts) {
  for (const std::string& address : metas) {
    if (address.starts_with("unix:")) continue;
    facts->names.push_back(doctor::LookUp("the metadata server", HostOfAddress(address), false));
    doctor::PeerFact peer;
    peer.whose = "the metadata server";
    peer.address = address;
    peer.meta = true;
    facts->peers.push_back(std::move(peer));
  }
  for (const NodeInfo& n : map != nullptr ? map->nodes : std::vector<NodeInfo>()) {
    if (!IsHostPort(n.address)) continue;
    facts->names.push_back(doctor::LookUp("node " + n.name, HostOfAddress(n.address), false));
    doctor::PeerFact peer;
    peer.whose = "node " + n.name;
    peer.address = n.address;
    peer.up = n.state == NodeState::kUp;
    facts->peers.push_back(std::move(peer));
  }
  doctor::TryPeers(&facts->peers);
}

Facts Gather(const Context& ctx) {
  Facts facts;
  const std::unique_ptr<Machine> machine = ThisMachine();
  facts.now_s = WallclockNs() / kSecond;
  facts.root = machine->IsRoot();
  facts.own_version = Version();
  const Own own = ReadOwn(machine.get(), &facts);
  facts.data_node = !own.data.disks.empty();
  facts.data_address_set = !own.data.address.empty();
  facts.client = FindBinary("stria-mount").ok();
  facts.names.push_back(doctor::LookUp("this machine", machine->HostName(), true));
  doctor::Way way;
  Result<std::unique_ptr<ClusterClient>> client = ReachCluster(ctx, own, &facts, &way);
  std::vector<std::string> metas = way.metas;
  if (const Result<std::vector<std::string>> said = WithPorts(own.data.meta, kDefaultMetaPort); said.ok()) {
    for (const std::string& a : *said) {
      if (std::find(metas.begin(), metas.end(), a) == metas.end()) metas.push_back(a);
    }
  }
  if (client.ok()) {
    for (const std::string& a : (*client)->addresses()) {
      if (std::find(metas.begin(), metas.end(), a) == metas.end()) metas.push_back(a);
    }
    const Result<ClusterMap> map = doctor::AskCluster(**client, &facts);
    if (map.ok()) facts.cluster = map->cluster.ToString();
    else facts.no_cluster = SentenceOf(map.error());
    LookAtPeers(metas, map.ok() ? &*map : nullptr, &facts);
  } else {
    facts.no_cluster = SentenceOf(client.error());
    LookAtPeers(metas, nullptr, &facts);
  }
  LookAtMembers(ctx, own, &facts);
  facts.clock.synchronized = doctor::ClockIsSynchronized();
  for (const NewDisk& disk : own.data.disks) facts.disks.push_back(doctor::LookAtDisk(disk));
  facts.kernel = doctor::LookAtKernel();
  facts.open_files_hard = doctor::OpenFilesHard();
  std::vector<std::string> more;
  if (!own.meta_trust.empty()) more.push_back(own.meta_trust);
  for (const std::string& given : {ctx.trust, ctx.env_trust, way.trust}) {
    if (!given.empty() && given != kTrustOff) more.push_back(given);
  }
  facts.certificates = doctor::LookAtCertificates(more);
  return facts;
}

int RunDoctor(const Context& ctx) {
  const std::vector<doctor::Check> checks = doctor::Judge(Gather(ctx));
  *ctx.out << (ctx.json ? Dump(doctor::ChecksJson(checks)) : doctor::RenderChecks(checks));
  return static_cast<int>(doctor::WorstOf(checks));
}

}  // namespace

void AddDoctorVerb(CLI::App& app, Context& ctx) {
  CLI::App* verb = app.add_subcommand("doctor", "Is this machine as the cluster needs it: names, clock, network, disks, kernel, certificates; and what to do");
  AddCommon(verb, ctx, "stria doctor || echo 'warnings (1) or problems (2)'");
  verb->callback([&ctx] { ctx.run = [&ctx] { return RunDoctor(ctx); }; });
}

}  // namespace stria::cli
