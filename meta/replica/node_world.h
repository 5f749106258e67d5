// For tests: whole members (MetaNode, MemberDesk) in one process, in virtual time, with a house that writes and reads by the seed. Their
// disks lose what is not synced; messages are lost, late, doubled and outlive who sent them; the coordinator as FakeCoordinator
// says; members crash, lose power, lose their disks and are stopped for a while (nothing reaches or leaves them, and their clock goes on),
// or hang, as in a long step of their logic (the same, but beats are sent and answered).
//
// Whatever happens, these hold (`problem()`): what was acknowledged as durable is in each later primary, and at that moment with every
// member of the register's set; no answer leaves a member after a later term has opened; whole stores are what their logs say.
// When all is healed, one serves, all are in the set, and their stores are equal.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "common/exec/sim_executor.h"
#include "common/exec/task.h"
#include "common/kv/mem_kv.h"
#include "common/purpose_mac.h"
#include "common/random.h"
#include "meta/replica/beats/beat_sender.h"
#include "meta/replica/member_desk.h"
#include "meta/replica/meta_node.h"
#include "test/sim/replica/fake_coordinator.h"

namespace stria {

class NodeWorld {
 public:
  // `members`: "m0", "m1", ... The first has a log that begins at 0 and is the register's primary and set; the others are empty. Nobody
  // is started.
  NodeWorld(uint64_t seed, size_t members);
  ~NodeWorld();

  class House;
  struct Member {
    std::string name;
    Uuid uuid;
    std::shared_ptr<MemKvMedia> media;
    std::unique_ptr<Coordinator> asks;  // the coordinator, as it sees it
    int64_t stopped_until_ns = 0;
    int64_t hangs_until_ns = 0;
    bool up = false;
    std::unique_ptr<House> house;
    std::unique_ptr<MetaNode> node;
    std::unique_ptr<MemberDesk> desk;
    std::unique_ptr<BeatAnswerer> answerer;
    std::unique_ptr<BeatSender> sender;
    std::unique_ptr<TaskScope> beating;
    std::unique_ptr<TaskScope> answering;  // calls of others
    bool serves() const { return up && node->serving(); }
  };
  Member& member(size_t i) { return *members_[i]; }
  Member& member(const std::string& name);
  size_t size() const { return members_.size(); }
  SimExecutor& ex() { return ex_; }
  FakeCoordinator& coordinator() { return coordinator_; }
  const Register& in_force() const;  // what the coordinator has

  // ---- By hand
  void Start(Member& m);
  void StartAll();
  void Crash(Member& m, bool power);
  void Wipe(Member& m);  // it is down; its disk is a new one, with another uuid
  void Stop(Member& m, int64_t ns) { m.stopped_until_ns = ex_.NowNs() + ns; }
  void Hang(Member& m, int64_t ns) { m.hangs_until_ns = ex_.NowNs() + ns; }
  void FailSync(Member& m);  // what it writes: one that begins now
  void Cut(const std::string& from, const std::string& to, bool cut);
  void SetWriting(bool writing) { writing_ = writing; }
  // Something fails that people should know of: alarms are right from now on, and kept ("m0: ..").
  void ExpectAlarms() { expects_alarms_ = true; }
  const std::vector<std::string>& alarms() const { return alarms_; }
  Member* Primary();  // the one that serves in the highest term; null: none
  bool RunUntil(const std::function<bool()>& done, int64_t ns) { return ex_.RunUntil(done, ex_.NowNs() + ns); }
  void RunFor(int64_t ns) { ex_.RunFor(ns); }
  // One serves, and all are in the set.
  bool AllIn();
  // The answer of a member's desk; kDeadline if there is none in time.
  template <class Reply>
  Result<Reply> Ask(Member& m, Task<Result<Reply>> call, int64_t ns = 30 * kSecond) {
    const auto got = std::make_shared<std::optional<Result<Reply>>>();
    m.answering->Spawn(std::move(call), [got](Result<Reply> r) { got->emplace(std::move(r)); });
    if (!RunUntil([&] { return got->has_value(); }, ns)) return Error(FsError::kDeadline, "no answer");
    return std::move(**got);
  }

  // ---- By the seed. Returns problem()
  std::string Run();
  const std::string& problem() const { return problem_; }
  struct Counts {
    uint64_t acked = 0, reads = 0, terms = 0, crashes = 0, stops = 0, hangs = 0, offers = 0, joins = 0, wipes = 0;
  };
  const Counts& counts() const { return counts_; }

  struct Settings {
    uint64_t loss_percent = 0;
    uint64_t double_percent = 0;
    int64_t max_delay_ns = 1 * kMillisecond;
    int64_t straggle_ns = 0;  // one message in 50 takes up to so long; 0: none
    int64_t max_sync_ns = 1 * kMillisecond;
    uint64_t copy_bytes_per_s = 0;  // of members that are started from now on; 0: no bound
  };
  Settings& settings() { return settings_; }

 private:
  class Link;
  class Links;
  class HeldCoordinator;
  using Content = std::map<std::pair<KvFamily, std::string>, std::string>;
  struct Batch {  // of the tree of all batches that were ever written, by chain
    uint64_t before = 0;
    LogPoint point;
    KvBatch batch;
  };
  static std::string AddressOf(const std::string& name) { return name + ":7401"; }
  template <class Service>
  Service* ServiceOf(Member& m);
  template <class Service, class Reply, class Request>
  Task<Result<Reply>> Call(std::string from, std::string to, Request request, Task<Result<Reply>> (Service::*call)(Request));
  template <class Service, class Reply, class Request>
  Task<void> Carry(std::string from, std::string to, Request request, Task<Result<Reply>> (Service::*call)(Request),
                   OneShot<Result<Reply>> answer);
  Task<void> Held(std::string name, bool beat = false);  // nothing reaches or leaves it now
  Task<void> Hung(std::string name);                     // its logic does nothing now
  int64_t Delay();
  bool Loses(const std::string& from, const std::string& to);
  MetaNodeOptions OptionsOf(Member& m);

  void Fail(std::string what);
  void Opens(Member& m, const MetaLife& life);  // before its first batch
  void Acknowledged(const MetaLife& life, const LogPoint& point);
  bool HasPoint(Member& m, const LogPoint& point);
  std::set<uint64_t> PathTo(const LogPoint& point) const;
  Content ContentAt(const LogPoint& point) const;
  static Content ContentOf(KvStore& kv);
  void CheckWhole(Member& m);
  Task<void> Faults();
  void FailAround(uint64_t which, Member& m, Member& other);  // what FailMember knows nothing of
  void LoseADisk();
  Task<void> Replace(Member* m);
  Task<void> Watch();
  void Heal();
  bool Settled();

  SimExecutor ex_;
  Random rng_;
  Settings settings_;
  PurposeMac mac_;
  FakeCoordinator coordinator_;
  mutable Register in_force_;          // decoded
  mutable uint64_t in_force_of_ = 0;   // the coordinator's change of which that is
  std::map<std::string, std::unique_ptr<Links>> links_;  // by who calls
  std::map<uint64_t, Batch> batches_;
  std::map<CommitSeq, LogPoint> acked_;
  uint64_t highest_open_ = 0;  // term
  std::set<std::pair<std::string, std::string>> cut_;
  std::string problem_;
  Counts counts_;
  bool quiet_ = false;  // nothing fails any more
  bool late_ = false;   // swaps are carried out late
  bool writing_ = true;
  bool expects_alarms_ = false;
  std::vector<std::string> alarms_;
  uint64_t written_ = 0, nonce_ = 0, uuids_ = 0;
  std::vector<std::unique_ptr<Member>> members_;
  TaskScope scope_;  // last
};

}  // namespace stria
