#include "common/error.h"

#include <cerrno>
#include <cstring>

namespace stria {

std::string_view FsErrorName(FsError e) {
  switch (e) {
    case FsError::kOk: return "Ok";
    case FsError::kPerm: return "Perm";
    case FsError::kNoEnt: return "NoEnt";
    case FsError::kIntr: return "Intr";
    case FsError::kIo: return "Io";
    case FsError::kNxio: return "Nxio";
    case FsError::kTooBig: return "TooBig";
    case FsError::kBadF: return "BadF";
    case FsError::kAgain: return "Again";
    case FsError::kNoMem: return "NoMem";
    case FsError::kAccess: return "Access";
    case FsError::kBusy: return "Busy";
    case FsError::kExist: return "Exist";
    case FsError::kXdev: return "Xdev";
    case FsError::kNotDir: return "NotDir";
    case FsError::kIsDir: return "IsDir";
    case FsError::kInval: return "Inval";
    case FsError::kTxtBusy: return "TxtBusy";
    case FsError::kFBig: return "FBig";
    case FsError::kNoSpace: return "NoSpace";
    case FsError::kRoFs: return "RoFs";
    case FsError::kMLink: return "MLink";
    case FsError::kRange: return "Range";
    case FsError::kDeadlock: return "Deadlock";
    case FsError::kNameTooLong: return "NameTooLong";
    case FsError::kNoLock: return "NoLock";
    case FsError::kNoSys: return "NoSys";
    case FsError::kNotEmpty: return "NotEmpty";
    case FsError::kLoop: return "Loop";
    case FsError::kNoData: return "NoData";
    case FsError::kOverflow: return "Overflow";
    case FsError::kNotSupported: return "NotSupported";
    case FsError::kStale: return "Stale";
    case FsError::kQuota: return "Quota";
    case FsError::kTimedOut: return "TimedOut";
    case FsError::kFenced: return "Fenced";
    case FsError::kNotLeader: return "NotLeader";
    case FsError::kUnavailable: return "Unavailable";
    case FsError::kDeadline: return "Deadline";
    case FsError::kWrongCluster: return "WrongCluster";
    case FsError::kBadToken: return "BadToken";
    case FsError::kTokenExpired: return "TokenExpired";
    case FsError::kNoSuchShard: return "NoSuchShard";
    case FsError::kShardExists: return "ShardExists";
    case FsError::kShardSealed: return "ShardSealed";
    case FsError::kChecksum: return "Checksum";
    case FsError::kDiskFailed: return "DiskFailed";
    case FsError::kTooFewDomains: return "TooFewDomains";
    case FsError::kRetryLater: return "RetryLater";
    case FsError::kBadRequest: return "BadRequest";
    case FsError::kVersion: return "Version";
    case FsError::kCancelled: return "Cancelled";
    case FsError::kCorrupt: return "Corrupt";
    case FsError::kConflict: return "Conflict";
    case FsError::kNotReady: return "NotReady";
    case FsError::kLapsed: return "Lapsed";
    case FsError::kAllEmptied: return "AllEmptied";
  }
  return "Unknown";
}

int ToErrno(FsError e) {
  switch (e) {
    case FsError::kOk: return 0;
    case FsError::kPerm: return EPERM;
    case FsError::kNoEnt: return ENOENT;
    case FsError::kIntr: return EINTR;
    case FsError::kIo: return EIO;
    case FsError::kNxio: return ENXIO;
    case FsError::kTooBig: return E2BIG;
    case FsError::kBadF: return EBADF;
    case FsError::kAgain: return EAGAIN;
    case FsError::kNoMem: return ENOMEM;
    case FsError::kAccess: return EACCES;
    case FsError::kBusy: return EBUSY;
    case FsError::kExist: return EEXIST;
    case FsError::kXdev: return EXDEV;
    case FsError::kNotDir: return ENOTDIR;
    case FsError::kIsDir: return EISDIR;
    case FsError::kInval: return EINVAL;
    case FsError::kTxtBusy: return ETXTBSY;
    case FsError::kFBig: return EFBIG;
    case FsError::kNoSpace: return ENOSPC;
    case FsError::kRoFs: return EROFS;
    case FsError::kMLink: return EMLINK;
    case FsError::kRange: return ERANGE;
    case FsError::kDeadlock: return EDEADLK;
    case FsError::kNameTooLong: return ENAMETOOLONG;
    case FsError::kNoLock: return ENOLCK;
    case FsError::kNoSys: return ENOSYS;
    case FsError::kNotEmpty: return ENOTEMPTY;
    case FsError::kLoop: return ELOOP;
    case FsError::kNoData: return ENODATA;
    case FsError::kOverflow: return EOVERFLOW;
    case FsError::kNotSupported: return EOPNOTSUPP;
    case FsError::kStale: return ESTALE;
    case FsError::kQuota: return EDQUOT;
    case FsError::kTimedOut: return ETIMEDOUT;
    // Not "no space": deleting files would not help.
    case FsError::kTooFewDomains:
    case FsError::kFenced:
    case FsError::kNotLeader:
    case FsError::kUnavailable:
    case FsError::kDeadline:
    case FsError::kWrongCluster:
    case FsError::kBadToken:
    case FsError::kTokenExpired:
    case FsError::kNoSuchShard:
    case FsError::kShardExists:
    case FsError::kShardSealed:
    case FsError::kChecksum:
    case FsError::kDiskFailed:
    case FsError::kRetryLater:
    case FsError::kBadRequest:
    case FsError::kVersion:
    case FsError::kCancelled:
    case FsError::kCorrupt:
    case FsError::kConflict:
    case FsError::kNotReady:
    case FsError::kLapsed:
    case FsError::kAllEmptied: return EIO;
  }
  return EIO;
}

FsError FromErrno(int err) {
  if (err == 0) return FsError::kOk;
  for (uint16_t n = 1; n <= static_cast<uint16_t>(FsError::kTimedOut); ++n) {
    if (IsKnownFsError(n) && ToErrno(static_cast<FsError>(n)) == err) return static_cast<FsError>(n);
  }
  return FsError::kIo;
}

bool IsKnownFsError(uint16_t number) {
  return number <= static_cast<uint16_t>(FsError::kTimedOut) ||
         (number >= static_cast<uint16_t>(FsError::kFenced) && number <= static_cast<uint16_t>(FsError::kAllEmptied));
}

bool IsRetryable(FsError e) {
  return e == FsError::kUnavailable || e == FsError::kDeadline || e == FsError::kRetryLater ||
         e == FsError::kNotLeader || e == FsError::kNotReady || e == FsError::kLapsed;
}

std::string Error::ToString() const {
  std::string out(FsErrorName(code));
  if (!message.empty()) out += ": " + message;
  return out;
}

Error Error::WithContext(std::string_view context) const {
  Error e(code, message.empty() ? std::string(context) : std::string(context) + ": " + message);
  e.denies = denies;
  return e;
}

std::ostream& operator<<(std::ostream& os, const Error& e) { return os << e.ToString(); }

Error ErrnoError(int err, std::string_view what) {
  return Error(FromErrno(err), "cannot " + std::string(what) + ": " + std::strerror(err));
}

}  // namespace stria
