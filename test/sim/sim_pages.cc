#include "test/sim/sim_pages.h"

#include <algorithm>

#include "client/vfs/inode.h"

namespace stria {

SimPages::Locked::Locked(SimPages* all, InodeId ino, uint64_t first, uint64_t last)
    : all_(all), ino_(ino), first_(first), last_(last), number_(++all->reads_) {
  for (uint64_t p = first_; p <= last_; ++p) all_->files_[ino_].pages[p].locked_by = number_;
}

SimPages::Locked::~Locked() {
  auto& pages = all_->files_[ino_].pages;
  for (uint64_t p = first_; p <= last_; ++p) {
    auto it = pages.find(p);
    if (it == pages.end() || it->second.locked_by != number_) continue;
    it->second.locked_by = 0;
    if (!it->second.there) pages.erase(it);
  }
  all_->unlocked_.Pulse();
}

void SimPages::Locked::Fill(const std::string& bytes) {
  for (uint64_t p = first_; p <= last_; ++p) {
    Page& page = all_->files_[ino_].pages[p];
    page.there = true;
    page.read = number_;
    const uint64_t at = (p - first_) * kPageBytes;
    page.bytes = at < bytes.size() ? bytes.substr(at, kPageBytes) : "";
    page.bytes.resize(kPageBytes, '\0');
  }
}

void SimPages::ForgetAttr(InodeId ino) {
  auto it = files_.find(ino);
  if (it == files_.end()) return;
  ++it->second.attr_epoch;
  it->second.attr_until_ns = 0;
}

Task<void> SimPages::ForgetPages(InodeId ino, int64_t takes_ns) {
  const uint64_t before = reads_;
  const auto locked = [&] {
    const auto it = files_.find(ino);
    return it != files_.end() && std::any_of(it->second.pages.begin(), it->second.pages.end(), [&](const auto& p) {
      return p.second.locked_by != 0 && p.second.locked_by <= before;
    });
  };
  while (locked()) co_await unlocked_.Wait();
  if (takes_ns > 0) co_await Sleep(takes_ns);
  auto it = files_.find(ino);
  if (it == files_.end()) co_return;
  std::erase_if(it->second.pages, [&](const auto& p) { return p.second.there && p.second.read <= before; });
}

void SimPages::Clear() {
  files_.clear();
  opened_.clear();
}

std::set<InodeId> SimPages::Reading() const {
  std::set<InodeId> out;
  for (const auto& [ino, f] : files_) {
    for (const auto& [p, page] : f.pages) {
      if (page.locked_by != 0) out.insert(ino);
    }
  }
  return out;
}

// Of some opens it is not told here (workloads that read past the pages): if the pages are to be kept as of another open than
// the last one that it knows, that one has dropped them.
void SimPages::Opened(const VfsHandlePtr& h) {
  std::erase_if(opened_, [](const auto& o) { return o.expired(); });
  if (!h->page_cache || !opened_.insert(h).second) return;
  File& f = files_[h->inode->ino];
  const bool keeps = h->keep_cache && f.opened_version == h->inode->in_kernel.pages_version();
  f.opened_version = h->inode->in_kernel.pages_version();
  if (!keeps) std::erase_if(f.pages, [](const auto& p) { return p.second.there && p.second.locked_by == 0; });
}

Task<Result<uint64_t>> SimPages::Size(Vfs& vfs, Caller who, InodeId ino, uint64_t end) {
  {
    File& f = files_[ino];
    if (Executor::Current().NowNs() < f.attr_until_ns && end <= f.size) co_return f.size;
  }
  const uint64_t epoch = files_[ino].attr_epoch;
  CO_ASSIGN_OR_RETURN(const EntryOut now, co_await vfs.GetAttr(who, ino));
  File& f = files_[ino];
  // As the kernel does by itself.
  if (f.size != now.attr.size) std::erase_if(f.pages, [](const auto& p) { return p.second.there && p.second.locked_by == 0; });
  f.size = now.attr.size;
  if (f.attr_epoch == epoch) f.attr_until_ns = now.attr_valid_ns > 0 ? Executor::Current().NowNs() + now.attr_valid_ns : 0;
  co_return f.size;
}

Task<Result<void>> SimPages::Fill(Vfs& vfs, Caller who, VfsHandlePtr h, uint64_t first, uint64_t last) {
  Locked locked(this, h->inode->ino, first, last);
  CO_ASSIGN_OR_RETURN(const BufferChain got,
                      co_await vfs.Read(who, h, first * kPageBytes, (last - first + 1) * kPageBytes, /*for_pages=*/true));
  const Buffer flat = got.Flatten();
  locked.Fill(std::string(reinterpret_cast<const char*>(flat.data()), flat.size()));
  co_return Ok();
}

Task<Result<void>> SimPages::WriteBack(Vfs& vfs, VfsHandlePtr h, uint64_t page, std::string bytes) {
  const InodeId ino = h->inode->ino;
  while (files_[ino].pages[page].locked_by != 0) co_await unlocked_.Wait();
  const Locked locked(this, ino, page, page);
  const uint64_t length = bytes.size();
  Buffer buffer = Buffer::FromString(std::move(bytes));
  CO_ASSIGN_OR_RETURN(const uint64_t taken, co_await vfs.WritePages(std::move(h), page * kPageBytes, std::move(buffer)));
  if (taken != length) co_return Error(FsError::kIo, "a part of a page was taken");
  co_return Ok();
}

Task<Result<BufferChain>> SimPages::Read(Vfs& vfs, Caller who, VfsHandlePtr h, uint64_t offset, uint64_t length) {
  const InodeId ino = h->inode->ino;
  Opened(h);
  CO_ASSIGN_OR_RETURN(const uint64_t size, co_await Size(vfs, who, ino, offset + length));
  if (offset >= size || length == 0) co_return BufferChain();
  const uint64_t end = std::min(offset + length, size);
  std::string out;
  bool asked = false;
  for (uint64_t at = offset; at < end;) {
    const uint64_t p = at / kPageBytes;
    const Page& page = files_[ino].pages[p];
    if (page.locked_by != 0) {
      co_await unlocked_.Wait();
      continue;
    }
    if (!page.there) {
      asked = true;
      uint64_t last = p;
      const auto free = [&](uint64_t n) {
        const Page& next = files_[ino].pages[n];
        return !next.there && next.locked_by == 0;
      };
      while ((last + 1) * kPageBytes < end && free(last + 1)) ++last;
      CO_RETURN_IF_ERROR(co_await Fill(vfs, who, h, p, last));
      // Copied from the pages as they are filled, whoever drops them then.
      if (!files_[ino].pages[p].there) continue;
    }
    const uint64_t in_page = at % kPageBytes;
    const uint64_t part = std::min(kPageBytes - in_page, end - at);
    out += files_[ino].pages[p].bytes.substr(in_page, part);
    at += part;
  }
  if (!asked) ++pages_kept_;
  BufferChain chain;
  chain.Append(Buffer::FromString(std::move(out)));
  co_return chain;
}

}  // namespace stria
