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

bool FileModel::IsPrefixOf(const std::vector<Op>& ops, const std::string& base, const std::string& content) {
  std::string state = base;
  for (size_t j = 0;; ++j) {
    if (content == state) return true;
    if (j == ops.size()) return false;
    const Op& op = ops[j];
    if (!op.truncate) {
      // The front of operation j, over the state before it.
      uint64_t part = 0;
      while (part < op.bytes.size() && op.offset + part < content.size() &&
             content[op.offset + part] == op.bytes[part]) {
        ++part;
      }
      // Trailing bytes that are equal in both may belong to either: try the longest.
      std::string partly = state;
      Apply(&partly, op, part);
      if (content == partly) return true;
    }
    Apply(&state, op);
  }
}

std::vector<FileModel::Op> FileModel::Overtaken(std::vector<Op> ops, size_t from, size_t at) {
  const uint64_t size = ops[at].offset;
  for (size_t i = from; i < at; ++i) {
    if (ops[i].truncate) continue;
    ops[i].bytes.resize(ops[i].offset < size ? std::min<uint64_t>(ops[i].bytes.size(), size - ops[i].offset) : 0);
  }
  const auto begin = ops.begin() + static_cast<std::ptrdiff_t>(from), end = ops.begin() + static_cast<std::ptrdiff_t>(at);
  std::rotate(begin, end, end + 1);
  return ops;
}

std::optional<std::string> FileModel::Recover(const std::string& content, bool full) {
  bool fits = IsPrefixOf(ops_, base_, content);
  for (size_t at = 0; full && !fits && at < ops_.size(); ++at) {
    for (size_t from = at; ops_[at].truncate && !fits && from > 0 && !ops_[from - 1].truncate; --from) {
      fits = IsPrefixOf(Overtaken(ops_, from - 1, at), base_, content);
    }
  }
  if (!fits) {
    return "the content is no prefix of " + std::to_string(ops_.size()) +
           " operations over what was acknowledged; against that: " + FirstDifference(base_, content) +
           "; against all of them: " + FirstDifference(now_, content);
  }
  base_ = now_ = content;
  ops_.clear();
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
