// For tests of MetaSession: a metadata server in memory that keeps sessions, events and exactly-once results, and loses its
// undurable tail at a restart. Its namespace has two mutations, Unlink(name) and Rename(new_name), which note the name,
// Release, and Lookup, which fails. All other calls are kNoSys. Executor's thread only.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "api/meta_api.h"
#include "common/random.h"

namespace stria {

class FakeMeta final : public MetaConnector {
 public:
  struct Faults {
    uint32_t lost_request_percent = 0;
    uint32_t lost_reply_percent = 0;
    uint32_t duplicate_percent = 0;
    bool down = false;
    bool hung = false;
  };
  explicit FakeMeta(uint64_t seed) : rng_(seed) { map_.version = 1, map_.cluster = Uuid{7, 7}; }

  // `leader` leads, "standby" answers kNotLeader; "former" opens sessions, renews and polls as a server of the first life that knows
  // nothing of later ones; any other address is kUnavailable.
  std::shared_ptr<MetaService> Connect(const std::string& address) override;

  // A new term. Mutations after durable_seq() are forgotten; so are sessions if asked.
  void Restart(bool forget_sessions);
  void Sync() { durable_ = seq_; }
  // Its store is an older one.
  void GoBackTo(uint64_t seq) { seq_ = durable_ = survived_ = seq; }
  void SyncByItself(bool yes) { auto_sync_ = yes; }  // each renewal finds everything durable
  void Fence();                                      // all sessions
  void Lapse();                                      // likewise; it is taken back when it asks
  // To the only session; returns the event's number.
  uint64_t Push(SessionEvent::Kind kind, InodeId ino);
  void SetMapVersion(uint64_t version) { map_.version = version; }

  Faults faults;
  // Called before each change; an error is its answer. May be empty.
  std::function<Error(const std::string& name)> on_change;
  std::string leader = "a";     // its address
  std::set<std::string> dead;   // PCs that are off: nothing comes from these addresses any more
  Error refuses_opens;              // unless it is Ok: the answer to each request for a new session
  std::vector<NotTaken> not_taken;  // told to a session that comes back
  int64_t lease_ns = 15 * kSecond;
  // Of a confined session: told at each open; with each change, that of an inode of the number of the change; and what came with
  // the last change or lookup.
  std::vector<InodeSeal> root_seals;
  bool seals_changes = false;
  std::vector<InodeSeal> got_seals;
  InodeId root = kRootInode;  // told at each open
  bool read_only = false;
  std::string path;           // that the last open asked for
  uint64_t acked_event() const { return acked_; }
  CommitSeq seen() const { return seen_; }
  CommitSeq seq() const { return CommitSeq(seq_); }
  void Advance(uint64_t n) { seq_ += n; }
  // Names unlinked, in order, as far as the server remembers.
  std::vector<std::string> log() const;
  // Inodes given back, in order of arrival (`release`, Release), repeated or not.
  const std::vector<InodeId>& released() const { return released_; }
  const std::vector<HeldInode>& reclaimed() const { return reclaimed_; }
  size_t stored_results() const { return results_.size(); }
  uint64_t renewals() const { return renewals_; }
  uint64_t polls() const { return polls_; }
  uint64_t epoch() const { return epoch_; }
  uint64_t sessions_opened() const { return next_session_ - 1; }
  uint64_t former_answers() const { return former_answers_; }
  const SaidTerm& heard() const { return heard_; }  // with the last renewal

 private:
  class Service;
  friend class Service;
  Error Check(const OpHeader& h) const;
  ClusterMap Map() const;  // with the term

  Random rng_;
  ClusterMap map_;
  uint64_t term_ = 1;
  uint64_t next_session_ = 1;
  SessionId session_;  // 0: none
  bool unclaimed_ = false;
  bool lapsed_ = false;
  uint64_t epoch_ = 1;
  uint64_t survived_ = 0;
  uint64_t open_nonce_ = 0;
  uint64_t seq_ = 100;
  uint64_t durable_ = 100;
  bool auto_sync_ = true;
  std::map<uint64_t, std::string> applied_;                    // commit -> name
  std::map<OpSeq, std::pair<uint64_t, std::string>> results_;  // of the session
  std::set<OpSeq> refused_;
  OpSeq acked_below_;
  std::deque<SessionEvent> events_;
  uint64_t next_event_ = 1;
  uint64_t acked_ = 0;
  Event wake_;
  CommitSeq seen_;
  std::vector<InodeId> released_;
  std::vector<HeldInode> reclaimed_;
  uint64_t renewals_ = 0;
  uint64_t polls_ = 0;
  uint64_t former_answers_ = 0;
  SaidTerm heard_;
};

}  // namespace stria
