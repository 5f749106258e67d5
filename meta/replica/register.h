// The register: what the metadata servers of a cluster agree on, one small value at the coordinator (api/coordinator.h). Who is a
// member, who of them has every acknowledged durable operation (the in-sync set), who serves, and in which term.
//
// Every change is a transition below. Each takes the value that was read and what its caller knows, checks the rule under which it may
// be asked for, and gives the value to swap in; it is good against exactly the value that it was made from. An error is a sentence
// that says which rule does not hold. Pure; any thread.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "common/error.h"
#include "common/ids.h"

namespace stria {

inline constexpr size_t kMaxMetaMembers = 5;
inline constexpr size_t kMaxMemberNameBytes = 64;
inline constexpr size_t kMaxMemberTextBytes = 256;  // an address, a release: printable ASCII
inline constexpr uint64_t kForcedTermJump = uint64_t{1} << 32;  // as a restored store's (meta/backup/revive.h)

// A metadata server's data directory.
struct MetaMember {
  Uuid uuid;            // of the directory: one that was wiped or copied is another member
  std::string address;  // host:port
  std::string release;
  uint32_t features = 0;  // what it can read
  bool operator==(const MetaMember&) const = default;
};

// A member while it serves one term.
struct MetaLife {
  std::string member;
  uint64_t term = 0;
  bool operator==(const MetaLife&) const = default;
};

struct Register {
  uint64_t version = 0;      // one more with each change, from 1
  Uuid nonce;                // of the attempt that wrote it: no value comes twice
  uint64_t incarnation = 0;  // one more whenever acknowledged operations were given up
  uint64_t term = 0;
  std::string primary;             // of in_sync
  std::set<std::string> in_sync;   // of members
  uint32_t min_in_sync = 1;        // so many of the set are needed for a durable answer
  std::optional<MetaLife> handed;  // the life that gave its place away by the last change
  std::map<std::string, MetaMember> members;
  bool operator==(const Register&) const = default;
};

// 1 to kMaxMemberNameBytes letters, digits, '-', '_' and '.'.
bool IsMemberName(std::string_view name);
// What holds of every register; kCorrupt with what does not.
Result<void> CheckRegister(const Register& r);
// min_in_sync for so many members, if nobody chose it: 1, and 2 from three on.
uint32_t AutoMinInSync(size_t members);

// What min_in_sync is to be now; `chosen` by a person, or by the number of members. It is lowered at once, and grows no further than the
// set has grown: a member that still copies, which takes as long as it takes, is waited for by nobody.
uint32_t DueMinInSync(const Register& now, std::optional<uint32_t> chosen);

// ---- T1: the first value, by a person, of the store that has everything ----
struct Founding {
  std::string name;
  MetaMember member;
  uint64_t store_term = 0;   // of the store
  uint64_t incarnation = 1;  // the store's, if a coordinator was lost (--adopt)
};
Result<Register> Found(const Founding& f, const Uuid& nonce);
// The same over a register whose only member this store is: it was served alone since, in terms that the register does not know.
Result<Register> FoundAgain(const Register& now, const Founding& f, const Uuid& nonce);
// And over a register of others, when a person says that all of them are lost: what they acknowledged and this store lacks is given up.
// The term is above all that they can have been in. None of them is a member any more.
Result<Register> FoundInPlaceOf(const Register& now, const Founding& f, const Uuid& nonce);

// ---- T2, a new life of the primary; T3, a standby takes over ----
struct Claim {
  std::string member;
  Uuid uuid;
  bool whole = false;          // its store is what its log says (no marker of a rewind or a copy)
  uint64_t highest_term = 0;   // of its store, and of those that it has promised to
  int64_t silent_ns = 0;       // since it heard of the primary; since its own start, if that is less
  int64_t grace_ns = 0;        // G
  std::set<std::string> same;  // those that said that their log is a prefix of its own
};
Result<Register> TakeOver(const Register& now, const Claim& claim, const Uuid& nonce);

// ---- T4: the primary drops a member from the set. That member's acknowledgements and promise stay required until the new value
// has been read ----
struct Lapse {
  std::string member;
  int64_t silent_ns = 0, suspect_ns = 0;    // since it answered a beat; how long that may be
  int64_t owes_ns = 0, ack_timeout_ns = 0;  // since the oldest acknowledgement that it owes; how long that may be
  bool diverged = false;                    // its log is no prefix of the primary's
};
Result<Register> Shrink(const Register& now, const MetaLife& self, const Lapse& lapse, const Uuid& nonce);

// ---- T5: the primary adds one. That one's acknowledgements and promise are required already ----
struct CaughtUp {
  std::string member;
  Uuid uuid;
  bool whole = false;
  bool required = false;           // no durable answer goes out without it, no authority counts without its promise
  bool promises = false;           // its promise holds now
  uint64_t durable = 0;            // the last sequence that it has synced
  uint64_t required_from = 0;      // what was committed when it became required
};
Result<Register> Grow(const Register& now, const MetaLife& self, const CaughtUp& caught, const Uuid& nonce);

// ---- T6: the primary gives its place away ----
struct Drained {
  std::string to;
  bool stopped = false;  // it serves nothing any more, whatever becomes of the swap, until that is decided
  uint64_t last = 0;     // of the primary's log
  uint64_t committed = 0;
  uint64_t durable = 0;  // of `to`
};
Result<Register> HandOver(const Register& now, const MetaLife& self, const Drained& drained, const Uuid& nonce);

// ---- T7: members, by a person, through the primary. Adding one gives it no place in the set. `min_in_sync` follows
// AutoMinInSync if it was what that gives, as far as DueMinInSync lets it ----
Result<Register> AddMember(const Register& now, const MetaLife& self, const std::string& name, const MetaMember& member, const Uuid& nonce);
Result<Register> RemoveMember(const Register& now, const MetaLife& self, const std::string& name, const Uuid& nonce);
// Address, release and features of a member that is there; its uuid stays what it is.
Result<Register> UpdateMember(const Register& now, const MetaLife& self, const std::string& name, const MetaMember& member, const Uuid& nonce);
Result<Register> SetMinInSync(const Register& now, const MetaLife& self, uint32_t min_in_sync, const Uuid& nonce);

// ---- T8: a member that is not in the set becomes primary, by a person: what only the set has is given up ----
struct Loss {
  std::string name, name_again;    // as the person gave it, twice
  Uuid uuid;                       // of the store that was revived
  bool revived = false;            // ReviveStore has run on it
  std::set<std::string> answered;  // members that were reached just now, but for that one
  uint64_t store_term = 0;         // of the revived store
};
Result<Register> PromoteLosing(const Register& now, const Loss& loss, const Uuid& nonce);

// ---- A swap that was asked for ----
struct RegisterSwap {
  Register old, value;
  bool operator==(const RegisterSwap&) const = default;
};
enum class SwapFate : uint8_t {
  kUndecided,  // it may be carried out still: ask for the same again, and reckon with both values
  kDone,
  kNever,  // from now on
};
// What a value that was read says of a swap. REQUIRES: `seen` is no older than swap.old (its version says so).
SwapFate FateOf(const RegisterSwap& swap, const Register& seen);

}  // namespace stria
