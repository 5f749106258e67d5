// Ships the primary's log to one other member, in order: several Appends at once, each of a run of batches, bounded in number and
// bytes; a beat when there is nothing to send. Finds out where the member's log is, and what it makes durable.
//
// An answer counts only in this life and term: it comes to the very task that asked, and names a point of the log. If that
// point is not in the primary's log, the member has something else there and says nothing about ours.
//
// For the executor's thread.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>

#include "api/replica_api.h"
#include "common/exec/task.h"
#include "common/units.h"
#include "meta/replica/replica_store.h"

namespace stria {

struct ShipperOptions {
  int64_t linger_ns = 2 * kMillisecond;    // a batch that nobody waits for is sent after so long
  int64_t beat_ns = 250 * kMillisecond;
  int64_t suspect_ns = 1500 * kMillisecond;  // silent for so long
  int64_t ack_timeout_ns = 2 * kSecond;    // .. or owing "durable" for so long: it is to leave the set
  int64_t call_timeout_ns = 4 * kSecond;
  int64_t retry_ns = 100 * kMillisecond;
  size_t max_in_flight = 8;                // Appends with batches
  size_t max_syncs = 2;                    // .. and Appends that wait for the member's disk
  size_t window_bytes = 4 * kMiB;          // of batches that are in flight; one batch more
  size_t append_bytes = 1 * kMiB;          // of one Append; one batch more. With that it fits kMaxPayloadBytes
  size_t near_batches = 64;                // a member that lacks no more is about to have caught up
};

// Who is told. None of these may destroy the shipper.
struct ShipperEnv {
  ReplicaStore* store = nullptr;
  uint64_t term = 0;
  std::function<AppendRequest()> header;  // header, term, primary, version, token time and commit of now
  std::function<void(CommitSeq seq)> durable;               // all up to there; the member's store is whole
  std::function<void()> went_back;                          // it has less than it once said
  std::function<void(int64_t sent_ns)> heard;               // it answered what was sent then
  std::function<void(const std::string& why)> ask_drop;     // again and again while it is so
  std::function<void()> near;                               // whole, and not far behind; again and again
  std::function<void(uint64_t term)> deposed;               // it knows a higher term
};

class Shipper {
 public:
  Shipper(ShipperEnv env, std::shared_ptr<ReplicaService> peer, const ShipperOptions& options);

  // Until it is destroyed.
  Task<void> Run();
  // The log has grown; it goes out soon.
  void Written();
  // Somebody waits until all up to `seq` is durable.
  void Want(CommitSeq seq);
  // The member's log may be elsewhere now (it has joined): look.
  void Probe();

  CommitSeq received() const { return received_; }  // the member has all up to it in its journal
  CommitSeq durable() const { return durable_; }
  bool knows() const { return known_; }             // where its log is, and that ours goes on from there
  bool needs_join() const { return needs_join_; }
  int64_t heard_ns() const { return heard_ns_; }
  size_t bytes_in_flight() const { return bytes_; }

 private:
  struct Sent {
    int64_t at_ns = 0;
    uint64_t round = 0;
    bool batches = false;
    bool sync = false;
    CommitSeq upto;  // the last batch of it
    size_t bytes = 0;
  };
  struct Owed {
    CommitSeq seq;
    int64_t since_ns = 0;
  };
  int64_t Now() const { return Executor::Current().NowNs(); }
  void Fill(int64_t now);
  void SendSome(std::vector<LogRow> rows);
  void SendEmpty(bool sync);
  void Send(AppendRequest request, Sent sent);
  Task<void> Call(AppendRequest request, Sent sent);
  void Answered(const Sent& sent, const Result<AppendReply>& reply);
  void Place(const AppendReply& reply);
  void Lost();
  void NeedJoin();
  void Watch(int64_t now);
  int64_t NextNs(int64_t now) const;

  const ShipperEnv env_;
  const std::shared_ptr<ReplicaService> peer_;
  const ShipperOptions options_;
  uint64_t round_ = 1;  // grows when sending begins anew: answers of before say nothing of where the member's log is
  bool known_ = false;
  bool needs_join_ = false;
  bool whole_ = false;  // as it said last
  bool stopped_ = false;
  CommitSeq next_;      // sent up to there
  CommitSeq received_;
  CommitSeq durable_;
  CommitSeq sync_sent_;  // a sync that covers all up to there is under way
  CommitSeq wanted_;
  std::deque<Owed> owed_;
  size_t in_flight_ = 0;
  size_t syncs_ = 0;
  size_t bytes_ = 0;
  int64_t due_ns_ = INT64_MAX;   // what is written is sent then
  int64_t sent_ns_ = INT64_MIN / 2;
  int64_t not_before_ns_ = INT64_MIN / 2;  // after a failure
  int64_t heard_ns_ = 0;
  int64_t asked_ns_ = INT64_MIN / 2;  // that it be dropped
  Event wake_;
  TaskScope calls_;  // last: its tasks use everything above
};

}  // namespace stria
