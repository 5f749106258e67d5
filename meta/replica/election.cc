#include "meta/replica/election.h"

#include <algorithm>
#include <utility>

#include "common/sabotage.h"

namespace stria {

using Kind = ElectionAction::Kind;

const char* MetaRoleName(MetaRole role) {
  switch (role) {
    case MetaRole::kBoot:
      return "starting";
    case MetaRole::kStandby:
      return "standby";
    case MetaRole::kCandidate:
      return "candidate";
    case MetaRole::kOpening:
      return "opening";
    case MetaRole::kPrimary:
      return "primary";
  }
  return "?";
}

Result<void> CheckElectionTimes(int64_t beat_ns, int64_t suspect_ns, int64_t promise_ns, int64_t grace_ns) {
  const auto no = [](const char* why) { return Error(FsError::kInval, why); };
  if (beat_ns <= 0) return no("beat must be more than nothing");
  if (beat_ns > suspect_ns / 4) return no("suspect must be at least four beats, or a lost beat makes a member leave the set");
  if (suspect_ns >= promise_ns) return no("suspect must be less than promise, or reads wait for each member that is lost");
  if (2 * grace_ns < 3 * promise_ns) return no("grace must be at least one and a half of promise, or two servers could answer at a time");
  return Ok();
}

Election::Election(const ElectionOptions& options, Promises* promises, int64_t now_ns, std::function<Uuid()> nonce)
    : options_(options),
      promises_(promises),
      nonce_(std::move(nonce)),
      silent_from_ns_(Sabotaged(Sabotage::kForgetPromises) ? INT64_MIN / 2 : now_ns),
      read_at_ns_(now_ns) {}

void Election::Become(MetaRole role, int64_t now_ns) {
  role_ = role;
  const bool promises = role == MetaRole::kStandby || (role == MetaRole::kCandidate && Sabotaged(Sabotage::kPromiseAsCandidate));
  if (promises) {
    promises_->Open(known_ ? known_->term : 0);
  } else {
    promises_->Close();
  }
  if (role != MetaRole::kOpening && role != MetaRole::kPrimary) life_ = {};
  if (role != MetaRole::kStandby) read_at_ns_ = now_ns;
}

void Election::Read(int64_t now_ns, Actions* out) {
  const bool waits = role_ != MetaRole::kStandby && role_ != MetaRole::kPrimary;
  read_at_ns_ = now_ns + (waits ? options_.read_ns / 4 : options_.read_ns);
  out->push_back({Kind::kRead});
}

void Election::Alarm(std::string text, Actions* out) {
  if (text == alarmed_) return;
  alarmed_ = text;
  ElectionAction action{Kind::kAlarm};
  action.text = std::move(text);
  out->push_back(std::move(action));
}

void Election::Stop(int64_t now_ns, Actions* out) {
  ElectionAction action{Kind::kStop};
  action.life = life_;
  out->push_back(std::move(action));
  pending_.reset();
  silent_from_ns_ = now_ns;
  Become(MetaRole::kStandby, now_ns);
}

int64_t Election::SilentNs(int64_t now_ns) const {
  const Promises::Given last = promises_->Last();
  const int64_t silent_ns = now_ns - std::max(silent_from_ns_, last.at_ns);
  // Of a life that is over nothing more is heard.
  const bool over = last.over && (!known_ || last.to->term >= known_->term);
  return over ? std::max(silent_ns, options_.grace_ns) : silent_ns;
}

int64_t Election::GraceNs() const {
  return Sabotaged(Sabotage::kEagerTakeover) ? options_.grace_ns * 2 / 5 : options_.grace_ns;
}

bool Election::MayStand(int64_t now_ns, const OwnLog& own) const {
  if (!known_ || !own.whole || resigned_ || now_ns < pause_until_ns_) return false;
  if (known_->primary == options_.self) return true;  // T2
  if (!known_->in_sync.contains(options_.self) && !Sabotaged(Sabotage::kUncleanElection)) return false;
  return SilentNs(now_ns) >= GraceNs();
}

void Election::Stand(int64_t now_ns, Actions* out) {
  // A beat may have been answered since it was found that it may stand.
  if (known_->primary != options_.self && !promises_->CloseIfSilent(now_ns, GraceNs())) return;
  ++attempt_;
  stood_ns_ = now_ns;
  asked_.clear();
  fresh_ = false;
  Become(MetaRole::kCandidate, now_ns);
  ElectionAction ask{Kind::kAsk};
  ask.attempt = attempt_;
  out->push_back(std::move(ask));
  Read(now_ns, out);
}

void Election::OnAsked(uint64_t attempt, const std::string& member, const AskedMember& answer) {
  if (attempt != attempt_ || role_ != MetaRole::kCandidate || !answer.shape.IsValid()) return;
  asked_[member] = answer;
}

// Someone of the set with a longer log, or who still hears the primary, is let go first.
bool Election::SomebodyBetter(const OwnLog& own) const {
  return std::any_of(asked_.begin(), asked_.end(), [&](const auto& asked) {
    const auto& [name, answer] = asked;
    if (!known_->in_sync.contains(name) || !answer.whole) return false;
    const bool hears = known_->primary != options_.self && answer.silent_ns < options_.grace_ns / 2;
    return hears || IsLongerThan(answer.shape, own.shape);
  });
}

void Election::MakeClaim(int64_t now_ns, const OwnLog& own, Actions* out) {
  const int64_t stood = now_ns - stood_ns_;
  if (stood < options_.ask_ns || (SomebodyBetter(own) && stood < options_.ask_ns + options_.courtesy_ns)) return;
  Claim claim;
  claim.member = options_.self;
  claim.uuid = options_.uuid;
  claim.whole = own.whole;
  claim.highest_term = std::max(own.store_term, promises_->term());
  claim.silent_ns = SilentNs(now_ns);
  claim.grace_ns = GraceNs();
  for (const auto& [name, answer] : asked_) {
    if (answer.whole && IsPrefixOf(answer.shape, own.shape)) claim.same.insert(name);
  }
  Result<Register> next = TakeOver(*known_, claim, nonce_());
  if (!next.ok()) {
    if (claim.highest_term > known_->term) Alarm(next.error().message, out);
    pause_until_ns_ = now_ns + options_.pause_ns;
    return Become(MetaRole::kStandby, now_ns);
  }
  pending_ = RegisterSwap{*known_, std::move(next).value()};
  pending_own_ = known_->primary == options_.self && own.opened_term == known_->term;
  again_ns_ = now_ns + options_.again_ns;
  ElectionAction swap{Kind::kSwap};
  swap.swap = *pending_;
  out->push_back(std::move(swap));
}

void Election::Won(int64_t now_ns, const Register& seen, bool at_once, Actions* out) {
  pending_.reset();
  life_ = {options_.self, seen.term};
  at_once_ = at_once;
  Become(MetaRole::kOpening, now_ns);
  TryOpen(now_ns, out);
}

void Election::TryOpen(int64_t now_ns, Actions* out) {
  // A swap may have been carried out late: after beats were answered again, or by a process that is gone. Nobody else's authority may
  // rest on a promise of this member when it opens.
  const Promises::Given last = promises_->Last();
  const bool over = last.over || now_ns - last.at_ns >= options_.grace_ns;
  if (!at_once_ && !over && !Sabotaged(Sabotage::kEagerTakeover) && !Sabotaged(Sabotage::kPromiseAsCandidate)) return;
  Become(MetaRole::kPrimary, now_ns);
  ElectionAction open{Kind::kOpen};
  open.life = life_;
  open.reg = *known_;
  out->push_back(std::move(open));
}

Election::Actions Election::Tick(int64_t now_ns, const OwnLog& own) {
  Actions out;
  if (now_ns >= read_at_ns_) Read(now_ns, &out);
  switch (role_) {
    case MetaRole::kBoot:
    case MetaRole::kPrimary:
      break;
    case MetaRole::kStandby:
      if (MayStand(now_ns, own)) Stand(now_ns, &out);
      break;
    case MetaRole::kOpening:
      TryOpen(now_ns, &out);
      break;
    case MetaRole::kCandidate:
      if (pending_) break;  // kept until the register says what became of it
      if (fresh_) MakeClaim(now_ns, own, &out);
      if (role_ == MetaRole::kCandidate && !pending_ && now_ns - stood_ns_ >= options_.give_up_ns) {
        pause_until_ns_ = now_ns + options_.pause_ns;
        Become(MetaRole::kStandby, now_ns);
      }
      break;
  }
  return out;
}

Election::Actions Election::OnRegister(int64_t now_ns, const Register& seen, const OwnLog& own) {
  Actions out;
  if (known_ && seen.version < known_->version) {
    // Once it is a read that came late.
    if (!older_since_ns_) older_since_ns_ = now_ns;
    if (now_ns - *older_since_ns_ >= options_.grace_ns) {
      Alarm("the coordinator has version " + std::to_string(seen.version) + " of what it keeps of the metadata servers, and had version " +
                std::to_string(known_->version) + ": it was restored from an old state; roles stay as they are, and docs/operations.md says what to do",
            &out);
    }
    return out;
  }
  older_since_ns_.reset();
  if (known_ && seen.version == known_->version && seen != *known_) {
    if (role_ == MetaRole::kOpening || role_ == MetaRole::kPrimary) Stop(now_ns, &out);
    Alarm("the coordinator has two histories of the metadata servers: it was restored from an old state; docs/operations.md says what to do", &out);
    return out;
  }
  // Once it may be a read that came late.
  if (own.store_term <= seen.term) low_since_ns_.reset();
  if (own.store_term > seen.term && !low_since_ns_) low_since_ns_ = now_ns;
  if (low_since_ns_ && now_ns - *low_since_ns_ >= options_.grace_ns) {
    Alarm("the coordinator knows term " + std::to_string(seen.term) + ", the store of this server was opened in term " +
              std::to_string(own.store_term) + ": the coordinator was restored from an old state; docs/operations.md says what to do",
          &out);
  }
  const bool names_me = seen.primary == options_.self;
  // Another life has the place. It gets its time to be heard: the loser of the race must not take the place away again at once.
  const bool another = known_ && seen.term > known_->term && !names_me;
  if (another) silent_from_ns_ = now_ns;
  known_ = seen;
  fresh_ = true;
  if (role_ == MetaRole::kOpening || role_ == MetaRole::kPrimary) {
    if (!names_me || seen.term != life_.term) Stop(now_ns, &out);
    return out;
  }
  if (pending_) {
    switch (FateOf(*pending_, seen)) {
      case SwapFate::kDone:
        if (!resigned_) {
          Won(now_ns, seen, pending_own_, &out);
          return out;
        }
        pending_.reset();
        Become(MetaRole::kStandby, now_ns);
        break;
      case SwapFate::kUndecided:
        if (now_ns >= again_ns_ && !resigned_) {
          again_ns_ = now_ns + options_.again_ns;
          ElectionAction swap{Kind::kSwap};
          swap.swap = *pending_;
          out.push_back(std::move(swap));
        }
        return out;
      case SwapFate::kNever:
        pending_.reset();
        Become(MetaRole::kStandby, now_ns);
        break;
    }
  }
  // A read that comes late may show the life that this member has ended itself: that one does not begin again.
  const bool is_new = own.opened_term < seen.term;
  if (names_me && own.whole && is_new && !resigned_ && seen.handed && promises_->CloseIfLastTo(*seen.handed)) {
    Won(now_ns, seen, true, &out);  // from the very life that it promised to, which has stopped
  } else if (names_me) {
    // It was primary before its start, or a swap of its earlier life came through: a new life needs a new term.
    if (role_ == MetaRole::kBoot) Become(MetaRole::kStandby, now_ns);
    if (role_ == MetaRole::kStandby && MayStand(now_ns, own)) Stand(now_ns, &out);
  } else if (role_ == MetaRole::kBoot || (role_ == MetaRole::kCandidate && another)) {
    Become(MetaRole::kStandby, now_ns);
  } else if (role_ == MetaRole::kStandby) {
    promises_->Open(seen.term);
  }
  return out;
}

Election::Actions Election::OnTerm(int64_t now_ns, uint64_t term) {
  Actions out;
  const uint64_t mine = life_.term != 0 ? life_.term : known_ ? known_->term : 0;
  if (term <= mine) return out;
  if (role_ == MetaRole::kOpening || role_ == MetaRole::kPrimary) Stop(now_ns, &out);
  Read(now_ns, &out);
  return out;
}

Election::Actions Election::StepBack(int64_t now_ns, int64_t pause_ns) {
  Actions out;
  if (role_ != MetaRole::kOpening && role_ != MetaRole::kPrimary) return out;
  Stop(now_ns, &out);
  pause_until_ns_ = now_ns + pause_ns;
  return out;
}

Election::Actions Election::Resign(int64_t now_ns) {
  Actions out;
  resigned_ = true;
  if (role_ == MetaRole::kOpening || role_ == MetaRole::kPrimary) Stop(now_ns, &out);
  // A candidate whose swap is not decided promises nothing until it is.
  if (role_ == MetaRole::kCandidate && !pending_) Become(MetaRole::kStandby, now_ns);
  return out;
}

}  // namespace stria
