#include "meta/replica/meta_node.h"

#include <algorithm>
#include <utility>

#include "common/codec.h"
#include "meta/model/families.h"
#include "meta/replica/last_word.h"
#include "meta/replica/log_shape_of.h"
#include "meta/replica/replica_log.h"
#include "meta/replica/revival.h"

namespace stria {
namespace {

constexpr int64_t kCoordinatorCallNs = 10 * kSecond;  // beyond the deadlines that it has itself
constexpr int64_t kCoordinatorFreshNs = 5 * kSecond;  // it has answered lately
constexpr int64_t kChangeNs = 5 * kSecond;            // that a change of the register is waited for
constexpr int64_t kStepBackGraces = 4;                // for which it lets others take over
constexpr int kLosingTries = 10;
constexpr int64_t kLookAgainNs = 20 * kMillisecond;

bool IsBusy(MetaRole role) { return role != MetaRole::kBoot && role != MetaRole::kStandby; }

}  // namespace

MetaNode::MetaNode(MetaNodeOptions options, MetaNodeEnv env)
    : options_(std::move(options)), env_(std::move(env)), client_(env_.coordinator, env_.mac, env_.other_macs) {
  options_.election.self = options_.self;
  options_.election.uuid = options_.uuid;
  options_.life.cluster = options_.cluster;
  options_.joiner.member = options_.self;
  options_.joiner.cluster = options_.cluster;
  roles_.SetSelf(options_.self);
}

MetaNode::~MetaNode() {
  scope_.CancelAll();
  watch_.CancelAll();
  roles_.BeNothing();
  if (beats_) beats_->Close();
}

Result<void> MetaNode::Start() {
  ASSIGN_OR_RETURN(store_, ReplicaStore::Open(env_.kv, options_.store));
  ASSIGN_OR_RETURN(const auto opened, env_.kv->Get(kReplicaStateFamily, LogOpenedKey()));
  // What is not readable counts as not there: that costs a wait.
  if (opened && !ParseKey64(*opened, &opened_term_)) opened_term_ = 0;
  beats_ = std::make_shared<BeatDesk>(options_.self, options_.cluster, options_.beats, Now());
  promises_ = beats_->promises();
  election_ = std::make_unique<Election>(options_.election, promises_, Now(), options_.nonce);
  follower_ = std::make_unique<Follower>(store_.get(), static_cast<FollowerHost*>(this), store_->last().term);
  Follow();
  scope_.Spawn(KeepRole());
  scope_.Spawn(TickLoop());
  return Ok();
}

Task<Error> MetaNode::WaitFatal() {
  co_await fatal_event_.Wait();
  co_return fatal_;
}

Task<void> MetaNode::WaitChange() { co_await changed_.Wait(); }

void MetaNode::Fail(Error error) {
  if (!fatal_.ok()) return;
  fatal_ = std::move(error);
  const MetaLife own{options_.self, election_->term()};
  std::string goes_on = "another one that is in sync takes over";
  if (leads() && known()) goes_on = WhoGoesOn(*known(), options_.self, life_->primary()->rule(), store_->last().seq);
  After(election_->Resign(Now()));  // from here on nothing is answered
  beats_->Close();
  if (own.term == 0) return fatal_event_.Set();
  if (options_.alarm) options_.alarm(options_.self + " serves no more in term " + std::to_string(own.term) + " (" + fatal_.message + "); " + goes_on);
  scope_.Spawn(EndWith(own));
}

// Nobody waits for promises that bind to nothing. Who is not reached does.
Task<void> MetaNode::EndWith(MetaLife life) {
  if (known()) co_await SayOver(env_.replicas, options_.cluster, life, known()->members);
  fatal_event_.Set();
}

void MetaNode::Ended(uint64_t term, const std::string& primary) {
  if (!promises_->Over({primary, term})) return;
  if (options_.alarm) options_.alarm("the primary of the metadata servers, " + primary + ", has said that it serves no more: one of the others that are in sync takes over");
  ReadSoon();
}

// ---- What follows from what happens ---------------------------------------------------------------

OwnLog MetaNode::Own() const {
  OwnLog own;
  own.shape = ShapeOf(store_->history(), store_->last().seq);
  own.whole = store_->whole();
  own.store_term = store_->last().term;
  own.opened_term = opened_term_;
  return own;
}

// The directory is the one that the members know under this name.
bool MetaNode::IsListedIn(const Register& r) const {
  const auto it = r.members.find(options_.self);
  return it != r.members.end() && it->second.uuid == options_.uuid;
}

void MetaNode::EndLife() {
  wanted_.reset();
  if (life_) life_->End(std::max(promises_->term(), known() ? known()->term : 0), WhereSentence());
  turn_.Set();
}

// What cannot wait is done here; who serves and who follows is KeepRole's, since who calls may be a task of what is to go.
void MetaNode::After(Election::Actions actions) {
  // Before a swap goes out the log stays as it is.
  follower_->SetCandidate(IsBusy(election_->role()));
  follower_->SawTerm(promises_->term());
  // Before it has read the register it answers nobody.
  if (following_ && role() != MetaRole::kBoot) roles_.BeFollower(follower_.get());
  for (ElectionAction& action : actions) {
    switch (action.kind) {
      case ElectionAction::Kind::kRead:
        ReadSoon();
        break;
      case ElectionAction::Kind::kSwap:
        scope_.Spawn(SwapRegister(std::move(action.swap)));
        break;
      case ElectionAction::Kind::kAsk:
        for (const auto& [name, member] : known()->members) {
          if (name != options_.self) scope_.Spawn(AskOther(action.attempt, name, member.address));
        }
        break;
      case ElectionAction::Kind::kOpen:
        opened_term_ = action.life.term;
        follower_->SawTerm(action.life.term);
        wanted_ = Wanted{action.life};
        turn_.Set();
        break;
      case ElectionAction::Kind::kStop:
        EndLife();
        break;
      case ElectionAction::Kind::kAlarm:
        if (options_.alarm) options_.alarm(action.text);
        break;
    }
  }
  TellChange();
}

// Many may wait for that.
void MetaNode::TellChange() {
  const Told now{role(), known() ? known()->version : 0, promises_->term(), serving()};
  if (std::exchange(told_, now) != now) changed_.Pulse();
}

Result<void> MetaNode::Hear(uint64_t term, const std::string& primary, uint64_t version, int64_t token_time_ns) {
  if (known() && !IsListed()) {
    ReadSoon();
    return Error(FsError::kStale, "this metadata server's directory is not the one that the members know as " + options_.self);
  }
  switch (promises_->OnBeat({primary, term}, Now())) {
    case BeatAnswer::kPromised:
      break;
    case BeatAnswer::kLowerTerm:
      return Error(FsError::kNotLeader, "there is a term " + std::to_string(promises_->term()));
    case BeatAnswer::kSilent:
      return Error(FsError::kNotReady, "this metadata server follows nobody now");
    case BeatAnswer::kHigherTerm:
      After(election_->OnTerm(Now(), term));
      return Error(FsError::kNotReady, "this metadata server follows nobody now");
  }
  token_ahead_ns_ = token_time_ns - Now();
  token_known_ = true;
  if (known() && (version > known()->version || term > known()->term)) ReadSoon();
  TellChange();
  return Ok();
}

int64_t MetaNode::HeardTokenTimeNs() const { return token_known_ ? Now() + token_ahead_ns_ : 0; }

void MetaNode::OwnDiskHangs() {
  if (!CoordinatorAnswers()) return;  // nobody could take over: plain changes go on here meanwhile
  if (options_.alarm) options_.alarm("the disk of this metadata server (" + options_.self + ") has not made durable what others of the set have: one of these takes over");
  After(election_->StepBack(Now(), kStepBackGraces * options_.election.grace_ns));
}

// Beats go out before the house is open.
int64_t MetaNode::TokenTimeNs() const {
  const int64_t served_ns = env_.house->TokenTimeNs();
  if (served_ns != 0) return served_ns;
  return token_known_ ? HeardTokenTimeNs() : Executor::Current().WallNs();
}

// ---- The coordinator ------------------------------------------------------------------------------

void MetaNode::ReadSoon() {
  if (!std::exchange(reading_, true)) scope_.Spawn(ReadRegister());
}

Task<void> MetaNode::ReadRegister() {
  std::optional<Result<std::optional<Register>>> r = co_await WithTimeout(kCoordinatorCallNs, client_.Read());
  reading_ = false;
  if (!r) co_return NoteCoordinator(Error(FsError::kDeadline, "it does not answer"));
  if (!r->ok()) co_return NoteCoordinator(r->error());
  if (!**r) {
    co_return NoteCoordinator(Error(FsError::kNoEnt, "it has nothing of these metadata servers: nobody has founded them there yet"));
  }
  NoteCoordinator(Error());
  SeeRegister(***r);
}

Task<void> MetaNode::SwapRegister(RegisterSwap swap) {
  // An error says nothing: whoever asked asks for the same again.
  std::optional<Result<Register>> r = co_await WithTimeout(kCoordinatorCallNs, client_.Swap(std::move(swap)));
  if (!r) co_return NoteCoordinator(Error(FsError::kDeadline, "it does not answer"));
  if (!r->ok()) co_return NoteCoordinator(r->error());
  NoteCoordinator(Error());
  SeeRegister(**r);
}

void MetaNode::NoteCoordinator(const Error& error) {
  if (error.ok()) {
    coordinator_ns_ = Now();
    coordinator_problem_.clear();
    return;
  }
  // It answers, and not what the members have written: that does not go away by itself, and nobody could take over.
  const bool is_wrong = error.code == FsError::kBadToken || error.code == FsError::kCorrupt || error.code == FsError::kVersion ||
                        (error.code == FsError::kNoEnt && known());
  if (is_wrong && coordinator_problem_ != error.message && options_.alarm) {
    options_.alarm("the metadata servers' roles stay as they are, because of the coordinator: " + error.message);
  }
  coordinator_problem_ = error.message;
}

bool MetaNode::CoordinatorAnswers() const { return coordinator_problem_.empty() && Now() - coordinator_ns_ < kCoordinatorFreshNs; }

void MetaNode::SeeRegister(const Register& seen) {
  // Before the election lets it promise anything.
  if (!known() || seen.version >= known()->version) beats_->SetListed(IsListedIn(seen));
  After(election_->OnRegister(Now(), seen, Own()));
  if (life_ && !life_->ended() && !life_->OnRegister(*known())) EndLife();
}

Task<void> MetaNode::AskOther(uint64_t attempt, std::string member, std::string address) {
  const std::shared_ptr<MemberService> other = env_.members->ConnectMember(address);
  AskRequest request;
  request.header.cluster = options_.cluster;
  request.header.timeout_ns = kSecond;
  request.member = options_.self;
  const std::optional<Result<AskReply>> reply = co_await WithTimeout(kSecond, other->Ask(std::move(request)));
  if (!reply || !reply->ok()) co_return;
  const AskReply& said = reply->value();
  AskedMember answer;
  answer.shape = ShapeOf(said.history, said.last.seq);
  answer.whole = said.whole;
  answer.silent_ns = said.silent_ns;
  // Shapes are compared. Who seems to have a beginning of this log is asked for the very point, too.
  if (answer.shape.IsValid() && IsPrefixOf(answer.shape, Own().shape) && !store_->Has(said.last)) co_return;
  election_->OnAsked(attempt, member, answer);
}

// ---- Roles ----------------------------------------------------------------------------------------

Task<void> MetaNode::TickLoop() {
  while (true) {
    if (options_.held) co_await options_.held();
    // A follower that can write nothing is of no use to anybody. While it serves, who serves finds that.
    if (!store_->failure().ok() && !life_) Fail(store_->failure().WithContext("the store of this metadata server"));
    const int64_t step_ns = beats_->Tick(Now());
    if (const uint64_t term = beats_->TakeHigherTerm(); term != 0) After(election_->OnTerm(Now(), term));
    // What it has promised to, it is to know of.
    const uint64_t promised = promises_->term();
    if (known() && promised > known()->term && std::exchange(asked_term_, promised) != promised) ReadSoon();
    After(election_->Tick(Now(), Own()));
    if (life_) life_->Tick(step_ns);
    co_await Sleep(options_.tick_ns);
  }
}

Task<void> MetaNode::KeepRole() {
  while (true) {
    const bool same = life_ && wanted_ && wanted_->life == life_->life() && !life_->ended();
    if (life_ && !same) {
      co_await EndServing();
    } else if (!life_ && !reviving_ && wanted_) {
      co_await BeginServing();
    } else if (!life_ && !reviving_ && !following_) {
      Follow();
    } else {
      turn_.Reset();
      co_await turn_.Wait();
    }
  }
}

void MetaNode::Follow() {
  const auto connect = [this](const std::string& member) -> std::shared_ptr<ReplicaService> {
    if (!known() || !known()->members.contains(member)) return nullptr;
    return env_.replicas->ConnectReplica(known()->members.at(member).address);
  };
  joiner_ = std::make_unique<ReplicaJoiner>(store_.get(), follower_.get(), connect, options_.joiner);
  joiner_work_ = std::make_unique<TaskScope>();
  joiner_work_->Spawn(joiner_->Run());
  following_ = true;
  if (role() != MetaRole::kBoot) roles_.BeFollower(follower_.get());
}

Task<void> MetaNode::BeginServing() {
  const MetaLife life = wanted_->life;
  const auto still = [this, &life] { return wanted_ && wanted_->life == life; };
  following_ = false;
  roles_.BeNothing();
  joiner_work_.reset();
  joiner_.reset();
  // So that after a restart it knows that it was the primary all the time.
  KvBatch note;
  ByteWriter term;
  term.Key64(life.term);
  note.Put(kReplicaStateFamily, LogOpenedKey(), term.Take());
  Result<void> noted = store_->kv().Write(note);
  if (noted.ok()) noted = co_await store_->kv().Sync();
  if (!still()) co_return;
  if (!noted.ok()) co_return Fail(noted.error().WithContext("the store of this metadata server"));

  PrimaryLifeHost* const host = this;
  life_ = std::make_unique<PrimaryLife>(store_.get(), env_.replicas, beats_.get(), host, options_.self, *known(), options_.life);
  roles_.BePrimary(life_->primary(), life_->source());
  HouseOpening opening;
  opening.life = life;
  opening.store = life_->MakeStore(env_.kv);
  opening.gate = life_->gate();
  opening.primary = life_->primary();
  opening.saw_term = [this](uint64_t seen) { SawTerm(seen); };
  opening.token_time_ns = HeardTokenTimeNs();
  const Result<void> opened = co_await env_.house->Open(std::move(opening));
  if (!still() || life_->ended()) co_return;
  if (!opened.ok()) co_return Fail(opened.error());
  serving_ = true;
  watch_.Spawn(env_.house->WaitFatal(), [this](Error error) {
    // Whoever is deposed meets errors, too.
    if (wanted_ && life_ && !life_->ended()) Fail(std::move(error));
  });
  TellChange();
}

Task<void> MetaNode::EndServing() {
  watch_.CancelAll();
  serving_ = false;
  life_->End(std::max(promises_->term(), known() ? known()->term : 0), WhereSentence());
  roles_.BeNothing();
  co_await env_.house->Close(WhereSentence());
  life_.reset();
  store_->HoldFrom(std::nullopt);  // what copied from this life begins anew
  TellChange();
}

// ---- What is so now -------------------------------------------------------------------------------

MetaNode::Place MetaNode::FindPrimary() const {
  Place place;
  if (known()) {
    place.term = known()->term;
    place.primary = known()->primary;
  }
  const Promises::Given given = promises_->Last();
  if (given.to && given.to->term > place.term) {
    place.term = given.to->term;
    place.primary = given.to->member;
  }
  if (known()) {
    const auto it = known()->members.find(place.primary);
    if (it != known()->members.end()) place.address = it->second.address;
  }
  return place;
}

std::string MetaNode::WhereSentence() const {
  const Place place = FindPrimary();
  if (place.primary.empty() || place.primary == options_.self) {
    return "this metadata server (" + options_.self + ") is not the primary, and does not know which one is";
  }
  return "this metadata server (" + options_.self + ") is not the primary: that is " + place.primary + " at " + place.address;
}

Error MetaNode::WhyAway() const {
  switch (role()) {
    case MetaRole::kCandidate:
      return Error(FsError::kNotReady, "this metadata server (" + options_.self + ") asks for the primary's place");
    case MetaRole::kOpening:
    case MetaRole::kPrimary:
      return Error(FsError::kNotReady, "this metadata server (" + options_.self + ") is about to serve as the primary");
    case MetaRole::kBoot:
    case MetaRole::kStandby:
      break;
  }
  return Error(FsError::kNotLeader, WhereSentence());
}

Result<AskReply> MetaNode::AnswerAsk() const {
  if (role() == MetaRole::kBoot) return Error(FsError::kNotReady, "this metadata server has not read the register yet");
  // Nobody is to let it go first for its longer log, or to count on it.
  if (!fatal_.ok()) return Error(FsError::kNotReady, "this metadata server ends: " + fatal_.message);
  AskReply reply;
  reply.term = std::max(promises_->term(), known()->term);
  reply.last = store_->last();
  reply.history = store_->history();
  reply.whole = store_->whole() && IsListed();
  const Promises::Given last = promises_->Last();
  reply.silent_ns = serving() ? 0 : Now() - last.at_ns;
  if (last.over) reply.silent_ns = std::max(reply.silent_ns, options_.election.grace_ns);
  return reply;
}

MemberState MetaNode::StateOf(const std::string& member) const {
  MemberState state;
  state.name = member;
  if (!known()) return state;
  const auto it = known()->members.find(member);
  if (it == known()->members.end()) return state;
  state.uuid = it->second.uuid;
  state.address = it->second.address;
  state.in_sync = known()->in_sync.contains(member);
  if (life_ && !life_->ended() && member != options_.self) {
    const CommitSeq last = store_->last().seq;
    state.durable = std::min(life_->primary()->rule().durable(member), last);
    state.lag = last.v - state.durable.v;
    if (!state.in_sync) state.problem = life_->ProblemOf(member);
  }
  return state;
}

MemberState MetaNode::OwnState() const {
  MemberState state = StateOf(options_.self);
  state.uuid = options_.uuid;
  state.last = store_->last().seq;
  state.coordinator = CoordinatorAnswers();
  state.coordinator_problem = state.coordinator || !coordinator_problem_.empty() ? coordinator_problem_ : "it has not answered lately";
  if (known() && !IsListed()) state.problem = "its directory is not the one that the members know as " + options_.self;
  else if (joiner_ && !(store_->whole() && state.in_sync)) state.problem = joiner_->problem();
  state.term = follower_->term();
  switch (role()) {
    case MetaRole::kBoot:
      state.role = MemberRole::kStarting;
      break;
    case MetaRole::kStandby:
      state.role = store_->whole() && state.in_sync && IsListed() ? MemberRole::kStandby : MemberRole::kJoining;
      break;
    case MetaRole::kCandidate:
      state.role = MemberRole::kCandidate;
      break;
    case MetaRole::kOpening:
      state.role = MemberRole::kOpening;
      break;
    case MetaRole::kPrimary:
      state.role = MemberRole::kOpening;
      if (!serving()) break;
      state.role = life_->set().HasAuthority(Now()) ? MemberRole::kPrimary : MemberRole::kStalled;
      state.durable = life_->primary()->rule().durable(options_.self);
      break;
  }
  return state;
}

// ---- What people ask for --------------------------------------------------------------------------

Task<Result<void>> MetaNode::HandOver(std::string to) {
  if (!serving()) co_return Error(FsError::kNotLeader, WhereSentence());
  // From the offer on nothing is answered until the coordinator has decided.
  if (!CoordinatorAnswers()) {
    co_return Error(FsError::kRetryLater, "the coordinator does not answer: roles stay as they are; " + coordinator_problem_);
  }
  const uint64_t term = life_->life().term;
  CO_ASSIGN_OR_RETURN(const std::string chosen, life_->BeginHandOver(std::move(to)));
  const int64_t until = Now() + options_.life.in_sync.handover_ns + kChangeNs;
  while (true) {
    co_await Sleep(kLookAgainNs);
    if (known() && known()->term > term) {
      if (known()->primary == chosen) co_return Ok();
      co_return Error(FsError::kConflict, known()->primary + " has become primary meanwhile");
    }
    const bool going_on = serving() && life_->life().term == term && life_->set().HoldsChanges();
    if (!going_on) co_return Error(FsError::kRetryLater, chosen + " did not catch up in time, or another change came first; try again");
    if (Now() >= until) {
      co_return Error(FsError::kRetryLater, "whether " + chosen + " is primary is not known: the coordinator does not answer");
    }
  }
}

Task<Result<Register>> MetaNode::Change(PrimaryLife::MakeNext make, std::function<bool(const Register&)> is_done) {
  if (!leads()) co_return Error(FsError::kNotLeader, WhereSentence());
  CO_ASSIGN_OR_RETURN(const Register next, life_->Change(make));
  const int64_t until = Now() + kChangeNs;
  while (known()->version < next.version) {
    if (Now() >= until) {
      co_return Error(FsError::kRetryLater, "whether the change was made is not known: the coordinator does not answer");
    }
    co_await Sleep(kLookAgainNs);
  }
  if (is_done(*known())) co_return *known();
  co_return Error(FsError::kRetryLater, "another change of the metadata servers came first; try again");
}

Task<Result<Register>> MetaNode::PromoteLosing(std::string again, std::set<std::string> answered) {
  if (std::exchange(reviving_, true)) co_return Error(FsError::kBusy, options_.self + " is being made primary already; see 'stria meta status'");
  const OneShot<Result<Register>> done;
  scope_.Spawn(TakeOverLosing(std::move(again), std::move(answered)), [this, done](Result<Register> r) {
    reviving_ = false;
    turn_.Set();
    done.Set(std::move(r));
  });
  co_return co_await done.Take();
}

Task<Result<Register>> MetaNode::TakeOverLosing(std::string again, std::set<std::string> answered) {
  const auto read = co_await WithTimeout(kCoordinatorCallNs, client_.Read());
  if (!read) co_return Error(FsError::kRetryLater, "the coordinator does not answer: roles stay as they are");
  if (!read->ok()) co_return read->error();
  if (!**read) co_return Error(FsError::kNoEnt, "the coordinator has nothing of these metadata servers; docs/operations.md says how to give it back");
  const Register now = ***read;
  // By what was asked for before.
  if (now.primary == options_.self) co_return now;
  Loss loss{options_.self, std::move(again), options_.uuid, true, std::move(answered), 0};
  if (const Result<Register> may = stria::PromoteLosing(now, loss, options_.nonce()); !may.ok()) co_return may.error();
  if (IsBusy(role()) || life_) co_return Error(FsError::kBusy, options_.self + " is about to be primary; see 'stria meta status'");
  if (!store_->whole() && !store_->reviving()) {
    co_return Error(FsError::kConflict, "the store of " + options_.self + " is not whole: restore from the backup on the data servers (stria meta restore)");
  }
  if (options_.alarm) {
    options_.alarm(options_.self + " becomes primary without what only " + now.primary + ", term " + std::to_string(now.term) + ", has: somebody has asked for that by name, twice");
  }
  following_ = false;
  roles_.BeNothing();
  joiner_work_.reset();
  joiner_.reset();
  ReplicaRevival revival;
  revival.incarnation = std::max(now.incarnation, store_->incarnation()) + 1;
  revival.chain = options_.nonce().lo;
  revival.store = options_.nonce();
  revival.wall_ns = Executor::Current().WallNs();
  const Result<ReviveResult> revived = co_await ReviveReplica(store_.get(), env_.kv, revival);
  if (!revived.ok()) co_return revived.error();
  loss.store_term = store_->last().term;
  const Result<Register> next = stria::PromoteLosing(now, loss, options_.nonce());
  if (!next.ok()) co_return next.error();
  for (int tries = 0; tries < kLosingTries; ++tries) {
    const std::optional<Result<Register>> there = co_await WithTimeout(kCoordinatorCallNs, client_.Swap({now, *next}));
    if (there && there->ok()) {
      SeeRegister(**there);
      if (**there == *next) co_return *next;
      if (**there != now) co_return Error(FsError::kConflict, "the metadata servers have changed meanwhile: see 'stria meta status'");
    }
    co_await Sleep(kSecond);
  }
  co_return Error(FsError::kRetryLater, "whether " + options_.self + " is primary is not known: the coordinator does not answer; ask again");
}

Task<void> MetaNode::Leave() {
  if (serving()) (void)co_await HandOver("");
  After(election_->Resign(Now()));
  // It follows as long as others reach it, and no longer seems to: to listen no more may take seconds.
  beats_->Close();
  while (life_) co_await Sleep(kLookAgainNs);
}

}  // namespace stria
