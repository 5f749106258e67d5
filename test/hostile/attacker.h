// A client with a key and a session of its own that sends what no client would: random requests of every method, in which numbers,
// names, tokens and headers are such as could matter, the forms of test/strangers with changes, and messages with changed bytes. It
// learns from what it is answered, and goes on with that. One seed gives one sequence of messages, given the same answers.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "common/random.h"
#include "proto/random_messages.h"
#include "proto/wire.h"
#include "test/hostile/hostile_world.h"
#include "test/strangers/requests.h"

namespace stria {

// Each leaf of a message: a number, an id, an enum, a text; headers and uuids count as one.
template <class T, class F>
void WalkMessage(T& v, F& f) {
  using namespace random_messages;
  if constexpr (kIsVector<T>) {
    for (auto& e : v) WalkMessage(e, f);
    f.List(v);
  } else if constexpr (kIsOptional<T>) {
    if (v) WalkMessage(*v, f);
  } else if constexpr (std::is_arithmetic_v<T> || std::is_enum_v<T> || kIsId<T> || std::is_same_v<T, std::string> ||
                       std::is_same_v<T, OpHeader> || std::is_same_v<T, DataHeader> || std::is_same_v<T, Uuid>) {
    f(v);
  } else if constexpr (!std::is_same_v<T, BufferChain> && !kIsPeer<T>) {
    if constexpr (requires { f.Whole(v); }) f.Whole(v);
    std::apply([&](auto&... members) { (WalkMessage(members, f), ...); }, Tie(v));
  }
}

struct Shot {
  size_t weapon = 0;
  size_t node = 0;  // that it is for, if it is for a data server
  std::string bytes;
  bool mutated = false;
};

class Attacker {
 public:
  Attacker(HostileWorld* world, uint64_t seed);
  Attacker(const Attacker&) = delete;
  Attacker& operator=(const Attacker&) = delete;

  Shot Next();
  // Whether it was taken; learns from it.
  bool Heard(const Shot& shot, const WireMessage& answer);
  const std::string& MethodOf(const Shot& shot) const { return weapons_[shot.weapon].method; }
  bool IsForData(const Shot& shot) const { return weapons_[shot.weapon].data; }

  // ---- The session that most of it is sent in ----
  OpHeader ValidHeader(bool mutation);
  void UseSession(SessionId session, Epoch epoch);
  SessionId session() const { return session_; }
  // All that it ever had, the last ones.
  const std::deque<std::pair<SessionId, Epoch>>& sessions() const { return sessions_; }
  // Seals of inodes that it was shown.
  const std::map<InodeId, InodeSeal>& seals() const { return seals_; }
  // Tokens of root's that it has come by; they expire.
  void Steal(std::vector<std::string> tokens) { stolen_ = std::move(tokens); }

 private:
  struct Weapon {
    std::string method;
    bool data = false;
    std::function<std::string()> make;
    std::function<bool(const WireMessage&)> hear;
  };
  // Puts what could matter into a message.
  struct Aim {
    Attacker* a;
    uint64_t percent;  // of the leaves that are changed
    bool grown = false;  // one list of a message is made long: lists of long lists would be too much for this process
    bool Changes() { return a->rng_.Percent(percent); }
    void operator()(OpHeader& h) { a->AimHeader(&h); }
    void operator()(DataHeader& h) { a->AimHeader(&h); }
    void operator()(Uuid& v);
    void operator()(InodeId& v);
    void operator()(StripeId& v);
    void operator()(ShardId& v);
    void operator()(TargetId& v);
    void operator()(NodeId& v);
    void operator()(SessionId& v);
    void operator()(Epoch& v);
    void operator()(OpSeq&) {}
    void operator()(CommitSeq&) {}
    void operator()(std::string& v);
    void operator()(double&) {}
    void operator()(bool& v) {
      if (Changes() && a->rng_.OneIn(4)) v = !v;
    }
    template <class T>
    void operator()(T& v) {
      if constexpr (std::is_integral_v<T>) v = static_cast<T>(Changes() ? a->SomeNumber(v) : v);
    }
    template <class T>
    void List(std::vector<T>& list) {
      if (grown || list.empty() || !a->rng_.OneIn(2000)) return;
      grown = true;
      list.resize(a->rng_.OneIn(2) ? kMaxWireItems + 1 : a->rng_.Below(5000), T(list[0]));
    }
  };
  // Keeps what a reply names.
  struct Learn {
    Attacker* a;
    void operator()(InodeId& v);
    void operator()(StripeId& v);
    void operator()(ShardId& v);
    void operator()(std::string& v);
    template <class T>
    void operator()(T&) {}
    template <class T>
    void List(std::vector<T>&) {}
    void Whole(StripeGrant& v);
    void Whole(InodeSeal& v) { a->seals_[v.ino] = v; }
  };
  struct Granted {
    ShardId shard;
    TargetId target;
    std::string token;
    bool operator==(const Granted&) const = default;
  };

  template <class Req, class Rep>
  void Add(const std::string& method, bool data);
  void AddPlausible();
  std::string Mutated(const Shot& shot);
  void AimHeader(OpHeader* h);
  void AimHeader(DataHeader* h);
  uint64_t SomeNumber(uint64_t was);
  template <class T>
  const T& One(const std::vector<T>& of) {
    return of[rng_.Below(of.size())];
  }
  std::string SomeToken();
  Granted SomeGrant();  // as it was given, or with a part of another one
  void Remember(const OpenSessionReply& reply);

  // Names and bytes that say who they are of go into root's directories only: what the hostile one makes itself it may read.
  static void Clean(std::string* text);
  bool IsRoots(InodeId ino) const;
  struct Cleaner {
    void operator()(std::string& v) { Clean(&v); }
    template <class T>
    void operator()(T&) {}
    template <class T>
    void List(std::vector<T>&) {}
  };
  template <class Req>
  void Scrub(Req& r) {
    Cleaner cleaner;
    WalkMessage(r, cleaner);
  }
  void Scrub(NameRequest&) {}  // stores nothing
  void Scrub(MakeNodeRequest& r);
  void Scrub(LinkRequest& r);
  void Scrub(RenameRequest& r);
  void Scrub(CommitRequest& r);
  void Scrub(XattrRequest& r);

  HostileWorld* const world_;
  Random rng_;
  std::vector<Weapon> weapons_;
  std::map<std::string, size_t> by_method_;
  std::deque<std::string> recent_;  // messages

  SessionId session_;
  Epoch epoch_;
  uint64_t next_op_ = 1;
  std::deque<std::pair<SessionId, Epoch>> sessions_;

  // What it knows. Those of root's stay.
  const std::vector<InodeId> roots_;
  std::vector<InodeId> own_;
  std::vector<StripeId> stripes_;
  std::vector<ShardId> shards_;
  std::vector<TargetId> targets_;
  std::vector<std::string> proofs_, tokens_, stolen_, names_;
  std::vector<Granted> granted_;
  std::vector<StripeInfo> allocated_;
  std::map<InodeId, InodeSeal> seals_;
  size_t roots_stripes_ = 0, roots_shards_ = 0, first_own_ = 0;
};

}  // namespace stria
