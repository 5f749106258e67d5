// Names that the kernel may have of the directories of a mount, and which replies gave them to it.
//
// The kernel asks for each name again at each use. The answer to that LOOKUP decides (fuse_dentry_revalidate). With the same
// inode the name stays. With another inode, none, or nearly any error the kernel takes the name for gone, and detaches the
// mounts on and below it, for every process. An error that says nothing about the name (no server answers, the session is gone,
// this caller may not ask) must not do that: LookupErrno.
//
// The kernel believes the name of a directory for kBelievedNs. When this mount renames the directory, the kernel may still ask
// for the old name before it has moved its own entry. The answer "not there" would end the directory wherever it is now
// (linux-fsdevel, "namei: fix revalidate vs. rename race"). So during the rename the mount answers that the old name is there
// (FuseAdapter::Moving). It answers the rename when the kernel believes the name for long enough, or has not asked for it
// lately (MayMove). After that answer a LOOKUP of the old name waits until the renaming thread has moved it, and one that began before
// is answered with the inode that the kernel had (name_moves.h). A client that changes such a name on another mount waits until
// this kernel surely does not believe it any more (Until).
//
// Bounded: at most kMaxNames; beyond that no name is known for sure. Not thread-safe.
#pragma once

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "client/fuse/kernel_inodes.h"
#include "common/error.h"
#include "common/ids.h"
#include "common/sabotage.h"
#include "common/units.h"

namespace stria {

// Errors of a LOOKUP that say that the name is not there, or cannot be.
inline bool SaysNameIsGone(FsError code) {
  return code == FsError::kNoEnt || code == FsError::kStale || code == FsError::kNotDir || code == FsError::kNameTooLong;
}

// The answer to a failed LOOKUP of a name that the kernel may have. ENOMEM is the one error at which every kernel keeps the
// name.
inline int LookupErrno(FsError code, bool kept, int otherwise) {
  return kept && !SaysNameIsGone(code) && !Sabotaged(Sabotage::kDropNames) ? ENOMEM : otherwise;
}

class KernelNames {
 public:
  static constexpr size_t kMaxNames = 256 * 1024;
  static constexpr int64_t kBelievedNs = 50 * kMillisecond;
  static constexpr int64_t kMoveNs = 25 * kMillisecond;   // the kernel moves a name within this, after the reply
  static constexpr int64_t kQuietNs = 10 * kMillisecond;  // a process that walks there all the time has asked within this
  // The kernel counts from when the thread that asked takes the answer, which may have to wait for a processor, and in
  // jiffies.
  static constexpr int64_t kLateNs = 80 * kMillisecond;
  static constexpr int64_t kJiffyNs = 10 * kMillisecond;  // the longest that there is

  // Before the reply that says so.
  void Given(InodeId dir, std::string_view name, uint64_t node, const KernelInodes& inodes) {
    if (names_.size() >= kMaxNames) {
      std::erase_if(names_, [&](const auto& n) { return inodes.SurelyUnknown(n.second.node); });
      more_ = more_ || names_.size() >= kMaxNames / 4 * 3;  // or each one would look at all again
    }
    if (more_) return;
    Name& n = names_[Key(dir, name)];
    if (n.node != node) n.since_ns = 0;
    n.node = node;
  }
  // It is of another kind now.
  void Drop(InodeId dir, std::string_view name) { names_.erase(Key(dir, name)); }
  // How long the kernel may be told to believe a name that was Given just now, if it asks for `ns`.
  int64_t Believe(InodeId dir, std::string_view name, int64_t ns, int64_t now_ns) {
    const auto it = names_.find(Key(dir, name));
    if (more_ || it == names_.end()) return 0;
    const int64_t valid_ns = std::clamp<int64_t>(ns, 0, kBelievedNs);
    Name& n = it->second;
    if (valid_ns > 0) last_ns_ = n.until_ns = std::max(n.until_ns, now_ns + valid_ns + kLateNs);
    if (valid_ns == kBelievedNs) n.since_ns = now_ns;
    else n.doubt_ns = now_ns + kLateNs;
    return valid_ns;
  }
  // The kernel has got an answer that ends its belief in a directory's name, whatever that is called by now.
  void Doubt(int64_t now_ns) { doubt_ns_ = now_ns + kLateNs; }
  // When it is surely not believed any more. `name` "": none is.
  int64_t Until(InodeId dir, std::string_view name) const {
    if (name.empty()) return last_ns_;
    const auto it = names_.find(Key(dir, name));
    return it == names_.end() ? 0 : it->second.until_ns;
  }
  // Until then it surely is. The kernel goes by the answer that it has taken last, which need not be the last one that was given: all of
  // the last kLateNs must have allowed the same.
  int64_t BelievedTo(InodeId dir, std::string_view name) const {
    const auto it = names_.find(Key(dir, name));
    if (it == names_.end() || it->second.since_ns == 0 || it->second.since_ns < std::max(it->second.doubt_ns, doubt_ns_)) return 0;
    return it->second.since_ns + kBelievedNs - kJiffyNs;
  }
  // Whether a rename of it may be answered now.
  bool MayMove(InodeId dir, std::string_view name, int64_t now_ns) const {
    return now_ns + kMoveNs <= BelievedTo(dir, name) || now_ns > Until(dir, name) - kLateNs + kQuietNs;
  }
  // After a rename or exchange. A replaced inode has no name any more; how long a name is believed moves with it.
  void Moved(InodeId from_dir, std::string_view from, InodeId to_dir, std::string_view to) {
    if (!more_) std::swap(names_[Key(from_dir, from)], names_[Key(to_dir, to)]);
  }
  // 0: none.
  uint64_t Find(InodeId dir, std::string_view name) const {
    const auto it = names_.find(Key(dir, name));
    return it == names_.end() ? 0 : it->second.node;
  }
  bool MayHave(InodeId dir, std::string_view name, const KernelInodes& inodes) const {
    if (more_) return true;
    const auto it = names_.find(Key(dir, name));
    return it != names_.end() && !inodes.SurelyUnknown(it->second.node);
  }
  size_t size() const { return names_.size(); }

 private:
  // Two names may have one: then one of them counts for both, until it is given again.
  static uint64_t Key(InodeId dir, std::string_view name) {
    return std::hash<std::string_view>()(name) ^ (dir.v * 0x9e3779b97f4a7c15);
  }

  struct Name {
    uint64_t node = 0;
    int64_t until_ns = 0;
    int64_t since_ns = 0;  // when the kernel was told last to believe it for kBelievedNs
    int64_t doubt_ns = 0;  // until then the kernel may take an answer that says less
  };
  std::unordered_map<uint64_t, Name> names_;
  int64_t last_ns_ = 0;  // of all that were ever believed
  int64_t doubt_ns_ = 0;  // of each name
  bool more_ = false;
};

}  // namespace stria
