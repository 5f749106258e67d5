// A daemon whose starter waits until the daemon works, or learns why it does not.
#pragma once

#include <string>

#include "common/error.h"

namespace stria {

class Daemon {
 public:
  // Forks unless `foreground`. Returns in the child only; the parent waits for Ready or Failed (or the child's end), prints the
  // message and exits. Call before any thread is started.
  static Result<Daemon> Start(bool foreground);
  Daemon(Daemon&& other) noexcept;
  ~Daemon();

  // The starter exits with 0; the terminal is let go. Once.
  void Ready();
  // The starter prints `sentence` and exits with `exit_code`. Once, instead of Ready.
  void Failed(const std::string& sentence, int exit_code);

 private:
  explicit Daemon(int fd) : fd_(fd) {}
  int fd_;  // to the starter; -1 in the foreground
};

}  // namespace stria
