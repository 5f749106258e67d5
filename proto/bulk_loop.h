// One thread that waits for many sockets (epoll, edge-triggered) and runs functions posted by other threads.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "common/compiler.h"

namespace stria {

class BulkLoop {
 public:
  // Takes a socket's readiness, on the loop's thread.
  class Watcher {
   public:
    virtual ~Watcher() = default;
    // `ended`: the peer sends no more, or the socket is broken; only reading to the end tells which. (Otherwise a read that
    // gives less than there was room for has taken all, epoll(7).)
    virtual void OnReady(bool readable, bool writable, bool ended) = 0;
  };

  explicit BulkLoop(const std::string& thread_name);
  // As Stop().
  ~BulkLoop();
  BulkLoop(const BulkLoop&) = delete;
  BulkLoop& operator=(const BulkLoop&) = delete;

  // Any thread. Runs `fn` on the loop's thread, in order; dropped if the loop has stopped.
  void Run(std::function<void()> fn);
  // Ends the thread and destroys functions that have not run. Not from the loop's thread.
  void Stop();

  // The loop's thread. `watcher` is kept until Forget; events that were due then are not delivered.
  void Watch(int fd, std::shared_ptr<Watcher> watcher);
  void Forget(int fd);  // nothing, if it is not watched

 private:
  void Loop();
  void Wake();

  const int epoll_fd_;
  const int wake_fd_;
  std::mutex mu_;
  std::vector<std::function<void()>> posted_;  // guarded by mu_
  bool sleeping_ = false;                      // guarded by mu_
  bool stop_ = false;                          // guarded by mu_
  std::vector<std::shared_ptr<Watcher>> by_fd_;  // the loop's thread; index: the descriptor
  std::thread thread_;
};

}  // namespace stria
