// The beat thread of one of several metadata servers: sends its beats and answers others' (meta/replica/beats), and does nothing else, so
// that neither waits for a long step of the logic. It has an executor, a client and a server of its own. The server has no address:
// connections come from the listeners' (BulkServerOptions::aside), whose own threads may be in the middle of such a step.
//
// Any thread. Destroying it ends the thread: it is waited for. Destroy first who hands connections on.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <thread>

#include "common/exec/loop_executor.h"
#include "meta/replica/beats/beat_desk.h"
#include "proto/bulk_transport.h"
#include "proto/secured_ends.h"
#include "proto/stubs.h"

namespace stria {

struct BeatThreadParams {
  std::shared_ptr<BeatDesk> desk;
  const SecuredEnds* ends = nullptr;  // outlives it; null: insecure
  DispatchOptions admission;          // its functions are called on the beat thread
};

class BeatThread {
 public:
  // Runs from now on. Executor's thread of `ends`.
  explicit BeatThread(BeatThreadParams params);
  ~BeatThread();
  BeatThread(const BeatThread&) = delete;
  BeatThread& operator=(const BeatThread&) = delete;

  // A member's connection; closed again if the thread has not begun yet.
  void Take(std::shared_ptr<BulkHandedOn> arrival);
  // Whom certificates let in has changed: closes the connections of those who are let in no more, soon.
  void Judge();

 private:
  struct Inside;
  void Run();

  const BeatThreadParams params_;
  BulkClientOptions client_;
  BulkServerOptions server_;
  LoopExecutor executor_;
  std::mutex mu_;
  Inside* inside_ = nullptr;  // guarded by mu_, written by the thread; null: it has not begun, or ends
  std::thread thread_;        // last
};

}  // namespace stria
