#include "meta/one_of_several.h"

#include <algorithm>
#include <optional>

#include "common/log.h"
#include "common/os_random.h"
#include "common/sentence.h"
#include "meta/replica/register_text.h"

namespace stria {
namespace {

constexpr int64_t kKeepNs = 1 * kSecond;
constexpr int64_t kMapNs = 10 * kSecond;
constexpr int64_t kMapCallNs = 5 * kSecond;
constexpr int64_t kRenewNs = 30 * kSecond;
constexpr int64_t kFollowCallNs = 5 * kSecond;
constexpr int kFollowRounds = 3;  // one that changes the files, one that says so, and one more if the primary has changed them meanwhile
constexpr int64_t kTickNs = 50 * kMillisecond;

}  // namespace

MetaNodeOptions NodeOptionsOf(const HaConfig& ha) {
  MetaNodeOptions o;
  o.self = ha.member;
  o.tick_ns = std::min(kTickNs, ha.beat_ns);
  o.election.grace_ns = ha.grace_ns;
  o.beats.beat_ns = ha.beat_ns;
  o.beats.answer_ns = ha.promise_ns;
  o.beats.watchdog_ns = ha.watchdog_ns;
  o.life.in_sync.promise_ns = ha.promise_ns;
  o.life.in_sync.suspect_ns = ha.suspect_ns;
  o.life.in_sync.ack_timeout_ns = ha.ack_timeout_ns;
  o.life.in_sync.join_behind_ns = std::max(ha.ack_timeout_ns / 2, 2 * ha.beat_ns);
  o.life.shipper.beat_ns = ha.beat_ns;
  o.life.shipper.suspect_ns = ha.suspect_ns;
  o.life.shipper.ack_timeout_ns = ha.ack_timeout_ns;
  // What may be owed for so long may be answered so late.
  o.life.shipper.call_timeout_ns = std::max(o.life.shipper.call_timeout_ns, 2 * ha.ack_timeout_ns);
  return o;
}

OneOfSeveral::OneOfSeveral(OneOfSeveralParams params)
    : params_(std::move(params)),
      mac_(params_.key, kRegisterPurpose),
      replicas_(params_.transports),
      members_(params_.transports),
      beat_connector_(params_.transports),
      metas_(params_.transports),
      trust_(params_.transports),
      house_({
          .plain_received = params_.ha.plain_received,
          .params = [this] { return NewServer(); },
          .away = [this] { return node_->WhyAway(); },
          .serves =
              [this](ServedMeta* served) {
                served->server()->trust().UseAddress(params_.address);
                LogInfo("{} is the primary of the metadata servers, and serves in term {}", params_.ha.member, served->server()->term());
              },
          .goes = [this] { ServerGoes(); },
      }) {
  MetaNodeOptions options = NodeOptionsOf(params_.ha);
  options.uuid = params_.store;
  options.cluster = params_.cluster;
  options.nonce = params_.nonce ? params_.nonce : [] { return NewUuid(); };
  options.alarm = [](const std::string& text) { LogWarning("{}", text); };
  MetaNodeEnv env;
  env.kv = params_.kv;
  env.coordinator = params_.coordinator;
  env.mac = &mac_;
  for (const ClusterKey& key : params_.other_keys) other_macs_.emplace_back(key, kRegisterPurpose);
  for (const PurposeMac& mac : other_macs_) env.other_macs.push_back(&mac);
  env.replicas = &replicas_;
  env.members = &members_;
  env.house = &house_;
  node_ = std::make_unique<MetaNode>(std::move(options), env);
}

OneOfSeveral::~OneOfSeveral() {
  ending_ = true;
  scope_.CancelAll();
  inside_.CancelAll();
  beat_sender_.reset();
  beat_dispatcher_.reset();
  member_dispatcher_.reset();
  replica_dispatcher_.reset();
  view_.reset();
  desk_.reset();
  node_.reset();  // before the house, which may be in the middle of opening
}

Result<void> OneOfSeveral::Start() {
  RETURN_IF_ERROR(node_->Start());
  desk_ = std::make_unique<MemberDesk>(node_.get(), &members_, params_.audit);
  replica_dispatcher_ = std::make_unique<ReplicaDispatcher>(node_->replica(), params_.admission);
  member_dispatcher_ = std::make_unique<MemberDispatcher>(desk_.get(), params_.admission);
  view_ = std::make_unique<MemberView>(node_.get(), desk_.get());
  // Here, too, for who asks on another way.
  beat_answerer_ = std::make_unique<BeatAnswerer>(beats());
  beat_dispatcher_ = std::make_unique<BeatDispatcher>(beat_answerer_.get(), params_.admission);
  if (!params_.beats_elsewhere) {
    beat_sender_ = std::make_unique<BeatSender>(beats(), &beat_connector_, [](const std::string& text) { LogError("{}", text); });
    scope_.Spawn(beat_sender_->Run());
  }
  scope_.Spawn(Keep());
  scope_.Spawn(view_->Keep());
  if (params_.authority != nullptr) scope_.Spawn(KeepAuthority());
  return Ok();
}

// The register's later changes do not say any more how this life has begun.
ServedMetaParams OneOfSeveral::NewServer() {
  handed_ = node_->known() && node_->known()->handed.has_value();
  ServedMetaParams p = params_.served();
  p.server.life.members = [this] { return MembersSeen{view_->Now(), handed_}; };
  if (p.trust) p.trust->others = [this] { return Others(); };
  return p;
}

void OneOfSeveral::AddTo(Router* router) {
  for (const char* service : {kMetaServiceName, kAdminServiceName, kTrustServiceName}) router->Add(service, house_.dispatcher());
  router->Add(kReplicaServiceName, replica_dispatcher_.get());
  router->Add(kMemberServiceName, member_dispatcher_.get());
  router->Add(kBeatServiceName, beat_dispatcher_.get());
}

void OneOfSeveral::ServerGoes() {
  inside_.CancelAll();
  const auto unanswered = std::exchange(unanswered_, {});
  if (ending_) return;
  const Error over(FsError::kNotLeader, node_->WhereSentence());
  for (const auto& [number, answer] : unanswered) answer(over);
}

std::string OneOfSeveral::Describe() const {
  const MetaNode::Place place = node_->FindPrimary();
  std::string text = params_.ha.member + " is " + MemberRoleName(node_->OwnState().role) + ", term " + std::to_string(place.term);
  if (!node_->serving() && !place.primary.empty() && place.primary != params_.ha.member) text += ", of the primary " + place.primary + " at " + place.address;
  return text;
}

// ---- What needs the server ------------------------------------------------------------------------

Task<Result<std::string>> OneOfSeveral::Join(std::string request, std::string binding, std::string address) {
  if (server() == nullptr) co_return node_->WhyAway();
  co_return co_await WhileItServes(server()->trust().enrolment()->Join(std::move(request), std::move(binding), std::move(address)));
}

Task<Result<RenewCertificateReply>> OneOfSeveral::Renew(Peer who, std::string request) {
  if (server() != nullptr) co_return co_await WhileItServes(server()->trust().enrolment()->Renew(std::move(who), std::move(request)));
  const MetaNode::Place place = node_->FindPrimary();
  if (place.address.empty() || place.primary == params_.ha.member) co_return node_->WhyAway();
  RenewCertificateRequest r;
  // The connection proves this server: of the admin's certificate that is kept here it has told the primary.
  if (who.role != Role::kMeta) r.of = who.serial;
  r.header.cluster = params_.cluster;
  r.header.timeout_ns = kRenewNs;
  r.request = std::move(request);
  co_return co_await trust_.ConnectTrust(place.address)->RenewCertificate(std::move(r));
}

std::shared_ptr<const ClusterMap> OneOfSeveral::Map() {
  if (server() != nullptr) return std::make_shared<const ClusterMap>(server()->cluster().Map());
  return primarys_map_;
}

// ---- The cluster's authority ----------------------------------------------------------------------

std::vector<ListedMember> OneOfSeveral::Others() const {
  std::vector<ListedMember> out;
  if (!node_->known()) return out;
  for (const auto& [name, member] : node_->known()->members) {
    if (name != params_.ha.member) out.push_back({name, member.uuid, node_->known()->in_sync.contains(name)});
  }
  return out;
}

bool OneOfSeveral::KeepsFormer() {
  if (server() != nullptr) return server()->trust().enrolment()->KeepsFormer();
  return params_.authority != nullptr && params_.authority->keeps_former();
}

// Says what is here, and makes it what the primary has; then says so.
Task<Result<void>> OneOfSeveral::FollowAuthority(std::string address) {
  bool again = true;
  for (int round = 0; again && round < kFollowRounds; ++round) {
    CO_ASSIGN_OR_RETURN(FollowAuthorityRequest r, co_await params_.authority->Ask());
    r.header.cluster = params_.cluster;
    r.header.timeout_ns = kFollowCallNs;
    r.member = params_.ha.member;
    r.store = params_.store;
    CO_ASSIGN_OR_RETURN(FollowAuthorityReply reply, co_await trust_.ConnectTrust(address)->FollowAuthority(std::move(r)));
    if (server() != nullptr) co_return Ok();  // by now the files are that one's
    CO_ASSIGN_OR_RETURN(again, co_await params_.authority->Take(std::move(reply)));
    if (again) LogInfo("the cluster's authority in this directory is as the primary has it now");
  }
  // What is believed comes with the map.
  if (primarys_map_ && !params_.authority->bundle().empty() && primarys_map_->bundle != params_.authority->bundle()) primarys_map_.reset();
  co_return Ok();
}

Task<void> OneOfSeveral::KeepAuthority() {
  while (true) {
    const MetaNode::Place place = node_->FindPrimary();
    const bool listed = node_->known() && node_->known()->members.contains(params_.ha.member);
    if (server() == nullptr && listed && !place.address.empty() && place.primary != params_.ha.member) {
      const Result<void> done = co_await FollowAuthority(place.address);
      if (done.code() == FsError::kVersion) params_.authority->PrimaryIsOld();
      // One that is away, or of a former release, which does not know the call, is nothing to tell of.
      const bool away = done.code() == FsError::kUnavailable || done.code() == FsError::kDeadline || done.code() == FsError::kNotLeader ||
                        done.code() == FsError::kNotReady || done.code() == FsError::kVersion;
      const std::string said = done.ok() || away ? "" : SentenceOf(done.error());
      if (std::exchange(authority_said_, said) != said && !said.empty()) LogWarning("the cluster's authority is not followed: {}", said);
    }
    co_await Sleep(kKeepNs);
  }
}

// ---- What it keeps --------------------------------------------------------------------------------

Task<void> OneOfSeveral::Keep() {
  while (true) {
    co_await KeepListed();
    co_await AskForMap();
    co_await Sleep(kKeepNs);
  }
}

// Who is believed, and who is not any more, a standby hears from the primary.
Task<void> OneOfSeveral::AskForMap() {
  const int64_t now_ns = Executor::Current().NowNs();
  const MetaNode::Place place = node_->FindPrimary();
  if (server() != nullptr || place.address.empty() || place.primary == params_.ha.member) co_return;
  if (primarys_map_ && now_ns - map_asked_ns_ < kMapNs) co_return;
  map_asked_ns_ = now_ns;
  InodeRequest r;
  r.header.cluster = params_.cluster;
  r.header.timeout_ns = kMapCallNs;
  Result<ClusterMap> map = co_await metas_.Connect(place.address)->GetMap(std::move(r));
  if (map.ok()) primarys_map_ = std::make_shared<const ClusterMap>(std::move(*map));
}

Task<void> OneOfSeveral::KeepListed() {
  if (!node_->known()) co_return;
  const Register known = *node_->known();
  if (params_.members && std::exchange(told_version_, known.version) != known.version) {
    std::vector<std::string> addresses;
    for (const auto& [name, member] : known.members) addresses.push_back(member.address);
    params_.members(addresses);
  }
  ChangeMembersRequest request;
  request.header.cluster = params_.cluster;
  request.name = params_.ha.member;
  request.uuid = params_.store;
  request.address = params_.ha.address;
  request.release = params_.release;
  const auto self = known.members.find(params_.ha.member);
  if (self == known.members.end()) {
    // One that was removed does not come back by itself: it has been listed, or has a log.
    if (params_.joins && !was_listed_ && !node_->store().begun()) {
      request.change = MemberChange::kAdd;
      co_return co_await Ask(std::move(request), "become one of the metadata servers as " + params_.ha.member);
    }
    if (std::exchange(said_, "not listed") != "not listed") {
      LogWarning("{} is none of the metadata servers, and does nothing: 'stria meta join {} --address {}' makes it one", params_.ha.member,
                 params_.ha.member, params_.ha.address);
    }
    co_return;
  }
  if (self->second.uuid != params_.store) {
    if (std::exchange(said_, "another") != "another") {
      LogError("the metadata servers know another directory as {}, and this one does nothing: remove that one ('stria meta remove {}') or "
               "choose another name (ha.member)", params_.ha.member, params_.ha.member);
    }
    co_return;
  }
  was_listed_ = true;
  if (self->second != MetaMember{params_.store, params_.ha.address, params_.release, 0}) {
    request.change = MemberChange::kUpdate;
    co_return co_await Ask(std::move(request), "tell the others address and release of " + params_.ha.member);
  }
  // The key that seals is another one now, and the former one is to be taken away some day.
  if (node_->leads() && node_->IsRegisterToBeSealedAnew()) {
    request.change = MemberChange::kUpdate;
    co_return co_await Ask(std::move(request), "seal with the cluster's first key what the coordinator has");
  }
  const uint32_t least = DueMinInSync(known, params_.ha.min_in_sync);
  if (node_->leads() && least != known.min_in_sync) {
    request.change = MemberChange::kMinInSync;
    request.min_in_sync = least;
    co_return co_await Ask(std::move(request), "set min_in_sync to " + std::to_string(least));
  }
  said_.clear();
}

Task<void> OneOfSeveral::Ask(ChangeMembersRequest request, std::string what) {
  const Result<ChangeMembersReply> done = co_await desk_->Change(std::move(request));
  const std::string said = "asked the primary to " + what + (done.ok() ? ": done" : ": " + SentenceOf(done.error()));
  if (std::exchange(said_, said) == said) co_return;
  if (done.ok()) LogInfo("{}", said);
  else LogWarning("{}; it is asked again", said);
}

}  // namespace stria
