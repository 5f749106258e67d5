#include "test/sim/file_model.h"

#include <algorithm>
#include <cstring>

namespace stria {

void FileModel::Apply(std::string* content, const Op& op, uint64_t part) {
  if (op.truncate) {
    content->resize(op.offset, '\0');
    return;
  }
  const uint64_t n = std::min<uint64_t>(part, op.bytes.size());
  if (n == 0) return;
  if (content->size() < op.offset + n) content->resize(op.offset + n, '\0');
  std::memcpy(content->data() + op.offset, op.bytes.data(), n);
}

void FileModel::Write(uint64_t offset, const std::string& bytes) {
  ops_.push_back({false, offset, bytes});
  Apply(&now_, ops_.back());
}

void FileModel::Truncate(uint64_t size) {
  ops_.push_back({true, size, ""});
  Apply(&now_, ops_.back());
}

void FileModel::Acknowledge() {
  base_ = now_;
  ops_.clear();
}

uint64_t FileModel::FrontOf(const Op& op, const std::string& content) {
  uint64_t part = 0;
  while (part < op.bytes.size() && op.offset + part < content.size() && content[op.offset + part] == op.bytes[part]) {
    ++part;
  }
  return part;
}

std::optional<FileModel::Prefix> FileModel::PrefixOf(const std::string& content) const {
  std::optional<Prefix> longest;
  std::string state = base_;
  for (size_t j = 0;; ++j) {
    if (content == state) longest = Prefix{j, 0};
    if (j == ops_.size()) return longest;
    const Op& op = ops_[j];
    if (!op.truncate) {
      // The front of operation j, over the state before it. Trailing bytes that are equal in both may belong to either:
      // try the longest.
      std::string partly = state;
      const uint64_t part = FrontOf(op, content);
      Apply(&partly, op, part);
      if (content == partly) longest = Prefix{j, part};
    }
    Apply(&state, op);
  }
}

// The writes before `next` are done, and the truncations before `cut`, which is not before it. A write within the new size
// leaves the same whether the truncation comes before or after it.
bool FileModel::IsPrefixOvertaken(const std::string& content) const {
  for (size_t next = 0; next < ops_.size(); ++next) {
    if (ops_[next].truncate) continue;
    for (size_t cut = next + 1; cut <= ops_.size(); ++cut) {
      if (!ops_[cut - 1].truncate) continue;
      std::string none = base_, partly = base_;
      for (size_t i = 0; i < cut; ++i) {
        if (!ops_[i].truncate && i > next) continue;
        Apply(&partly, ops_[i], i == next ? FrontOf(ops_[i], content) : UINT64_MAX);
        if (i != next) Apply(&none, ops_[i]);
      }
      if (content == none || content == partly) return true;
    }
  }
  return false;
}

std::string FileModel::NoPrefix(const std::string& content) const {
  return "the content is no prefix of " + std::to_string(ops_.size()) +
         " operations over what was acknowledged; against that: " + FirstDifference(base_, content) +
         "; against all of them: " + FirstDifference(now_, content);
}

std::optional<std::string> FileModel::Recover(const std::string& content, bool full) {
  if (!PrefixOf(content) && !(full && IsPrefixOvertaken(content))) return NoPrefix(content);
  base_ = now_ = content;
  ops_.clear();
  return std::nullopt;
}

std::optional<std::string> FileModel::Resume(const std::string& content) {
  const std::optional<Prefix> done = PrefixOf(content);
  if (!done) return NoPrefix(content);
  ops_.resize(done->ops + (done->part > 0 ? 1 : 0));
  if (done->part > 0) ops_.back().bytes.resize(done->part);
  now_ = content;
  return std::nullopt;
}

std::string FirstDifference(const std::string& want, const std::string& got) {
  const size_t n = std::min(want.size(), got.size());
  for (size_t i = 0; i < n; ++i) {
    if (want[i] == got[i]) continue;
    size_t end = i;
    while (end < n && want[end] != got[end]) ++end;
    return "byte " + std::to_string(i) + ": want " + std::to_string(static_cast<uint8_t>(want[i])) + ", got " +
           std::to_string(static_cast<uint8_t>(got[i])) + " (differs for " + std::to_string(end - i) +
           " bytes; sizes " + std::to_string(want.size()) + " and " + std::to_string(got.size()) + ")";
  }
  if (want.size() != got.size()) {
    return "size: want " + std::to_string(want.size()) + ", got " + std::to_string(got.size());
  }
  return "no difference";
}

std::string PatternBytes(Random& rng, size_t length) {
  std::string out(length, '\0');
  size_t i = 0;
  while (i < length) {
    const uint64_t word = rng.Next();
    const size_t n = std::min<size_t>(8, length - i);
    std::memcpy(out.data() + i, &word, n);
    i += n;
  }
  return out;
}

}  // namespace stria
