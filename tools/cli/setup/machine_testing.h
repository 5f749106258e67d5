// For tests: a machine that is a map of files.
#pragma once

#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "tools/cli/setup/machine.h"

namespace stria::cli {

class FakeMachine : public Machine {
 public:
  bool root = true, server_user = true, systemd = true;
  std::string host = "pc1";
  std::map<std::string, std::string> files;
  std::map<std::string, PathFacts> paths;      // besides files
  std::set<std::string> of_server;             // given to the servers' user
  std::vector<std::string> ran;                // "program argument .."
  std::function<Ran(const std::string& line)> on_run = [](const std::string&) { return Ran(); };
  int64_t slept_ns = 0;
  int writes = 0;

  bool IsRoot() override { return root; }
  std::string HostName() override { return host; }
  bool HasServerUser() override { return server_user; }
  Result<std::string> ReadFile(const std::string& path) override {
    const auto it = files.find(path);
    if (it == files.end()) return Error(FsError::kNoEnt, "cannot open " + path);
    return it->second;
  }
  Result<void> WriteFile(const std::string& path, const std::string& content) override {
    ++writes;
    files[path] = content;
    return Ok();
  }
  Result<PathFacts> Look(const std::string& path) override {
    PathFacts facts;
    if (const auto it = paths.find(path); it != paths.end()) facts = it->second;
    else if (!files.contains(path)) return Error(FsError::kNoEnt, "cannot look at " + path);
    facts.of_server = facts.of_server || of_server.contains(path);
    return facts;
  }
  Result<std::string> WholePath(const std::string& path) override {
    if (!paths.contains(path) && !files.contains(path)) return Error(FsError::kNoEnt, "cannot look at " + path);
    return path;
  }
  Result<void> MakeServerDir(const std::string& path) override { return GiveToServer(path); }
  Result<void> GiveToServer(const std::string& path) override {
    of_server.insert(path);
    return Ok();
  }
  bool HasSystemd() override { return systemd; }
  Result<Ran> Run(const std::vector<std::string>& argv) override {
    std::string line;
    for (const std::string& a : argv) line += (line.empty() ? "" : " ") + a;
    ran.push_back(line);
    return on_run(line);
  }
  void Sleep(int64_t ns) override { slept_ns += ns; }

  // A mounted filesystem with nothing in it.
  void AddDisk(const std::string& path, uint64_t device) {
    PathFacts facts;
    facts.is_dir = true;
    facts.device = device;
    paths[path] = facts;
  }
};

}  // namespace stria::cli
