#include "tools/cli/member_join.h"

#include <utility>

#include "common/printable.h"
#include "tools/cli/dev/process.h"
#include "tools/cli/member_ask.h"
#include "tools/cli/setup/meta_member.h"
#include "trust/files.h"
#include "trust/place.h"

namespace stria::cli {
namespace {

constexpr int kMemberAnswerS = 2;

Result<MetaSettings> SettingsOf(Machine* machine) {
  const Result<std::string> text = machine->ReadFile(kMetaSettingsFile);
  if (!text.ok() && text.code() != FsError::kNoEnt) return text.error();
  return ReadMetaSettings(text.ok() ? *text : "", kMetaSettingsFile);
}

Result<void> SaveAuthority(Machine* machine, const MetaPaths& paths, const Credentials& own, const MemberSecrets& secrets) {
  RETURN_IF_ERROR(machine->MakeServerDir(paths.data));
  RETURN_IF_ERROR(machine->MakeServerDir(paths.trust));
  RETURN_IF_ERROR(ReplaceFile(paths.trust + kAuthorityFile, secrets.authority, 0600));
  RETURN_IF_ERROR(ReplaceFile(paths.trust + "/master.key", secrets.master_key, 0600));
  RETURN_IF_ERROR(CredentialFiles::SaveBundle(paths.trust, own.bundle));
  RETURN_IF_ERROR(CredentialFiles::SaveNode(paths.trust, own.key, own.certificate));
  for (const char* file : {kAuthorityFile, "/master.key", "/ca.pem", "/node.pem"}) RETURN_IF_ERROR(machine->GiveToServer(paths.trust + file));
  return Ok();
}

bool Answers(const Context& ctx, const MetaPaths& paths) {
  Context here = ctx;  // the kernel says that it is root who asks
  here.meta = "unix:" + paths.socket;
  here.trust = kTrustOff;
  here.timeout_s = kMemberAnswerS;
  const auto client = here.Connect();
  if (!client.ok()) return false;
  (*client)->set_progress(nullptr);
  return AskMembers(**client, true).ok();
}

int Say(const Context& ctx, const Identity& who, const MetaPaths& paths, const MemberDone& done, const MemberSettings& member) {
  if (ctx.json) {
    *ctx.out << Dump({{"role", RoleName(who.role)}, {"name", who.name}, {"cluster", who.cluster.ToString()}, {"directory", paths.trust},
                      {"changes", done.changes}, {"started", done.started}, {"start_command", done.start_command}});
    return kExitOk;
  }
  *ctx.out << "this machine is metadata server " << who.name << " of cluster " << who.cluster.ToString() << "; the cluster's authority is in " << PrintableName(paths.trust)
           << ", too\n";
  for (const std::string& change : done.changes) *ctx.out << "set: " << Printable(change) << "\n";
  if (!member.ca.empty()) *ctx.out << "etcd asks for certificates: this machine needs " << Printable(member.ca) << " and its own, as the others have them\n";
  *ctx.out << "Next:\n  " << (done.start_command.empty() ? "stria meta status      # it copies the metadata, and is in sync then" : Printable(done.start_command)) << "\n";
  return kExitOk;
}

int SetUp(const Context& ctx, Machine* machine, const Identity& who, const MetaPaths& paths, const MemberSettings& member, const std::string& token_id) {
  const Result<std::string> program = FindBinary("stria-meta");
  if (!program.ok()) return ctx.Fail(Error(FsError::kNoEnt, "there is no stria-meta on this machine: install the package stria-meta, and give this command again"));
  MemberParams params;
  params.program = *program;
  params.member = member;
  params.flag = "--join";
  params.timeout_ns = ctx.timeout_s * kSecond;
  const Result<MemberDone> done = SetUpMember(machine, params, [&] { return Answers(ctx, paths); });
  if (done.ok() || done.code() == FsError::kDeadline) {
    Result<void> noted = ReplaceFile(paths.trust + kJoinedBy, token_id + "\n", 0644);
    if (noted.ok()) noted = machine->GiveToServer(paths.trust + kJoinedBy);
    if (!noted.ok()) return ctx.Fail(noted.error());
  }
  if (!done.ok()) return ctx.Fail(done.error().WithContext("this machine has joined as metadata server " + who.name + ", but"));
  return Say(ctx, who, paths, *done, member);
}

}  // namespace

int JoinAsMeta(const Context& ctx, const MetaJoin& join) {
  const std::unique_ptr<Machine> machine = ThisMachine();
  if (const Result<void> can = CheckCanSetUp(machine.get(), "stria-meta"); !can.ok()) return ctx.Fail(can.error());
  const Result<MemberSecrets> secrets = DecodeMemberSecrets(join.member);
  if (!secrets.ok()) return ctx.Fail(secrets.error());
  const Result<MetaSettings> settings = SettingsOf(machine.get());
  if (!settings.ok()) return ctx.Fail(settings.error());
  const MetaPaths paths = PathsOf(*settings);
  Result<void> saved = CheckMemberSecrets(*secrets, join.own->bundle);
  if (saved.ok()) saved = CheckIsFree(machine.get(), paths, secrets->authority);
  if (saved.ok()) saved = SaveAuthority(machine.get(), paths, *join.own, *secrets);
  if (!saved.ok()) return ctx.Fail(saved.error());
  MemberSettings member;
  member.member = join.own->identity.name;
  member.address = !join.address.empty() ? join.address : settings->address.empty() ? machine->HostName() : "";
  member.etcd = secrets->etcd;
  member.ca = secrets->ca;
  member.cert = secrets->cert;
  member.key = secrets->key;
  return SetUp(ctx, machine.get(), join.own->identity, paths, member, join.token_id);
}

std::optional<int> JoinedAsMeta(const Context& ctx, const std::string& token_id) {
  const std::unique_ptr<Machine> machine = ThisMachine();
  const Result<MetaSettings> settings = SettingsOf(machine.get());
  if (!settings.ok() || !settings->has_ha) return std::nullopt;
  const MetaPaths paths = PathsOf(*settings);
  const Result<std::string> by = machine->ReadFile(paths.trust + kJoinedBy);
  if (!by.ok() || *by != token_id + "\n") return std::nullopt;
  std::optional<Identity> who;
  {
    const AsOwnerOf owner(paths.trust);
    const Result<std::shared_ptr<const Credentials>> own = CredentialFiles(paths.trust).Load();
    if (!own.ok()) return ctx.Fail(own.error());
    who = (*own)->identity;
  }
  MemberSettings member;
  member.member = who->name;
  return SetUp(ctx, machine.get(), *who, paths, member, token_id);
}

}  // namespace stria::cli
