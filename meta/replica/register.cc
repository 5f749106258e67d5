#include "meta/replica/register.h"

#include <algorithm>
#include <cctype>
#include <limits>
#include <utility>

#include "common/sabotage.h"

namespace stria {
namespace {

constexpr uint64_t kHighestTerm = std::numeric_limits<uint64_t>::max() - 2 * kForcedTermJump;

Register After(const Register& now, const Uuid& nonce) {
  Register next = now;
  ++next.version;
  next.nonce = nonce;
  next.handed.reset();
  return next;
}

Result<Register> Checked(Register r) {
  RETURN_IF_ERROR(CheckRegister(r));
  return r;
}

// What comes back from text as it went in.
bool IsPlain(const std::string& text) {
  return text.size() <= kMaxMemberTextBytes && std::all_of(text.begin(), text.end(), [](char c) { return c >= ' ' && c <= '~'; });
}

Error Not(std::string sentence) { return Error(FsError::kConflict, std::move(sentence)); }

Result<void> IsPrimary(const Register& now, const MetaLife& self) {
  if (now.primary == self.member && now.term == self.term) return Ok();
  return Error(FsError::kNotLeader, self.member + " of term " + std::to_string(self.term) + " is not the primary: that is " + now.primary +
                                        " of term " + std::to_string(now.term));
}

Result<void> IsMember(const Register& now, const std::string& name, const Uuid& uuid) {
  const auto it = now.members.find(name);
  if (it == now.members.end()) return Error(FsError::kNoEnt, name + " is no member; 'stria meta status' lists them");
  if (it->second.uuid != uuid) {
    return Error(FsError::kStale, "the directory of " + name + " is not the one that the members know under this name: remove " + name +
                                      " and join it again");
  }
  return Ok();
}

}  // namespace

bool IsMemberName(std::string_view name) {
  return !name.empty() && name.size() <= kMaxMemberNameBytes && std::all_of(name.begin(), name.end(), [](unsigned char c) {
    return std::isalnum(c) != 0 || c == '-' || c == '_' || c == '.';
  });
}

uint32_t AutoMinInSync(size_t members) { return members >= 3 ? 2 : 1; }

uint32_t DueMinInSync(const Register& now, std::optional<uint32_t> chosen) {
  const auto members = static_cast<uint32_t>(now.members.size());
  const uint32_t wanted = std::min(chosen.value_or(AutoMinInSync(members)), members);
  if (wanted <= now.min_in_sync) return wanted;
  return std::max(now.min_in_sync, std::min(wanted, static_cast<uint32_t>(now.in_sync.size())));
}

Result<void> CheckRegister(const Register& r) {
  const auto wrong = [](std::string what) { return Error(FsError::kCorrupt, "the register of the metadata servers is wrong: " + what); };
  if (r.version == 0 || !r.nonce || r.incarnation == 0) return wrong("version, nonce or incarnation is missing");
  if (r.term == 0 || r.term > kHighestTerm) return wrong("term " + std::to_string(r.term));
  if (r.members.empty() || r.members.size() > kMaxMetaMembers) return wrong(std::to_string(r.members.size()) + " members");
  std::set<Uuid> uuids;
  for (const auto& [name, member] : r.members) {
    if (!IsMemberName(name)) return wrong("a member has a name that is none");
    if (!member.uuid || !uuids.insert(member.uuid).second) return wrong(name + " has no uuid of its own");
    if (member.address.empty() || !IsPlain(member.address)) return wrong(name + " has no address");
    if (!IsPlain(member.release)) return wrong(name + " is of a release that is none");
  }
  if (!r.in_sync.contains(r.primary)) return wrong("the primary " + r.primary + " is not in the set");
  for (const std::string& name : r.in_sync) {
    if (!r.members.contains(name)) return wrong(name + " is in the set and no member");
  }
  if (r.min_in_sync == 0 || r.min_in_sync > r.members.size()) return wrong("min_in_sync is " + std::to_string(r.min_in_sync));
  if (r.handed && (r.handed->term >= r.term || !r.members.contains(r.handed->member))) return wrong("it was handed over by nobody");
  return Ok();
}

Result<Register> Found(const Founding& f, const Uuid& nonce) {
  if (!IsMemberName(f.name)) return Error(FsError::kInval, "'" + f.name + "' is no name of a member: letters, digits, '-', '_' and '.'");
  Register r;
  r.version = 1;
  r.nonce = nonce;
  r.incarnation = f.incarnation;
  r.term = f.store_term + 1;
  r.primary = f.name;
  r.in_sync = {f.name};
  r.members[f.name] = f.member;
  r.min_in_sync = AutoMinInSync(1);
  return Checked(std::move(r));
}

Result<Register> FoundAgain(const Register& now, const Founding& f, const Uuid& nonce) {
  RETURN_IF_ERROR(IsMember(now, f.name, f.member.uuid));
  if (now.members.size() != 1) return Not(f.name + " is one of " + std::to_string(now.members.size()) + " members: it was not served alone");
  if (f.store_term <= now.term) return Not("the store of " + f.name + " is of term " + std::to_string(f.store_term) + ", the coordinator knows " + std::to_string(now.term));
  Register next = After(now, nonce);
  next.incarnation = std::max(now.incarnation, f.incarnation);
  next.term = f.store_term + 1;
  next.members[f.name] = f.member;
  return Checked(std::move(next));
}

Result<Register> FoundInPlaceOf(const Register& now, const Founding& f, const Uuid& nonce) {
  ASSIGN_OR_RETURN(Register next, Found(f, nonce));
  for (const auto& [name, member] : now.members) {
    if (member.uuid == f.member.uuid) return Not(f.name + " is a member already, as " + name + ": it takes nobody's place");
  }
  if (f.incarnation <= now.incarnation) {
    return Not("the store of " + f.name + " is of incarnation " + std::to_string(f.incarnation) + ", which the coordinator knows already");
  }
  next.version = now.version + 1;
  next.term = std::max(now.term + kForcedTermJump, next.term);
  return Checked(std::move(next));
}

Result<Register> TakeOver(const Register& now, const Claim& claim, const Uuid& nonce) {
  RETURN_IF_ERROR(IsMember(now, claim.member, claim.uuid));
  if (!now.in_sync.contains(claim.member) && !Sabotaged(Sabotage::kUncleanElection)) {
    return Not(claim.member + " is not in the in-sync set: acknowledged operations may be missing from it");
  }
  if (!claim.whole) return Not("the store of " + claim.member + " is not whole: it is still catching up");
  if (claim.highest_term > now.term) {
    return Not(claim.member + " knows term " + std::to_string(claim.highest_term) + ", the coordinator only " + std::to_string(now.term) +
               ": the coordinator was restored from an old state, or this read is late");
  }
  if (now.primary != claim.member && claim.silent_ns < claim.grace_ns) return Not("the primary " + now.primary + " was heard not long ago");
  Register next = After(now, nonce);
  next.term = now.term + 1;
  next.primary = claim.member;
  next.in_sync = {claim.member};
  for (const std::string& name : claim.same) {
    if (now.in_sync.contains(name)) next.in_sync.insert(name);
  }
  return Checked(std::move(next));
}

Result<Register> Shrink(const Register& now, const MetaLife& self, const Lapse& lapse, const Uuid& nonce) {
  RETURN_IF_ERROR(IsPrimary(now, self));
  if (!now.in_sync.contains(lapse.member)) return Not(lapse.member + " is not in the set");
  if (lapse.member == self.member) return Not("a primary does not leave the set that it serves");
  const bool silent = lapse.suspect_ns > 0 && lapse.silent_ns >= lapse.suspect_ns;
  const bool owes = lapse.ack_timeout_ns > 0 && lapse.owes_ns >= lapse.ack_timeout_ns;
  if (!silent && !owes && !lapse.diverged) return Not(lapse.member + " is heard, owes nothing for long, and has the same log");
  Register next = After(now, nonce);
  next.in_sync.erase(lapse.member);
  return Checked(std::move(next));
}

Result<Register> Grow(const Register& now, const MetaLife& self, const CaughtUp& caught, const Uuid& nonce) {
  RETURN_IF_ERROR(IsPrimary(now, self));
  RETURN_IF_ERROR(IsMember(now, caught.member, caught.uuid));
  if (now.in_sync.contains(caught.member)) return Not(caught.member + " is in the set already");
  if (!caught.whole) return Not("the store of " + caught.member + " is not whole");
  if (!Sabotaged(Sabotage::kGrowBeforeRequired)) {
    if (!caught.required) return Not("the acknowledgements of " + caught.member + " are not required yet");
    if (!caught.promises) return Not("no promise of " + caught.member + " holds");
    if (caught.durable < caught.required_from) return Not(caught.member + " has not synced what was committed when it became required");
  }
  Register next = After(now, nonce);
  next.in_sync.insert(caught.member);
  return Checked(std::move(next));
}

Result<Register> HandOver(const Register& now, const MetaLife& self, const Drained& drained, const Uuid& nonce) {
  RETURN_IF_ERROR(IsPrimary(now, self));
  if (drained.to == self.member) return Not(drained.to + " is the primary already");
  if (!now.in_sync.contains(drained.to)) return Not(drained.to + " is not in the in-sync set: it would lack acknowledged operations");
  if (!drained.stopped) return Not(self.member + " still serves");
  if (drained.committed != drained.last || drained.durable != drained.last) return Not(drained.to + " does not have everything yet");
  Register next = After(now, nonce);
  next.term = now.term + 1;
  next.primary = drained.to;
  next.handed = self;
  return Checked(std::move(next));
}

Result<Register> AddMember(const Register& now, const MetaLife& self, const std::string& name, const MetaMember& member, const Uuid& nonce) {
  RETURN_IF_ERROR(IsPrimary(now, self));
  if (!IsMemberName(name)) return Error(FsError::kInval, "'" + name + "' is no name of a member: letters, digits, '-', '_' and '.'");
  if (now.members.contains(name)) return Error(FsError::kExist, name + " is a member already; remove it first if its disk is another");
  if (now.members.size() >= kMaxMetaMembers) {
    return Error(FsError::kNoSpace, "there are " + std::to_string(kMaxMetaMembers) + " members, more are not supported; remove one first");
  }
  for (const auto& [other, known] : now.members) {
    if (known.uuid == member.uuid) return Error(FsError::kExist, "that directory is the one of " + other + ", or a copy of it");
    if (known.address == member.address) return Error(FsError::kExist, other + " has the address " + member.address);
  }
  Register next = After(now, nonce);
  next.members[name] = member;
  if (now.min_in_sync == AutoMinInSync(now.members.size())) next.min_in_sync = DueMinInSync(next, std::nullopt);
  return Checked(std::move(next));
}

Result<Register> RemoveMember(const Register& now, const MetaLife& self, const std::string& name, const Uuid& nonce) {
  RETURN_IF_ERROR(IsPrimary(now, self));
  if (!now.members.contains(name)) return Error(FsError::kNoEnt, name + " is no member; 'stria meta status' lists them");
  if (now.in_sync.contains(name)) return Error(FsError::kBusy, name + " is in the in-sync set: stop it first, then it leaves the set");
  Register next = After(now, nonce);
  next.members.erase(name);
  if (now.min_in_sync == AutoMinInSync(now.members.size())) next.min_in_sync = AutoMinInSync(next.members.size());
  if (next.min_in_sync > next.members.size()) {
    return Error(FsError::kInval, "min_in_sync is " + std::to_string(next.min_in_sync) + ": without " + name + " there are fewer members; lower it first");
  }
  return Checked(std::move(next));
}

Result<Register> UpdateMember(const Register& now, const MetaLife& self, const std::string& name, const MetaMember& member, const Uuid& nonce) {
  RETURN_IF_ERROR(IsPrimary(now, self));
  RETURN_IF_ERROR(IsMember(now, name, member.uuid));
  for (const auto& [other, known] : now.members) {
    if (other != name && known.address == member.address) return Error(FsError::kExist, other + " has the address " + member.address);
  }
  Register next = After(now, nonce);
  next.members[name] = member;
  return Checked(std::move(next));
}

Result<Register> SetMinInSync(const Register& now, const MetaLife& self, uint32_t min_in_sync, const Uuid& nonce) {
  RETURN_IF_ERROR(IsPrimary(now, self));
  if (min_in_sync == 0 || min_in_sync > now.members.size()) {
    return Error(FsError::kInval, "min_in_sync is from 1 to the number of members, " + std::to_string(now.members.size()));
  }
  Register next = After(now, nonce);
  next.min_in_sync = min_in_sync;
  return Checked(std::move(next));
}

Result<Register> PromoteLosing(const Register& now, const Loss& loss, const Uuid& nonce) {
  if (loss.name != loss.name_again) {
    return Error(FsError::kInval, "the two names differ, '" + loss.name + "' and '" + loss.name_again + "': nothing was changed");
  }
  RETURN_IF_ERROR(IsMember(now, loss.name, loss.uuid));
  if (now.in_sync.contains(loss.name)) return Not(loss.name + " is in the in-sync set: 'stria meta promote' without --lose loses nothing");
  for (const std::string& name : loss.answered) {
    if (now.in_sync.contains(name)) return Not(name + " is alive and has everything: promote that one, and nothing is lost");
  }
  if (!loss.revived) return Not("the store of " + loss.name + " was not made fit to be served after a loss");
  Register next = After(now, nonce);
  ++next.incarnation;
  next.term = std::max(now.term + kForcedTermJump, loss.store_term);
  next.primary = loss.name;
  next.in_sync = {loss.name};
  return Checked(std::move(next));
}

SwapFate FateOf(const RegisterSwap& swap, const Register& seen) {
  if (seen == swap.value) return SwapFate::kDone;
  return seen == swap.old ? SwapFate::kUndecided : SwapFate::kNever;
}

}  // namespace stria
