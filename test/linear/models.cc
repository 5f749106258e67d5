#include "test/linear/models.h"

#include <algorithm>
#include <cerrno>
#include <cstddef>

namespace stria::linear {

std::string FileModel::State::Key() const {
  return std::string(reinterpret_cast<const char*>(cells.data()), cells.size() * sizeof(uint32_t));
}

bool FileModel::Apply(State* s, const Op& op) {
  std::vector<uint32_t>& cells = s->cells;
  switch (op.kind) {
    case Op::Kind::kRead: {
      const uint64_t from = std::min<uint64_t>(op.at, cells.size());
      const uint64_t to = std::min<uint64_t>(op.at + op.count, cells.size());
      return std::equal(op.values.begin(), op.values.end(), cells.begin() + static_cast<ptrdiff_t>(from),
                        cells.begin() + static_cast<ptrdiff_t>(to));
    }
    case Op::Kind::kWrite:
      if (cells.size() < op.at + op.values.size()) cells.resize(op.at + op.values.size());
      std::copy(op.values.begin(), op.values.end(), cells.begin() + static_cast<ptrdiff_t>(op.at));
      return true;
    case Op::Kind::kAppend:
      cells.insert(cells.end(), op.values.begin(), op.values.end());
      return true;
    case Op::Kind::kTruncate:
      cells.resize(op.size);
      return true;
    case Op::Kind::kSize:
      return cells.size() == op.size;
  }
  return false;
}

namespace {
std::string List(const std::vector<uint32_t>& values) {
  std::string out;
  for (uint32_t v : values) out += (out.empty() ? "" : " ") + std::to_string(v);
  return "{" + out + "}";
}
}  // namespace

std::string FileModel::Describe(const Op& op) {
  const std::string who = "client " + std::to_string(op.client) + ": ";
  switch (op.kind) {
    case Op::Kind::kRead:
      return who + (op.page_cached ? "read of pages, " : "read ") + std::to_string(op.count) + " at " + std::to_string(op.at) +
             " gave " + List(op.values);
    case Op::Kind::kWrite: return who + "write at " + std::to_string(op.at) + " of " + List(op.values);
    case Op::Kind::kAppend: return who + "append of " + List(op.values);
    case Op::Kind::kTruncate: return who + "truncate to " + std::to_string(op.size);
    case Op::Kind::kSize: return who + "size is " + std::to_string(op.size);
  }
  return who;
}

std::string NamesModel::State::Key() const {
  std::string out;
  for (const auto& [name, file] : files) out += name + "=" + std::to_string(file) + "/";
  return out;
}

namespace {
// The unknown file turns out to be `file`, if that is not another one.
bool Identify(NamesModel::State* s, uint64_t unknown, uint64_t file) {
  for (const auto& [name, known] : s->files) {
    if (known == file) return false;
  }
  for (auto& [name, known] : s->files) {
    if (known == unknown) known = file;
  }
  return true;
}
}  // namespace

bool NamesModel::Apply(State* s, const Op& op) {
  auto it = s->files.find(op.name);
  const bool there = it != s->files.end();
  switch (op.kind) {
    case Op::Kind::kLookup:
      if (!there || op.error != 0) return !there && op.error == ENOENT;
      return op.file == it->second || ((it->second & kUnknown) && Identify(s, it->second, op.file));
    case Op::Kind::kCreate:
      if (there) return op.error == EEXIST;
      if (op.error != 0) return false;
      s->files[op.name] = op.file;
      return true;
    case Op::Kind::kUnlink:
      if (!there) return op.error == ENOENT;
      if (op.error != 0) return false;
      s->files.erase(it);
      return true;
    case Op::Kind::kRename: {
      if (!there) return op.error == ENOENT || (op.error == 0 && op.two_lookups && s->files.contains(op.to));
      if (op.error != 0) return false;
      const uint64_t file = it->second;
      const auto target = s->files.find(op.to);
      if (target != s->files.end() && target->second == file) return true;
      s->files.erase(it);
      s->files[op.to] = file;
      return true;
    }
    case Op::Kind::kLink: {
      const bool taken = s->files.contains(op.to);
      const bool alive =
          std::any_of(s->files.begin(), s->files.end(), [&](const auto& f) { return f.second == op.file; });
      // Of two reasons either may be told.
      if (op.error != 0) return (op.error == EEXIST && taken) || (op.error == ENOENT && !alive);
      if (taken || !alive) return false;
      s->files[op.to] = op.file;
      return true;
    }
    case Op::Kind::kList: {
      std::vector<std::string> names;
      for (const auto& [name, file] : s->files) names.push_back(name);
      return op.names == names;
    }
  }
  return false;
}

std::string NamesModel::Describe(const Op& op) {
  std::string out = "client " + std::to_string(op.client) + ": ";
  switch (op.kind) {
    case Op::Kind::kLookup: out += "lookup " + op.name; break;
    case Op::Kind::kCreate: out += "create " + op.name; break;
    case Op::Kind::kUnlink: out += "unlink " + op.name; break;
    case Op::Kind::kRename: out += "rename " + op.name + " to " + op.to; break;
    case Op::Kind::kLink: out += "link of file " + std::to_string(op.file) + " as " + op.to; break;
    case Op::Kind::kList:
      out += "list";
      for (const std::string& n : op.names) out += " " + n;
      return out;
  }
  return out + " gave " + (op.error ? "errno " + std::to_string(op.error) : "file " + std::to_string(op.file));
}

std::string CheckExclusion(const std::vector<Hold>& holds) {
  for (size_t i = 0; i < holds.size(); ++i) {
    for (size_t j = 0; j < i; ++j) {
      const Hold &a = holds[i], &b = holds[j];
      if (a.client == b.client || !(a.exclusive || b.exclusive)) continue;
      if (a.last < b.first || b.last < a.first || a.to <= b.from || b.to <= a.from) continue;
      return "clients " + std::to_string(a.client) + " and " + std::to_string(b.client) +
             " hold the same bytes at the same time: [" + std::to_string(a.from) + ", " + std::to_string(a.to) +
             "] and [" + std::to_string(b.from) + ", " + std::to_string(b.to) + "]";
    }
  }
  return "";
}

}  // namespace stria::linear
