#include "common/config.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <map>
#include <set>
#include <stdexcept>

// toml++ 3.3 asserts on some malformed headers, such as "[=]" (with NDEBUG: undefined behaviour), although the file is at
// fault.
#undef NDEBUG
#define TOML_ASSERT(condition) \
  if (!(condition)) throw std::runtime_error("malformed")
#define TOML_ENABLE_FORMATTERS 0
#include <toml++/toml.h>

namespace stria {
namespace {

constexpr size_t kMaxFileBytes = 1 << 20;

std::string Quoted(std::string_view s) { return "'" + std::string(s) + "'"; }

// The line of the first character beyond ASCII outside strings and comments, 0 if there is none. It is
// never valid there, and toml++ 3.3 has undefined behaviour on some.
int LineOfStrayLetter(std::string_view text) {
  int line = 1;
  std::string_view quote;  // of the current string
  bool comment = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '\n') {
      ++line;
      comment = false;
      if (quote.size() == 1) quote = {};  // malformed: the parser will say so
    } else if (comment) {
      continue;
    } else if (!quote.empty()) {
      if (c == '\\' && quote[0] == '"') {
        if (i + 1 < text.size() && text[i + 1] != '\n') ++i;
      } else if (text.substr(i).starts_with(quote)) {
        i += quote.size() - 1;
        quote = {};
      }
    } else if (c == '#') {
      comment = true;
    } else if (c == '"' || c == '\'') {
      const size_t n = text.substr(i).starts_with(std::string(3, c)) ? 3 : 1;
      quote = text.substr(i, n);
      i += n - 1;
    } else if (static_cast<unsigned char>(c) >= 0x80) {
      return line;
    }
  }
  return 0;
}

}  // namespace

struct Config::State {
  std::string file;
  toml::table root;
  Error first_error;
  std::set<std::string> asked;  // full paths, indices of arrays as [N]
  std::map<std::string, std::string> former;  // name, by the one that it has now

  void Fail(const std::string& path, std::string_view why) {
    if (first_error.ok()) {
      first_error = Error(FsError::kInval, "key " + Quoted(path) + " in " + file + ": " + std::string(why));
    }
  }
  // True if this or something below it was asked for.
  bool Known(const std::string& path) const {
    if (asked.contains(path)) return true;
    for (const char next : {'.', '['}) {
      auto it = asked.lower_bound(path + next);
      if (it != asked.end() && it->starts_with(path + next)) return true;
    }
    return false;
  }
  std::string KnownBeside(const std::string& prefix) const {
    std::string out;
    for (const std::string& path : asked) {
      if (!path.starts_with(prefix)) continue;
      const std::string name =
          path.substr(prefix.size(), path.find_first_of(".[", prefix.size()) - prefix.size());
      if (!out.ends_with(" " + name + ",")) out += " " + name + ",";
    }
    if (!out.empty()) out.pop_back();
    return out;
  }
  void CheckUnknown(const toml::table& table, const std::string& prefix) {
    for (const auto& [key, node] : table) {
      const std::string path = prefix + std::string(key.str());
      if (!Known(path)) {
        const std::string known = KnownBeside(prefix);
        Fail(path, "is not known" + (known.empty() ? "" : "; known here:" + known));
        return;
      }
      if (asked.contains(path) && !node.is_array_of_tables()) continue;
      if (const toml::table* below = node.as_table()) CheckUnknown(*below, path + ".");
      if (const toml::array* array = node.as_array()) {
        for (size_t i = 0; i < array->size(); ++i) {
          if (const toml::table* t = array->get(i)->as_table()) {
            CheckUnknown(*t, path + "[" + std::to_string(i) + "].");
          }
        }
      }
    }
  }
};

Config::Config(std::shared_ptr<State> state, const void* table, std::string prefix)
    : state_(std::move(state)), table_(table), prefix_(std::move(prefix)) {}
Config::Config(Config&&) noexcept = default;
Config& Config::operator=(Config&&) noexcept = default;
Config::~Config() = default;

Result<Config> Config::Load(const std::string& path) {
  std::unique_ptr<FILE, int (*)(FILE*)> f(fopen(path.c_str(), "re"), &fclose);
  if (!f) return ErrnoError(errno, "open the configuration file " + path);
  std::string text;
  char block[4096];
  while (const size_t n = fread(block, 1, sizeof block, f.get())) {
    text.append(block, n);
    if (text.size() > kMaxFileBytes) {
      return Error(FsError::kInval, "the configuration file " + path + " is larger than 1 MiB");
    }
  }
  if (ferror(f.get())) return ErrnoError(errno, "read the configuration file " + path);
  return Parse(text, path);
}

Result<Config> Config::Parse(std::string_view text, const std::string& name) {
  if (const int line = LineOfStrayLetter(text); line != 0) {
    return Error(FsError::kInval,
                 name + ", line " + std::to_string(line) + ": letters beyond ASCII must be in quotes");
  }
  toml::table parsed;
  try {
    parsed = toml::parse(text);
  } catch (const toml::parse_error& e) {
    return Error(FsError::kInval, name + ", line " + std::to_string(e.source().begin.line) + ": " +
                                      std::string(e.description()));
  } catch (const std::runtime_error& e) {
    return Error(FsError::kInval, name + " is not TOML: " + e.what());
  }
  auto state = std::make_shared<State>();
  state->file = name;
  state->root = std::move(parsed);
  const void* root = &state->root;
  return Config(std::move(state), root, "");
}

std::string Config::Path(std::string_view key) const { return prefix_ + std::string(key); }

const void* Config::Find(std::string_view key) {
  state_->asked.insert(Path(key));
  const auto* table = static_cast<const toml::table*>(table_);
  if (const auto* node = table->at_path(key).node()) return node;
  const auto former = state_->former.find(Path(key));
  return former == state_->former.end() ? nullptr : table->at_path(former->second).node();
}

void Config::Renamed(std::string_view former, std::string_view now) {
  if (!Has(former)) return;
  if (Has(now)) Reject(former, "is the former name of " + Quoted(now) + ", which is there, too");
  state_->asked.insert(Path(former));
  state_->former.emplace(Path(now), former);
}

bool Config::Has(std::string_view key) const {
  return static_cast<const toml::table*>(table_)->at_path(key).node() != nullptr;
}

void Config::Reject(std::string_view key, std::string_view why) { state_->Fail(Path(key), why); }

std::string Config::String(std::string_view key, std::string_view fallback) {
  const auto* node = static_cast<const toml::node*>(Find(key));
  if (node == nullptr) return std::string(fallback);
  if (const auto* s = node->as_string()) return s->get();
  Reject(key, "must be a string in quotes");
  return std::string(fallback);
}

std::string Config::RequiredString(std::string_view key) {
  std::string s = String(key, "");
  if (s.empty()) Reject(key, "must be set");
  return s;
}

std::string Config::OneOf(std::string_view key, std::string_view fallback,
                          const std::vector<std::string>& allowed) {
  std::string s = String(key, fallback);
  std::string choices;
  for (const std::string& a : allowed) {
    if (a == s) return s;
    choices += (choices.empty() ? "" : ", ") + Quoted(a);
  }
  Reject(key, Quoted(s) + " must be one of " + choices);
  return std::string(fallback);
}

bool Config::Bool(std::string_view key, bool fallback) {
  const auto* node = static_cast<const toml::node*>(Find(key));
  if (node == nullptr) return fallback;
  if (const auto* b = node->as_boolean()) return b->get();
  Reject(key, "must be true or false");
  return fallback;
}

int64_t Config::Int(std::string_view key, int64_t fallback, int64_t min, int64_t max) {
  const auto* node = static_cast<const toml::node*>(Find(key));
  if (node == nullptr) return fallback;
  if (const auto* i = node->as_integer(); i && i->get() >= min && i->get() <= max) return i->get();
  Reject(key, "must be a whole number from " + std::to_string(min) + " to " + std::to_string(max));
  return fallback;
}

double Config::Number(std::string_view key, double fallback, double min, double max) {
  const auto* node = static_cast<const toml::node*>(Find(key));
  if (node == nullptr) return fallback;
  const auto v = node->value<double>();
  if (v && *v >= min && *v <= max) return *v;
  char text[80];
  snprintf(text, sizeof text, "must be a number from %g to %g", min, max);
  Reject(key, text);
  return fallback;
}

uint64_t Config::Size(std::string_view key, uint64_t fallback, uint64_t min, uint64_t max) {
  const auto* node = static_cast<const toml::node*>(Find(key));
  if (node == nullptr) return fallback;
  if (const auto* s = node->as_string()) {
    const auto v = ParseSize(s->get());
    if (v.ok() && *v >= min && *v <= max) return *v;
  } else if (const auto* i = node->as_integer(); i && i->get() >= 0) {
    const auto v = static_cast<uint64_t>(i->get());
    if (v >= min && v <= max) return v;
  }
  Reject(key, "must be a size from \"" + FormatSize(min) + "\" to \"" + FormatSize(max) + "\"");
  return fallback;
}

int64_t Config::Duration(std::string_view key, int64_t fallback_ns, int64_t min_ns, int64_t max_ns) {
  const auto* node = static_cast<const toml::node*>(Find(key));
  if (node == nullptr) return fallback_ns;
  if (const auto* s = node->as_string()) {
    const auto v = ParseDuration(s->get());
    if (v.ok() && *v >= min_ns && *v <= max_ns) return *v;
  }
  Reject(key,
         "must be a duration from \"" + FormatDuration(min_ns) + "\" to \"" + FormatDuration(max_ns) + "\"");
  return fallback_ns;
}

std::vector<std::string> Config::Strings(std::string_view key, std::vector<std::string> fallback) {
  const auto* node = static_cast<const toml::node*>(Find(key));
  if (node == nullptr) return fallback;
  const toml::array* array = node->as_array();
  std::vector<std::string> out;
  for (size_t i = 0; array != nullptr && i < array->size(); ++i) {
    const auto* s = array->get(i)->as_string();
    if (s == nullptr) break;
    out.push_back(s->get());
  }
  if (array != nullptr && out.size() == array->size()) return out;
  Reject(key, "must be a list of strings, [\"a\", \"b\"]");
  return fallback;
}

std::vector<Config> Config::Tables(std::string_view key) {
  std::vector<Config> out;
  const auto* node = static_cast<const toml::node*>(Find(key));
  if (node == nullptr) return out;
  const toml::array* array = node->as_array();
  if (array == nullptr || !(array->empty() || array->is_array_of_tables())) {
    Reject(key, "must be tables, [[" + Path(key) + "]]");
    return out;
  }
  for (size_t i = 0; i < array->size(); ++i) {
    out.push_back(Config(state_, array->get(i)->as_table(), Path(key) + "[" + std::to_string(i) + "]."));
  }
  return out;
}

Result<void> Config::Finish() {
  if (state_->first_error.ok()) state_->CheckUnknown(state_->root, "");
  if (!state_->first_error.ok()) return state_->first_error;
  return Ok();
}

}  // namespace stria
