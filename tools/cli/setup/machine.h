// The machine that a command sets up: its files, users, services and programs. Blocking; one thread. The real one is that of this process,
// tests have their own.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "common/error.h"

namespace stria::cli {

inline constexpr char kServerUser[] = "stria";  // as whom packages run servers

struct PathFacts {
  bool is_dir = false;
  bool on_root = false;        // in the filesystem of /
  bool empty = true;           // nothing but lost+found; of a directory
  bool of_server = false;      // belongs to the user of the servers
  uint64_t device = 0;         // tells filesystems apart
};

struct Ran {
  int status = 0;      // of the program; 128 if a signal ended it
  std::string output;  // of both streams, at most 64 KiB
};

class Machine {
 public:
  virtual ~Machine() = default;
  virtual bool IsRoot() = 0;
  virtual std::string HostName() = 0;
  virtual bool HasServerUser() = 0;

  // kNoEnt if it is not there.
  virtual Result<std::string> ReadFile(const std::string& path) = 0;
  // At any moment the old or the new one, with the owner and the mode of the old; without one root's and 0644. Durable on return.
  virtual Result<void> WriteFile(const std::string& path, const std::string& content) = 0;
  virtual Result<PathFacts> Look(const std::string& path) = 0;
  // Without symbolic links.
  virtual Result<std::string> WholePath(const std::string& path) = 0;
  // Makes the directory with its parents, for the user of the servers only. Not an error if it is there.
  virtual Result<void> MakeServerDir(const std::string& path) = 0;
  // The path itself, not what is below. Durable on return.
  virtual Result<void> GiveToServer(const std::string& path) = 0;

  // Whether systemd runs this machine.
  virtual bool HasSystemd() = 0;
  // A program of the path, without a shell, to its end. An error only if it cannot be started.
  virtual Result<Ran> Run(const std::vector<std::string>& argv) = 0;
  virtual void Sleep(int64_t ns) = 0;
};

std::unique_ptr<Machine> ThisMachine();

// kPerm with a sentence unless root runs this, kNoEnt if the package that makes the servers' user is not installed.
Result<void> CheckCanSetUp(Machine* machine, const std::string& package);

// How a service that runs takes up what has changed.
enum class IfRunning { kLeave, kReload, kRestart };
// Starts a service now and at each start of the machine; by systemd. With kRestart it waits until the new one serves; a reload is only begun, and
// with kLeave it does not wait. What systemctl says if it fails.
Result<void> StartService(Machine* machine, const std::string& service, IfRunning running);

// While it lives this process acts as the owner of `path`, if it is root's process and the owner is another: files with keys are read by
// their owner only. One at a time; all threads of the process are that user meanwhile.
class AsOwnerOf {
 public:
  explicit AsOwnerOf(const std::string& path);
  ~AsOwnerOf();
  AsOwnerOf(const AsOwnerOf&) = delete;
  AsOwnerOf& operator=(const AsOwnerOf&) = delete;

 private:
  bool changed_ = false;
};

}  // namespace stria::cli
