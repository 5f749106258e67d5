// Errors. FsError is the closed list of failures as a caller anywhere in Stria sees them; it crosses the wire by number, and
// one exhaustive switch (ToErrno) maps it to errno. Error adds one sentence for people. Result<T> is a T or an Error.
//
// Rules: CHECK (common/check.h) is for a programmer's mistake, Error for the world; corrupt bytes on
// a disk or a wire are the world. Context is added once, at the layer that knows the inode or stripe.
#pragma once

#include <cstdint>
#include <ostream>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

#include "common/check.h"
#include "common/compiler.h"

namespace stria {

// Numbers are on the wire and in stored replies: append only.
enum class FsError : uint16_t {
  kOk = 0,
  // Those that applications see, named after their errno.
  kPerm = 1,
  kNoEnt = 2,
  kIntr = 3,
  kIo = 4,
  kNxio = 5,
  kTooBig = 6,  // E2BIG
  kBadF = 7,
  kAgain = 8,
  kNoMem = 9,
  kAccess = 10,
  kBusy = 11,
  kExist = 12,
  kXdev = 13,
  kNotDir = 14,
  kIsDir = 15,
  kInval = 16,
  kTxtBusy = 17,
  kFBig = 18,
  kNoSpace = 19,
  kRoFs = 20,
  kMLink = 21,
  kRange = 22,
  kDeadlock = 23,
  kNameTooLong = 24,
  kNoLock = 25,
  kNoSys = 26,
  kNotEmpty = 27,
  kLoop = 28,
  kNoData = 29,
  kOverflow = 30,
  kNotSupported = 31,
  kStale = 32,
  kQuota = 33,
  kTimedOut = 34,
  // Those that Stria's own programs act on.
  kFenced = 64,         // the session has expired or was replaced; nothing it sends is taken any more
  kNotLeader = 65,      // ask another metadata address
  kUnavailable = 66,    // not reached, or connection lost: the request may or may not have been done
  kDeadline = 67,       // no answer in time: the request may or may not have been done
  kWrongCluster = 68,   // the peer belongs to another cluster or another incarnation of it
  kBadToken = 69,       // token missing, forged, or for something else
  kTokenExpired = 70,   // fetch a new one
  kNoSuchShard = 71,    // refetch extents before suspecting loss
  kShardExists = 72,
  kShardSealed = 73,    // no more writes to it
  kChecksum = 74,       // bytes are not the ones that were written
  kDiskFailed = 75,     // the disk returned an error; it is fenced or retired
  kTooFewDomains = 76,  // the cluster cannot hold this layout; the message says how to go on
  kRetryLater = 77,     // overloaded, or waiting for reclaims after a restart
  kBadRequest = 78,     // malformed, oversized, or out of protocol
  kVersion = 79,        // protocol or format version not understood
  kCancelled = 80,
  kCorrupt = 81,        // a record on disk does not decode
  kConflict = 82,       // the caller's view is out of date (version, lease): refresh and retry
  kNotReady = 83,       // starting up
  kLapsed = 84,         // the session's lease has run out: it must come back (OpenSession) before anything else
  kAllEmptied = 85,     // every disk is being emptied: nothing can be written until a person changes that
};

// The name without k, for logs and --json: "NoEnt".
std::string_view FsErrorName(FsError e);
// errno for an application. kOk gives 0.
int ToErrno(FsError e);
// For errors of system calls. 0 gives kOk; unknown ones give kIo.
FsError FromErrno(int err);
// False for numbers that are not in the list (decoders use it).
bool IsKnownFsError(uint16_t number);
// True if the same request may be sent again in the hope of another answer.
bool IsRetryable(FsError e);

struct Error {
  FsError code = FsError::kOk;
  // Who asked is not one who may, whatever was asked: the audit is told. What a file's permissions do not allow is no denial.
  // Not on the wire, nor in stored replies.
  bool denies = false;
  std::string message;  // one sentence: the fault, its place, the remedy

  Error() = default;
  explicit Error(FsError c) : code(c) {}
  Error(FsError c, std::string m) : code(c), message(std::move(m)) {}
  // `m` names the caller, and says why.
  static Error Denial(std::string m, FsError c = FsError::kAccess) {
    Error e(c, std::move(m));
    e.denies = true;
    return e;
  }
  bool ok() const { return code == FsError::kOk; }
  // "NoSpace: disk n3:d2 is full"
  std::string ToString() const;
  // The same error (also as a denial) with "context: " before its message.
  Error WithContext(std::string_view context) const;
};

std::ostream& operator<<(std::ostream& os, const Error& e);
inline std::ostream& operator<<(std::ostream& os, FsError e) { return os << FsErrorName(e); }

// Error from errno, "cannot WHAT: strerror".
Error ErrnoError(int err, std::string_view what);

template <class T>
class [[nodiscard]] Result {
 public:
  using value_type = T;
  Result(T value) : v_(std::in_place_index<0>, std::move(value)) {}
  Result(Error e) : v_(std::in_place_index<1>, std::move(e)) {
    CHECK(!std::get<1>(v_).ok(), "Result<T> made from an Error that is ok");
  }
  Result(FsError e) : Result(Error(e)) {}

  bool ok() const { return v_.index() == 0; }
  FsError code() const { return ok() ? FsError::kOk : std::get<1>(v_).code; }
  // kOk error if ok().
  Error error() const& { return ok() ? Error() : std::get<1>(v_); }
  Error error() && { return ok() ? Error() : std::move(std::get<1>(v_)); }

  T& value() & {
    CHECK(ok(), std::get<1>(v_).ToString());
    return std::get<0>(v_);
  }
  const T& value() const& {
    CHECK(ok(), std::get<1>(v_).ToString());
    return std::get<0>(v_);
  }
  T&& value() && {
    CHECK(ok(), std::get<1>(v_).ToString());
    return std::move(std::get<0>(v_));
  }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T&& operator*() && { return std::move(*this).value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }

 private:
  std::variant<T, Error> v_;
};

template <>
class [[nodiscard]] Result<void> {
 public:
  using value_type = void;
  Result() = default;
  Result(Error e) : e_(std::move(e)) {}
  Result(FsError e) : e_(e) {}
  bool ok() const { return e_.ok(); }
  FsError code() const { return e_.code; }
  const Error& error() const { return e_; }
  void value() const { CHECK(ok(), e_.ToString()); }

 private:
  Error e_;
};

inline Result<void> Ok() { return {}; }

}  // namespace stria

#define STRIA_CONCAT_INNER(a, b) a##b
#define STRIA_CONCAT(a, b) STRIA_CONCAT_INNER(a, b)

// In functions returning Result<...> or Error: leave with the error of `expr`, if any.
#define RETURN_IF_ERROR(expr)                                        \
  do {                                                               \
    auto stria_r_ = (expr);                                          \
    if (!stria_r_.ok()) return std::move(stria_r_).error();          \
  } while (0)
#define ASSIGN_OR_RETURN_IMPL(tmp, lhs, expr)    \
  auto tmp = (expr);                             \
  if (!tmp.ok()) return std::move(tmp).error();  \
  lhs = std::move(tmp).value()
#define ASSIGN_OR_RETURN(lhs, expr) ASSIGN_OR_RETURN_IMPL(STRIA_CONCAT(stria_r_, __LINE__), lhs, expr)

// The same inside coroutines (`expr` may contain co_await).
#define CO_RETURN_IF_ERROR(expr)                                        \
  do {                                                                  \
    auto stria_r_ = (expr);                                             \
    if (!stria_r_.ok()) co_return std::move(stria_r_).error();          \
  } while (0)
#define CO_ASSIGN_OR_RETURN_IMPL(tmp, lhs, expr)    \
  auto tmp = (expr);                                \
  if (!tmp.ok()) co_return std::move(tmp).error();  \
  lhs = std::move(tmp).value()
#define CO_ASSIGN_OR_RETURN(lhs, expr) \
  CO_ASSIGN_OR_RETURN_IMPL(STRIA_CONCAT(stria_r_, __LINE__), lhs, expr)
