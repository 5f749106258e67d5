// Finds the primary among the metadata servers: asks all of them at once, and keeps a question waiting at each that calls do not go to
// (LocateRequest::wait_ns). What they say goes into MetaPeers. Executor's thread only. Destroying it ends all its calls.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "api/replica_api.h"
#include "common/exec/task.h"
#include "common/random.h"
#include "peers/meta_peers.h"

namespace stria {

struct MetaLocatorOptions {
  int64_t wait_ns = 20 * kSecond;   // of a question that waits
  int64_t ask_ns = 1 * kSecond;     // of one that does not
  int64_t again_ns = 1 * kSecond;   // after one that failed, at most; half of it at least
  int64_t alone_ns = 300 * kSecond;  // a server that does not know the service is asked again after
  int64_t look_ns = 60 * kSecond;   // all are asked at least so often: members may have been added
  int64_t look_for_others_ns = 5 * kSecond;  // the same while one address is known: if that server is lost, nothing leads to the others
  int64_t hurry_ns = 100 * kMillisecond;  // between two rounds that calls ask for
  uint64_t seed = 1;                // of the jitter
};

class MetaLocator {
 public:
  // Both outlive it. `cluster`: as is known now, for the requests.
  MetaLocator(MemberConnector* connector, MetaPeers* peers, std::function<Uuid()> cluster, const MetaLocatorOptions& options = {});
  ~MetaLocator();
  MetaLocator(const MetaLocator&) = delete;
  MetaLocator& operator=(const MetaLocator&) = delete;

  void Start();
  // Nobody serves where calls go: all are asked now, or very soon if that was just done.
  void Hurry();
  // Is told when calls go elsewhere because of an answer; before Start.
  void OnMoved(std::function<void()> told) { moved_ = std::move(told); }
  uint64_t rounds() const { return rounds_; }

 private:
  Task<void> Look();
  Task<bool> Hurried();
  Task<void> Follow(std::string address);
  Task<void> Keep();
  Task<void> AskAll();
  Task<Result<LocateReply>> Ask(std::string address, int64_t wait_ns);
  void Take(const LocateReply& said);

  MemberConnector* const connector_;
  MetaPeers* const peers_;
  const std::function<Uuid()> cluster_;
  const MetaLocatorOptions options_;
  Random rng_;
  std::function<void()> moved_ = [] {};
  Event hurry_;
  bool hurried_ = false;
  uint64_t rounds_ = 0;
  std::map<std::string, std::unique_ptr<TaskScope>> following_;  // by address
  struct Alone {  // a server that does not know the service; in its next life it may be one of several
    int64_t until_ns = 0;
    uint64_t term = 0;
  };
  std::map<std::string, Alone> alone_;
  TaskScope scope_;  // last
};

}  // namespace stria
