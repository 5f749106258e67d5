// What metadata servers of one cluster say to each other: the primary ships the batches of its store to the others, and a
// member that has fallen behind asks for the missing ones. Implemented by meta/replica and by proto/ (a client stub over a transport).
//
// A *log* is every batch of a store, numbered densely from 1, each with the term of the primary that made it. The chain of a
// point hashes all batches up to it: two logs with the same point are the same up to there.
//
// DataHeader::incarnation is that of the caller's store (0: the caller has none yet). A Decode of these messages checks sizes only;
// the service judges terms and points.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "api/data_api.h"
#include "common/buffer.h"
#include "common/exec/task.h"
#include "common/ids.h"

namespace stria {

inline constexpr size_t kMaxShippedBatches = 4096;   // of one Append
inline constexpr size_t kMaxFetchKeys = 4096;        // of one FetchKeys
inline constexpr size_t kMaxTermRuns = 4096;         // of one history

struct LogPoint {
  CommitSeq seq;
  uint64_t term = 0;
  uint64_t chain = 0;
  bool operator==(const LogPoint&) const = default;
};

// The batches from `first` to the next run's first are of this term.
struct TermRun {
  uint64_t term = 0;
  CommitSeq first;
  bool operator==(const TermRun&) const = default;
};

struct ShippedBatch {
  uint64_t term = 0;
  uint64_t length = 0;  // of its bytes in the payload
};

// Also the primary's beat: then it has no batches.
struct AppendRequest {
  DataHeader header;
  uint64_t term = 0;
  std::string primary;         // its member name
  std::string to;              // the name of the member that the caller means; "": not said
  uint64_t version = 0;        // of the register, as far as the primary has read it
  int64_t token_time_ns = 0;   // the primary's time for tokens, nanoseconds since 1970 (common/token_clock.h)
  bool follows = false;        // the batches follow `prev`; else there are none, and `prev` says nothing
  LogPoint prev;
  std::vector<ShippedBatch> batches;
  CommitSeq commit;            // everything up to it is durable on every member of the set
  bool sync = false;           // the member answers when all received batches are durable
  bool join = false;           // the member's log does not go on where the primary's does: the member calls Join
  bool over = false;           // the primary answers nothing more in this term, and never will: what was promised to it binds nobody. No beat
  BufferChain payload;         // the batches one after the other (EncodeArchivedBatch)
};
enum class AppendResult : uint8_t {
  kTaken = 1,
  kMismatch = 2,  // the member's log does not have `prev`, or has another batch where these should go: it took nothing more
  kOldTerm = 3,   // the member knows a higher term: the caller is primary no more
};
struct AppendReply {
  AppendResult result = AppendResult::kTaken;
  uint64_t term = 0;   // the highest that the answering member knows
  LogPoint last;       // received, in the journal
  LogPoint durable;    // only if `sync` asked for it, and the store was whole then
  bool whole = false;  // the member's store is the one that its log makes
  LogPoint fetched;    // if it is not whole: the store is whole when it has this point; seq 0: when it has copied everything
};

struct ReplicaJoinRequest {
  DataHeader header;
  uint64_t term = 0;
  std::string member;
  LogPoint last;
  std::vector<TermRun> history;  // without gaps, the oldest first
  bool whole = false;
  LogPoint fetched;  // as AppendReply's
  bool copy = false;  // the member takes nothing but a copy
};
enum class JoinVerdict : uint8_t {
  kTail = 1,    // the member's log is the beginning of the primary's: Append goes on
  kRewind = 2,  // the member goes back to `common`, and fetches (FetchKeys) the keys that its batches beyond that have touched
  kCopy = 3,    // the member fetches everything (FetchPage); its log then begins at `common`
  kWait = 4,    // the member is in the set, and has to leave it first: it asks again
};
struct ReplicaJoinReply {
  JoinVerdict verdict = JoinVerdict::kWait;
  uint64_t term = 0;
  uint64_t incarnation = 0;
  LogPoint common;
  std::vector<TermRun> history;  // of kCopy: up to `common`
};

struct FetchKey {
  uint8_t family = 0;
  std::string key;
  bool operator==(const FetchKey&) const = default;
  auto operator<=>(const FetchKey&) const = default;
};
struct FetchKeysRequest {
  DataHeader header;
  uint64_t term = 0;
  std::vector<FetchKey> keys;
};
struct FetchKeysReply {
  uint64_t answered = 0;  // of the keys, from the first; at least one
  LogPoint at;            // the values are those that the store had at this point
  BufferChain payload;    // a batch of puts and deletes (EncodeArchivedBatch)
};

// The primary keeps nothing between two of these: a member may ask for any page again.
struct FetchPageRequest {
  DataHeader header;
  uint64_t term = 0;
  uint8_t family = 0;
  std::string from;  // the first key, inclusive
};
struct FetchPageReply {
  LogPoint at;
  bool end = false;         // this was the last page
  uint8_t next_family = 0;  // where the next one begins
  std::string next_from;
  BufferChain payload;      // a batch of puts
};

class ReplicaService {
 public:
  virtual ~ReplicaService() = default;
  // kNotReady: the member answers no primary now (it has not read the register yet, or asks for the place itself). kRetryLater: the
  // member has rewound the batches meanwhile that it was to make durable.
  virtual Task<Result<AppendReply>> Append(AppendRequest request) = 0;
  // Only the primary of exactly that term answers these three; others give kNotLeader.
  virtual Task<Result<ReplicaJoinReply>> Join(ReplicaJoinRequest request) = 0;
  virtual Task<Result<FetchKeysReply>> FetchKeys(FetchKeysRequest request) = 0;
  virtual Task<Result<FetchPageReply>> FetchPage(FetchPageRequest request) = 0;
};

// As DataConnector.
class ReplicaConnector {
 public:
  virtual ~ReplicaConnector() = default;
  virtual std::shared_ptr<ReplicaService> ConnectReplica(const std::string& address) = 0;
};

// ---- Each metadata server answers these, in whichever role -----------------------------------------

inline constexpr size_t kMaxListedMembers = 64;  // of one reply

// Which member is primary? With a wait this is a long poll: the member answers at once if it knows a term above known_term and that
// primary's address, else as soon as it does, and at the latest after wait_ns (at most a minute), with all that it knows then.
struct LocateRequest {
  DataHeader header;
  uint64_t known_term = 0;
  int64_t wait_ns = 0;
};
struct MemberAddress {
  std::string name;
  std::string address;  // host:port
};
// The address is a hint. Only that server's own answers prove its role and its term.
struct LocateReply {
  uint64_t term = 0;                   // the highest that this member knows; 0: it knows nothing yet
  std::string primary;                 // of that term; "" if not known
  std::string address;                 // the primary's; "" if not known
  std::vector<MemberAddress> members;  // all, by name, the primary too; empty if not known yet
};

// A member asks the others of the set before it takes over.
struct AskRequest {
  DataHeader header;
  std::string member;  // the caller's name
};
struct AskReply {
  uint64_t term = 0;  // the highest that it knows
  LogPoint last;
  std::vector<TermRun> history;  // of its log; empty: it has none yet
  bool whole = false;
  int64_t silent_ns = 0;  // since it heard of a primary; while it is primary itself: 0
};

enum class MemberRole : uint8_t {
  kUnreachable = 0,  // it did not answer the member that made this list
  kStarting = 1,     // has not read the register since its start
  kJoining = 2,      // catches up: it goes back, copies, or is not in the set yet
  kStandby = 3,      // of the set, follows
  kCandidate = 4,    // asks for the primary's place
  kOpening = 5,      // has that place, does not serve yet
  kPrimary = 6,      // serves
  kStalled = 7,      // is primary, and may answer nothing for the moment: it does not hear enough of the others
};
inline const char* MemberRoleName(MemberRole role);

struct MemberState {
  std::string name;
  Uuid uuid;            // of its data directory
  std::string address;  // host:port
  MemberRole role = MemberRole::kUnreachable;
  uint64_t term = 0;    // that it serves in or follows; 0 if not known
  CommitSeq last;       // of its log; 0 if not known
  CommitSeq durable;    // of these, on its own disk
  uint64_t lag = 0;     // batches that the primary has and it does not have durably, as far as the primary knows
  bool in_sync = false;  // the register names it: it has every acknowledged durable operation
  bool coordinator = false;      // it has reached the coordinator lately
  std::string coordinator_problem;  // why not; a sentence, "" if it has
  std::string problem;  // a sentence: why it does not follow, or does not serve; "" if it does
};
struct MemberStatusRequest {
  DataHeader header;
  bool alone = false;  // the asked member tells of itself only; else it asks the others, for at most a second
};
struct MemberStatusReply {
  std::string self;          // the name of the member that answers
  uint64_t version = 0;      // of the register, as that member has read it last; 0: it has not read it
  uint64_t incarnation = 0;
  uint64_t term = 0;
  std::string primary;       // "" if not known
  uint32_t min_in_sync = 0;  // a durable answer needs so many members of the set
  std::vector<MemberState> members;  // by name
};

enum class MemberChange : uint8_t {
  kPromote = 1,    // `name` becomes primary, by a planned hand-over; "": any of the set
  kAdd = 2,        // `name`, with uuid and address: it copies, and then enters the set
  kRemove = 3,     // `name`, which is not in the set
  kUpdate = 4,     // address, release and features of `name`
  kMinInSync = 5,  // min_in_sync
  kPromoteLosing = 6,  // `name`, which is not in the set, becomes primary: changes that only the set has are lost. `name_again` is the same
};
// Any member takes it, and hands it on to the primary; kPromoteLosing to the named member.
struct ChangeMembersRequest {
  DataHeader header;
  MemberChange change = MemberChange::kPromote;
  std::string name;
  Uuid uuid;
  std::string address;
  std::string release;
  uint32_t features = 0;
  uint32_t min_in_sync = 0;
  bool handed_on = false;  // a member has handed it on; nobody hands it on again
  std::string name_again;  // of kPromoteLosing: the name, which a person has given a second time
};
struct ChangeMembersReply {
  uint64_t version = 0;  // of the register, after it
  uint64_t term = 0;
  std::string primary;
};

class MemberService {
 public:
  virtual ~MemberService() = default;
  virtual Task<Result<LocateReply>> Locate(LocateRequest request) = 0;
  // kNotReady: the member has not read the register yet.
  virtual Task<Result<AskReply>> Ask(AskRequest request) = 0;
  virtual Task<Result<MemberStatusReply>> MemberStatus(MemberStatusRequest request) = 0;
  // The register has the change on return. kNotLeader: no primary is known; kBusy: another change is under way; kRetryLater: nobody
  // knows whether the change was carried out; kInval, kNoEnt, kExist: a sentence says what does not fit.
  virtual Task<Result<ChangeMembersReply>> ChangeMembers(ChangeMembersRequest request) = 0;
};

// As DataConnector.
class MemberConnector {
 public:
  virtual ~MemberConnector() = default;
  virtual std::shared_ptr<MemberService> ConnectMember(const std::string& address) = 0;
};

inline const char* MemberRoleName(MemberRole role) {
  switch (role) {
    case MemberRole::kUnreachable:
      return "unreachable";
    case MemberRole::kStarting:
      return "starting";
    case MemberRole::kJoining:
      return "joining";
    case MemberRole::kStandby:
      return "standby";
    case MemberRole::kCandidate:
      return "candidate";
    case MemberRole::kOpening:
      return "opening";
    case MemberRole::kPrimary:
      return "primary";
    case MemberRole::kStalled:
      return "stalled";
  }
  return "?";
}

}  // namespace stria
