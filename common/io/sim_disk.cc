#include "common/io/sim_disk.h"

#include <xxhash.h>

#include <algorithm>
#include <cstring>
#include <set>

#include "common/io/disk_name.h"

namespace stria {
namespace {

constexpr int64_t kHungPollNs = 10 * kMillisecond;
constexpr uint64_t kTearBytes = 512;

bool HasPrefix(const std::string& name, const std::string& prefix) {
  return name.compare(0, prefix.size(), prefix) == 0;
}

}  // namespace

// While an operation waits for its time. If the wait is destroyed, the change becomes an orphan.
class SimDiskMedia::InFlight {
 public:
  InFlight(std::shared_ptr<SimDiskMedia> media, int64_t due_ns, std::function<void()> apply)
      : media_(std::move(media)), due_ns_(due_ns), apply_(std::move(apply)) {}
  InFlight(const InFlight&) = delete;
  ~InFlight() {
    if (apply_) media_->orphans_.emplace(std::pair(due_ns_, ++media_->orphan_seq_), std::move(apply_));
  }
  void Release() { apply_ = nullptr; }

 private:
  std::shared_ptr<SimDiskMedia> media_;
  int64_t due_ns_;
  std::function<void()> apply_;
};

template <class T>
Task<Result<T>> SimDiskMedia::Run(std::shared_ptr<SimDiskMedia> media, int64_t latency_ns, uint64_t bytes,
                                  bool change, std::function<Result<T>()> apply) {
  Executor& ex = Executor::Current();
  media->RunOrphans(ex.NowNs());
  const int64_t due = media->DoneNs(ex.NowNs(), latency_ns, bytes);
  std::function<void()> later;
  if (change) later = [apply] { (void)apply(); };
  InFlight guard(media, due, std::move(later));
  co_await Sleep(due - ex.NowNs());
  while (media->faults.hung) co_await Sleep(kHungPollNs);
  media->RunOrphans(ex.NowNs());
  guard.Release();
  co_return apply();
}

SimDiskMedia::SimDiskMedia(uint64_t seed, SimDiskOptions options)
    : options_(std::move(options)), rng_(seed) {}

Error SimDiskMedia::Failed(const char* what, const std::string& name) const {
  return Error(FsError::kDiskFailed, "disk " + options_.name + " failed to " + what + " '" + name + "'");
}

bool SimDiskMedia::Hits(uint32_t percent, uint32_t* countdown) {
  bool hit = false;
  if (*countdown > 0) hit = --*countdown == 0;
  if (percent > 0 && rng_.Percent(percent)) hit = true;
  return hit;
}

int64_t SimDiskMedia::DoneNs(int64_t now_ns, int64_t latency_ns, uint64_t bytes) {
  const auto scaled = [&](int64_t ns) {
    return static_cast<int64_t>(static_cast<double>(ns) * faults.slow_factor);
  };
  int64_t start = now_ns;
  if (bytes > 0) {
    const uint64_t transfer_ns = bytes * 1000 / std::max<uint64_t>(options_.bytes_per_s / 1'000'000, 1);
    transfer_until_ns_ = std::max(now_ns, transfer_until_ns_) + scaled(static_cast<int64_t>(transfer_ns));
    start = transfer_until_ns_;
  }
  const int64_t jitter =
      latency_ns / 2 + static_cast<int64_t>(rng_.Below(static_cast<uint64_t>(latency_ns) + 1));
  return start + scaled(jitter);
}

void SimDiskMedia::RunOrphans(int64_t now_ns) {
  if (faults.hung) return;
  while (!orphans_.empty() && orphans_.begin()->first.first <= now_ns) {
    auto apply = std::move(orphans_.begin()->second);
    orphans_.erase(orphans_.begin());
    apply();
  }
  while (!removals_.empty() && removals_.front().first + options_.writeback_ns <= now_ns) {
    const std::string& name = removals_.front().second;
    if (!names_.contains(name)) durable_names_.erase(name);
    removals_.pop_front();
  }
}

Result<SimDiskMedia::InodePtr> SimDiskMedia::Find(const std::string& name) const {
  auto it = names_.find(name);
  if (it != names_.end()) return it->second;
  return Error(FsError::kNoEnt, "disk " + options_.name + " has no file '" + name + "'");
}

Result<SimDiskMedia::InodePtr> SimDiskMedia::FindOrCreate(const std::string& name) {
  auto it = names_.find(name);
  if (it != names_.end()) return it->second;
  for (size_t slash = name.find('/'); slash != std::string::npos; slash = name.find('/', slash + 1)) {
    if (names_.contains(name.substr(0, slash))) {
      return Error(FsError::kNotDir, "'" + name.substr(0, slash) + "' is a file, not a directory");
    }
  }
  auto below = names_.lower_bound(name + "/");
  if (below != names_.end() && HasPrefix(below->first, name + "/")) {
    return Error(FsError::kIsDir, "'" + name + "' is a directory");
  }
  auto inode = std::make_shared<Inode>();
  names_[name] = inode;
  return inode;
}

void SimDiskMedia::SetPage(Inode& inode, uint64_t index, Page page) {
  auto it = inode.pages.find(index);
  Page old = it == inode.pages.end() ? nullptr : it->second;
  auto& versions = inode.dirty[index];
  if (versions.size() < kMaxVersions) {
    versions.push_back(std::move(old));
  } else {
    versions.back() = std::move(old);
  }
  if (!page) {
    if (it != inode.pages.end()) {
      inode.pages.erase(it);
      --used_pages_;
    }
  } else if (it != inode.pages.end()) {
    it->second = std::move(page);
  } else {
    inode.pages.emplace(index, std::move(page));
    ++used_pages_;
  }
}

void SimDiskMedia::Store(Inode& inode, uint64_t offset, const BufferChain& data) {
  uint64_t done = 0;
  while (done < data.size()) {
    const uint64_t at = offset + done;
    const uint64_t index = at / kPage;
    const uint64_t n = std::min(kPage - at % kPage, data.size() - done);
    auto fresh = std::make_shared<PageBytes>();
    auto it = inode.pages.find(index);
    if (it != inode.pages.end()) *fresh = *it->second;
    data.CopyTo(done, n, fresh->data() + at % kPage);
    SetPage(inode, index, std::move(fresh));
    done += n;
  }
  inode.size = std::max(inode.size, offset + data.size());
}

void SimDiskMedia::Shrink(Inode& inode, uint64_t size) {
  std::vector<uint64_t> gone;
  for (auto it = inode.pages.lower_bound(DivCeil(size, kPage)); it != inode.pages.end(); ++it)
    gone.push_back(it->first);
  for (const uint64_t index : gone) SetPage(inode, index, nullptr);
  auto last = inode.pages.find(size / kPage);
  if (size % kPage != 0 && last != inode.pages.end()) {
    auto fresh = std::make_shared<PageBytes>(*last->second);
    std::memset(fresh->data() + size % kPage, 0, kPage - size % kPage);
    SetPage(inode, size / kPage, std::move(fresh));
  }
  inode.size = size;
}

Buffer SimDiskMedia::Load(const Inode& inode, uint64_t offset, uint64_t length) const {
  if (offset >= inode.size) return Buffer();
  length = std::min(length, inode.size - offset);
  MutableBuffer out(length);
  std::memset(out.data(), 0, length);
  for (auto it = inode.pages.lower_bound(offset / kPage); it != inode.pages.end(); ++it) {
    const uint64_t page_start = it->first * kPage;
    if (page_start >= offset + length) break;
    const uint64_t from = std::max(page_start, offset);
    const uint64_t to = std::min(page_start + kPage, offset + length);
    std::memcpy(out.data() + (from - offset), it->second->data() + (from - page_start), to - from);
  }
  return std::move(out).Freeze();
}

void SimDiskMedia::MakeDurable(Inode& inode) {
  inode.dirty.clear();
  inode.durable_size = inode.size;
}

void SimDiskMedia::CrashInode(Random& rng, Inode& inode) {
  enum { kKeepAll, kDropAll };
  const uint64_t mode = rng.Below(4);  // 2, 3: page by page
  for (auto& [index, versions] : inode.dirty) {
    if (mode == kKeepAll) break;
    auto current = inode.pages.find(index);
    versions.push_back(current == inode.pages.end() ? nullptr : current->second);
    Page chosen = mode == kDropAll ? versions.front() : versions[rng.Below(versions.size())];
    if (mode != kDropAll && rng.OneIn(4)) {  // torn
      auto torn = std::make_shared<PageBytes>();
      if (chosen) *torn = *chosen;
      const Page& head = versions[rng.Below(versions.size())];
      const uint64_t cut = kTearBytes * rng.Between(1, kPage / kTearBytes - 1);
      if (head) {
        std::memcpy(torn->data(), head->data(), cut);
      } else {
        std::memset(torn->data(), 0, cut);
      }
      chosen = std::move(torn);
    }
    if (chosen) {
      inode.pages[index] = std::move(chosen);
    } else {
      inode.pages.erase(index);
    }
  }
  const uint64_t lo = std::min(inode.size, inode.durable_size), hi = std::max(inode.size, inode.durable_size);
  if (mode == kDropAll) inode.size = inode.durable_size;
  if (mode > kDropAll && lo != hi) {
    const uint64_t choices[] = {lo, hi, std::max(lo, AlignDown(rng.Between(lo, hi), kPage))};
    inode.size = choices[rng.Below(3)];
  }
  inode.pages.erase(inode.pages.lower_bound(DivCeil(inode.size, kPage)), inode.pages.end());
  auto last = inode.pages.find(inode.size / kPage);
  if (last != inode.pages.end()) {
    auto cut = std::make_shared<PageBytes>(*last->second);
    std::memset(cut->data() + inode.size % kPage, 0, kPage - inode.size % kPage);
    last->second = std::move(cut);
  }
  inode.poisoned = false;
  MakeDurable(inode);
}

void SimDiskMedia::CountPages() {
  used_pages_ = 0;
  for (const auto& [name, inode] : names_) used_pages_ += inode->pages.size();
}

void SimDiskMedia::Crash(Random& rng, bool power_cut) {
  auto orphans = std::move(orphans_);
  orphans_.clear();
  for (auto& [key, apply] : orphans) {
    if (rng.OneIn(2)) apply();
  }
  if (!power_cut) {
    // After a failed sync the kernel may have dropped pages and think them clean.
    for (auto& [name, inode] : names_) {
      if (inode->poisoned) CrashInode(rng, *inode);
    }
    CountPages();
    return;
  }
  std::set<std::string> all;
  for (const auto& [name, inode] : names_) all.insert(name);
  for (const auto& [name, inode] : durable_names_) all.insert(name);
  std::map<std::string, InodePtr> left;
  for (const std::string& name : all) {
    auto now = names_.find(name), durable = durable_names_.find(name);
    std::vector<InodePtr> choices;
    choices.push_back(now == names_.end() ? nullptr : now->second);
    InodePtr old = durable == durable_names_.end() ? nullptr : durable->second;
    if (old != choices[0]) {
      if (choices[0] && old) choices.push_back(nullptr);  // removed, and not made again
      choices.push_back(std::move(old));
    }
    InodePtr chosen = choices[choices.size() == 1 ? 0 : rng.Below(choices.size())];
    if (!chosen) continue;
    CrashInode(rng, *chosen);
    left[name] = std::move(chosen);
  }
  names_ = left;
  durable_names_ = std::move(left);
  removals_.clear();
  CountPages();
}

bool SimDiskMedia::FlipBit(const std::string& name, uint64_t offset, int bit) {
  auto it = names_.find(name);
  if (it == names_.end() || offset >= it->second->size) return false;
  Page& page = it->second->pages[offset / kPage];
  auto fresh = page ? std::make_shared<PageBytes>(*page) : std::make_shared<PageBytes>();
  (*fresh)[offset % kPage] ^= static_cast<uint8_t>(1 << (bit & 7));
  page = std::move(fresh);
  CountPages();
  return true;
}

std::optional<DiskFile> SimDiskMedia::FlipRandomBit(Random& rng, const std::string& prefix) {
  std::vector<DiskFile> files = Files(prefix);
  std::erase_if(files, [](const DiskFile& f) { return f.size_bytes == 0; });
  if (files.empty()) return std::nullopt;
  const DiskFile& f = files[rng.Below(files.size())];
  const uint64_t offset = rng.Below(f.size_bytes);
  FlipBit(f.name, offset, static_cast<int>(rng.Below(8)));
  return DiskFile{f.name, offset};
}

std::optional<std::string> SimDiskMedia::Content(const std::string& name) const {
  auto it = names_.find(name);
  if (it == names_.end()) return std::nullopt;
  return std::string(Load(*it->second, 0, it->second->size).view());
}

void SimDiskMedia::SetContent(const std::string& name, const std::string& bytes) {
  auto inode = std::make_shared<Inode>();
  Store(*inode, 0, BufferChain(Buffer::FromString(bytes)));
  MakeDurable(*inode);
  names_[name] = inode;
  durable_names_[name] = std::move(inode);
  CountPages();
}

void SimDiskMedia::EraseFile(const std::string& name) {
  names_.erase(name);
  durable_names_.erase(name);
  CountPages();
}

std::vector<DiskFile> SimDiskMedia::Files(const std::string& prefix) const {
  std::vector<DiskFile> out;
  for (auto it = names_.lower_bound(prefix); it != names_.end() && HasPrefix(it->first, prefix); ++it) {
    out.push_back({it->first, it->second->size});
  }
  return out;
}

uint64_t SimDiskMedia::Digest() const {
  uint64_t h = 0;
  for (const auto& [name, inode] : names_) {
    h = XXH3_64bits_withSeed(name.data(), name.size(), h ^ inode->size);
    for (const auto& [index, page] : inode->pages) h = XXH3_64bits_withSeed(page->data(), kPage, h ^ index);
  }
  return h;
}

Result<Buffer> SimDiskMedia::DoRead(const std::string& name, uint64_t offset, uint64_t length) {
  if (faults.dead || Hits(faults.read_error_percent, &faults.fail_read_in)) return Failed("read", name);
  ASSIGN_OR_RETURN(InodePtr inode, Find(name));
  return Load(*inode, offset, length);
}

Result<void> SimDiskMedia::DoWrite(const std::string& name, uint64_t offset, const BufferChain& data) {
  if (faults.dead || Hits(faults.write_error_percent, &faults.fail_write_in)) return Failed("write", name);
  auto known = names_.find(name);
  uint64_t fresh_pages = 0;
  for (uint64_t i = offset / kPage; i * kPage < offset + data.size(); ++i) {
    if (known == names_.end() || !known->second->pages.contains(i)) ++fresh_pages;
  }
  if ((used_pages_ + fresh_pages) * kPage > options_.capacity_bytes) {
    return Error(FsError::kNoSpace, "disk " + options_.name + " is full");
  }
  ASSIGN_OR_RETURN(InodePtr inode, FindOrCreate(name));
  if (Hits(faults.lost_write_percent, &faults.lose_write_in)) {
    inode->size = std::max(inode->size, offset + data.size());
    return Ok();
  }
  if (Hits(faults.misdirected_write_percent, &faults.misdirect_write_in)) {
    inode->size = std::max(inode->size, offset + data.size());
    Misdirect(offset, data);
    return Ok();
  }
  if (!data.empty()) Store(*inode, offset, data);
  return Ok();
}

void SimDiskMedia::Misdirect(uint64_t offset, const BufferChain& data) {
  std::vector<DiskFile> files = Files();
  std::erase_if(files, [&](const DiskFile& f) { return f.size_bytes <= offset % kPage; });
  if (files.empty()) return;
  const DiskFile& f = files[rng_.Below(files.size())];
  const uint64_t page = rng_.Below((f.size_bytes - offset % kPage - 1) / kPage + 1);
  const uint64_t at = page * kPage + offset % kPage;
  const uint64_t n = std::min<uint64_t>(data.size(), f.size_bytes - at);
  Store(*names_[f.name], at, data.Slice(0, n));
}

Result<void> SimDiskMedia::DoSync(const std::vector<std::string>& names) {
  const bool fails = faults.dead || Hits(faults.sync_error_percent, &faults.fail_sync_in);
  Result<void> result;
  for (const std::string& name : names) {
    Result<InodePtr> inode = Find(name);
    if (!inode.ok()) {
      if (result.ok()) result = std::move(inode).error();
      continue;
    }
    if (fails) (*inode)->poisoned = true;
    if ((*inode)->poisoned) {
      if (result.ok()) result = Failed("sync", name);
      continue;
    }
    MakeDurable(**inode);
    durable_names_[name] = *inode;
  }
  return result;
}

Result<void> SimDiskMedia::DoRemove(const std::string& name, int64_t now_ns) {
  if (faults.dead || Hits(faults.write_error_percent, &faults.fail_write_in)) return Failed("remove", name);
  ASSIGN_OR_RETURN(InodePtr inode, Find(name));
  used_pages_ -= inode->pages.size();
  names_.erase(name);
  if (durable_names_.contains(name)) removals_.emplace_back(now_ns, name);
  return Ok();
}

Result<void> SimDiskMedia::DoTruncate(const std::string& name, uint64_t size) {
  if (faults.dead || Hits(faults.write_error_percent, &faults.fail_write_in)) return Failed("truncate", name);
  ASSIGN_OR_RETURN(InodePtr inode, Find(name));
  if (size < inode->size) {
    Shrink(*inode, size);
  } else {
    inode->size = size;
  }
  return Ok();
}

Result<void> SimDiskMedia::DoReplace(const std::string& name, const Buffer& content) {
  if (faults.dead || Hits(faults.write_error_percent, &faults.fail_write_in)) return Failed("replace", name);
  if (used_pages_ * kPage + AlignUp(content.size(), kPage) > options_.capacity_bytes) {
    return Error(FsError::kNoSpace, "disk " + options_.name + " is full");
  }
  ASSIGN_OR_RETURN(InodePtr old, FindOrCreate(name));
  used_pages_ -= old->pages.size();
  auto inode = std::make_shared<Inode>();
  if (!content.empty()) Store(*inode, 0, BufferChain(content));
  MakeDurable(*inode);
  names_[name] = inode;
  durable_names_[name] = std::move(inode);
  return Ok();
}

Task<Result<Buffer>> SimDisk::Read(std::string name, uint64_t offset, uint64_t length) {
  CO_RETURN_IF_ERROR(CheckDiskName(name));
  SimDiskMedia* m = media_.get();
  std::function<Result<Buffer>()> apply = [m, name, offset, length] {
    return m->DoRead(name, offset, length);
  };
  co_return co_await SimDiskMedia::Run<Buffer>(media_, m->options_.op_latency_ns, length, false,
                                               std::move(apply));
}

Task<Result<void>> SimDisk::Write(std::string name, uint64_t offset, BufferChain data) {
  CO_RETURN_IF_ERROR(CheckDiskName(name));
  SimDiskMedia* m = media_.get();
  const uint64_t bytes = data.size();
  std::function<Result<void>()> apply = [m, name, offset, data] { return m->DoWrite(name, offset, data); };
  co_return co_await SimDiskMedia::Run<void>(media_, m->options_.op_latency_ns, bytes, true,
                                             std::move(apply));
}

Task<Result<void>> SimDisk::Reserve(std::string name, uint64_t size) {
  CO_RETURN_IF_ERROR(CheckDiskName(name));
  SimDiskMedia* m = media_.get();
  std::function<Result<void>()> apply = [m, name, size]() -> Result<void> {
    if (m->faults.dead) return m->Failed("reserve", name);
    ASSIGN_OR_RETURN(auto inode, m->FindOrCreate(name));
    if (size > inode->size && m->used_bytes() + (size - inode->size) > m->options_.capacity_bytes) {
      return Error(FsError::kNoSpace, "disk " + m->options_.name + " is full");
    }
    return Ok();
  };
  co_return co_await SimDiskMedia::Run<void>(media_, m->options_.op_latency_ns, 0, true, std::move(apply));
}

Task<Result<void>> SimDisk::SyncFiles(std::vector<std::string> names) {
  for (const std::string& name : names) CO_RETURN_IF_ERROR(CheckDiskName(name));
  SimDiskMedia* m = media_.get();
  std::function<Result<void>()> apply = [m, names = std::move(names)] { return m->DoSync(names); };
  co_return co_await SimDiskMedia::Run<void>(media_, m->options_.sync_latency_ns, 1, true, std::move(apply));
}

Task<Result<void>> SimDisk::Remove(std::string name) {
  CO_RETURN_IF_ERROR(CheckDiskName(name));
  SimDiskMedia* m = media_.get();
  const int64_t now_ns = Executor::Current().NowNs();
  std::function<Result<void>()> apply = [m, name, now_ns] { return m->DoRemove(name, now_ns); };
  co_return co_await SimDiskMedia::Run<void>(media_, m->options_.op_latency_ns, 0, true, std::move(apply));
}

Task<Result<void>> SimDisk::Truncate(std::string name, uint64_t size) {
  CO_RETURN_IF_ERROR(CheckDiskName(name));
  SimDiskMedia* m = media_.get();
  std::function<Result<void>()> apply = [m, name, size] { return m->DoTruncate(name, size); };
  co_return co_await SimDiskMedia::Run<void>(media_, m->options_.op_latency_ns, 0, true, std::move(apply));
}

Task<Result<void>> SimDisk::ReplaceFile(std::string name, Buffer content) {
  CO_RETURN_IF_ERROR(CheckDiskName(name));
  SimDiskMedia* m = media_.get();
  std::function<Result<void>()> apply = [m, name, content] { return m->DoReplace(name, content); };
  co_return co_await SimDiskMedia::Run<void>(media_, m->options_.sync_latency_ns, 1 + content.size(), true,
                                             std::move(apply));
}

Task<Result<std::vector<DiskFile>>> SimDisk::List(std::string directory) {
  if (!directory.empty()) CO_RETURN_IF_ERROR(CheckDiskName(directory));
  SimDiskMedia* m = media_.get();
  std::function<Result<std::vector<DiskFile>>()> apply = [m, directory]() -> Result<std::vector<DiskFile>> {
    if (m->faults.dead) return m->Failed("list", directory);
    return m->Files(directory.empty() ? "" : directory + "/");
  };
  co_return co_await SimDiskMedia::Run<std::vector<DiskFile>>(media_, m->options_.op_latency_ns, 0, false,
                                                              std::move(apply));
}

Task<Result<DiskSpace>> SimDisk::Space() {
  SimDiskMedia* m = media_.get();
  std::function<Result<DiskSpace>()> apply = [m]() -> Result<DiskSpace> {
    if (m->faults.dead) return m->Failed("stat", "");
    const uint64_t used = m->used_bytes(), capacity = m->options_.capacity_bytes;
    return DiskSpace{capacity, capacity > used ? capacity - used : 0};
  };
  co_return co_await SimDiskMedia::Run<DiskSpace>(media_, m->options_.op_latency_ns, 0, false,
                                                  std::move(apply));
}

Result<int> SimDisk::OpenForRead(const std::string& name) {
  RETURN_IF_ERROR(CheckDiskName(name));
  return Error(FsError::kNotSupported, "a simulated disk has no file descriptors");
}

}  // namespace stria
