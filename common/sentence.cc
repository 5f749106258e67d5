#include "common/sentence.h"

#include <cctype>
#include <cstdio>
#include <cstring>

#include "common/printable.h"

namespace stria {
namespace {

// A sentence for an error that came without one. Codes with an errno of their own are worded as libc does.
const char* Reason(FsError e) {
  switch (e) {
    case FsError::kPerm: return "only root, or the owner, may do that";
    case FsError::kAccess: return "permissions do not allow that";
    case FsError::kFenced: return "the metadata server has given this program up, as it was not heard from: start it again";
    case FsError::kNotLeader: return "another metadata server is in charge";
    case FsError::kUnavailable: return "the server cannot be reached";
    case FsError::kDeadline: return "the server did not answer in time";
    case FsError::kWrongCluster: return "that belongs to another cluster, or to this one before its metadata was restored";
    case FsError::kBadToken: return "the data server does not take this access: has it the same cluster key as the metadata server?";
    case FsError::kTokenExpired: return "the access to this shard has run out";
    case FsError::kNoSuchShard: return "the data server does not have this shard";
    case FsError::kShardExists: return "the data server has this shard already";
    case FsError::kShardSealed: return "this shard is written already";
    case FsError::kChecksum: return "the bytes are not those that were written";
    case FsError::kDiskFailed: return "the disk has failed";
    case FsError::kTooFewDomains: return "there are too few nodes or disks for this layout";
    case FsError::kRetryLater: return "the server is busy, or has just been started: try again";
    case FsError::kBadRequest: return "the server does not understand this request";
    case FsError::kVersion: return "the server is of another version, and does not know this";
    case FsError::kCancelled: return "it was cancelled";
    case FsError::kCorrupt: return "a record on disk cannot be read";
    case FsError::kConflict: return "another client has changed it meanwhile";
    case FsError::kNotReady: return "the server is starting";
    case FsError::kAllEmptied: return "every disk is being emptied, so that nothing can be written";
    case FsError::kLapsed: return "the metadata server has not heard from this program for too long";
    default: return nullptr;
  }
}

}  // namespace

std::string SentenceOf(const Error& e) {
  if (!e.message.empty()) return e.message;
  if (const char* reason = Reason(e.code)) return reason;
  std::string text = std::strerror(ToErrno(e.code));
  text[0] = static_cast<char>(std::tolower(static_cast<unsigned char>(text[0])));
  return text;
}

void SaySentence(std::string_view program, std::string_view sentence) {
  std::fprintf(stderr, "%s: %s\n", std::string(program).c_str(), Printable(sentence).c_str());
}

}  // namespace stria
