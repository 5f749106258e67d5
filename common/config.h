// Settings from a TOML file. Ask for each key with its default and bounds; then Finish() returns the first fault: a bad value,
// a missing key, or a key that was not asked for (a typing mistake must not become a silent default). Keys are dotted paths:
// "cache.size". Not thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "common/error.h"
#include "common/quantity.h"

namespace stria {

class Config {
 public:
  // kNoEnt, kAccess..., or kInval with file, line and fault.
  static Result<Config> Load(const std::string& path);
  // `name` stands for the file in error messages.
  static Result<Config> Parse(std::string_view text, const std::string& name);
  Config(Config&&) noexcept;
  Config& operator=(Config&&) noexcept;
  ~Config();

  // These give the default if the key is not there or is wrong; Finish() then has the error.
  std::string String(std::string_view key, std::string_view fallback);
  std::string RequiredString(std::string_view key);
  std::string OneOf(std::string_view key, std::string_view fallback, const std::vector<std::string>& allowed);
  bool Bool(std::string_view key, bool fallback);
  int64_t Int(std::string_view key, int64_t fallback, int64_t min, int64_t max);
  double Number(std::string_view key, double fallback, double min, double max);
  // "64MiB", or a number of bytes.
  uint64_t Size(std::string_view key, uint64_t fallback, uint64_t min, uint64_t max);
  // "15s"; nanoseconds.
  int64_t Duration(std::string_view key, int64_t fallback_ns, int64_t min_ns, int64_t max_ns);
  std::vector<std::string> Strings(std::string_view key, std::vector<std::string> fallback = {});
  // The tables of an array ([[disk]]), each to be asked like this one; empty if there is none. They share this one's errors and
  // may outlive it.
  std::vector<Config> Tables(std::string_view key);

  // The key `now` may also be there under its former name, but not under both.
  void Renamed(std::string_view former, std::string_view now);

  bool Has(std::string_view key) const;
  // An error of the caller's own, about a key: "KEY in FILE: WHY".
  void Reject(std::string_view key, std::string_view why);
  Result<void> Finish();

 private:
  struct State;
  Config(std::shared_ptr<State> state, const void* table, std::string prefix);
  const void* Find(std::string_view key);  // a toml::node
  std::string Path(std::string_view key) const;

  std::shared_ptr<State> state_;
  const void* table_;   // a toml::table of state_
  std::string prefix_;  // of its keys in messages, "disk[0]."
};

}  // namespace stria
