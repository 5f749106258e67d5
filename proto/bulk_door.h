// How connections come to a bulk server: accepted, looked at and, with TLS, shaken hands with, until it is known who is at the
// other end. For bulk_server.cc.
//
//   Acceptor --> Greeter (no TLS: the preface) ------------> opened
//           \--> Shaker (TLS: the handshake) --------------> opened
//                  \--> Joiner (no certificate yet) --> one request, one answer
//
// Those of whom nothing is known yet are in a doorman's care (trust/doorman.h). Loops' threads but where it says otherwise.
#pragma once

#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "common/exec/executor.h"
#include "common/exec/pool.h"
#include "common/exec/task.h"
#include "proto/bulk_channel.h"
#include "proto/bulk_loop.h"
#include "proto/bulk_transport.h"
#include "trust/doorman.h"

namespace stria {

// A connection that may begin: its frames come next.
struct BulkArrival {
  BulkLoop* loop = nullptr;  // that it belongs to, on whose thread it is told
  int fd = -1;               // goes to who is told
  BulkProtection protection;
  std::string address;
};

// One that goes to another server. If nobody takes it, its socket is closed with it. Any thread, one at a time.
class BulkHandedOn {
 public:
  explicit BulkHandedOn(BulkArrival arrival) : arrival_(std::move(arrival)) {}
  BulkHandedOn(const BulkHandedOn&) = delete;
  BulkHandedOn& operator=(const BulkHandedOn&) = delete;
  ~BulkHandedOn() {
    if (arrival_.fd >= 0) close(arrival_.fd);
  }
  // Once; its loop is `loop`.
  BulkArrival Take(BulkLoop* loop) {
    BulkArrival taken = std::move(arrival_);
    arrival_.fd = -1;
    taken.loop = loop;
    return taken;
  }

 private:
  BulkArrival arrival_;
};

class BulkDoor : public std::enable_shared_from_this<BulkDoor> {
 public:
  // `opened` calls Gone when its connection is closed.
  BulkDoor(Executor* executor, const BulkServerOptions& options, std::function<void(BulkArrival)> opened);
  BulkDoor(const BulkDoor&) = delete;
  BulkDoor& operator=(const BulkDoor&) = delete;
  ~BulkDoor();

  // Listens from now on. `loops` live until Close. `quiet`: one more, on which connections come until they are opened, and which helps the executor
  // with nothing; null: on those of `loops`. Executor's thread, once. The address with its port, or kUnavailable.
  Result<std::string> Open(const std::string& address, std::vector<BulkLoop*> loops, BulkLoop* quiet = nullptr);
  // Before the loops stop: what it does on the executor's thread, which this is, ends.
  void EndTasks();
  // After they have stopped.
  void Close();

  // A connection comes that has passed another door. False: there is no room for it. Any thread.
  bool Comes();
  // A connection that was opened is closed. Any thread.
  void Gone() { --open_; }
  // Those of whom nothing is known yet. Any thread.
  size_t waiting();

 private:
  class Acceptor;
  class Visitor;
  class Greeter;
  class Shaker;
  class Joiner;
  // A doorman and those in his care.
  struct Room {
    explicit Room(const DoormanLimits& limits) : doorman(limits) {}
    Doorman doorman;
    std::map<uint64_t, std::shared_ptr<Visitor>> here;
  };

  BulkLoop* acceptor_loop() const { return quiet_ != nullptr ? quiet_ : loops_[0]; }
  void Accepted(int fd, const std::string& address);
  void AcceptedLocal(BulkLoop* loop, int fd);
  void AtTheDoor(const std::shared_ptr<Visitor>& visitor, const std::string& place);
  bool BecomesJoiner(Visitor* was, const std::shared_ptr<Joiner>& joiner);
  void Ask(const std::shared_ptr<Joiner>& joiner, std::string request);
  void SpawnJoin(const std::shared_ptr<Joiner>& joiner, std::string request);
  static Task<void> Join(BulkDoor* door, std::shared_ptr<Joiner> joiner, std::string request);
  void Left(Visitor* visitor);
  Result<void> Sent(Visitor* visitor, size_t bytes);
  void Opens(BulkLoop* here, int fd, BulkProtection protection, const std::string& address);
  void HandOn(int fd, BulkProtection protection, const std::string& address);
  void Tell(const Error& why) const;
  static void SendAway(const std::shared_ptr<Visitor>& visitor, const std::string& why);
  static Task<void> Watch(BulkDoor* door);

  Executor* const executor_;
  const BulkServerOptions options_;
  const std::function<void(BulkArrival)> opened_;
  std::string socket_path_;
  std::vector<BulkLoop*> loops_;
  BulkLoop* quiet_ = nullptr;
  size_t next_loop_ = 0;  // the quiet loop's thread, or the first one's
  std::atomic<size_t> open_{0};
  std::mutex mu_;
  bool closed_ = false;  // guarded by mu_
  Room unknown_;         // guarded by mu_
  Room asking_;          // guarded by mu_: those whose request to join is here
  std::unique_ptr<ThreadPool> handshakes_;
  TaskScope watch_, joins_;
};

}  // namespace stria
