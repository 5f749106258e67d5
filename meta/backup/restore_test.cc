#include "meta/backup/restore.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/exec/sim_run.h"
#include "common/kv/mem_kv.h"
#include "common/random.h"
#include "meta/backup/archive_testing.h"
#include "meta/backup/batch_tape.h"
#include "meta/backup/checkpoint_walk.h"
#include "meta/store/txn.h"

namespace stria {
namespace {

using Dump = std::map<std::pair<size_t, std::string>, std::string>;

Dump DumpOf(KvStore& kv) {
  Dump out;
  for (size_t f = 0; f < kFamilies; ++f) {
    const auto entries = kv.Scan(static_cast<KvFamily>(f), "", "", 100'000);
    for (const KvEntry& e : *entries) out[{f, e.first}] = e.second;
  }
  return out;
}

ClusterKey MasterKey(uint32_t id) {
  ClusterKey key;
  key.id = id;
  key.secret.fill(static_cast<uint8_t>(id));
  return key;
}

// The archived batches, in the order in which they became durable.
class Vault final : public ArchiveSource {
 public:
  void Put(ArchiveName name, std::string bytes) { objects.emplace_back(name, std::move(bytes)); }
  Task<Result<std::string>> Get(ArchiveName name, size_t copy) override {
    for (size_t i = 0; i < limit && i < objects.size(); ++i) {
      if (objects[i].first == name && copy-- == 0) co_return objects[i].second;
    }
    co_return Error(FsError::kNoEnt, "no such object");
  }
  std::vector<ArchiveName> Names() const {
    std::vector<ArchiveName> out;
    for (size_t i = 0; i < limit && i < objects.size(); ++i) out.push_back(objects[i].first);
    return out;
  }

  std::vector<std::pair<ArchiveName, std::string>> objects;
  size_t limit = SIZE_MAX;  // as if only so many had been stored
};

// A store that changes at random while it is archived; its state at each sequence is kept.
class World {
 public:
  explicit World(uint64_t seed) : rng(seed), media_(std::make_shared<MemKvMedia>(kFamilies)) { Start(); }

  // The server is started again, perhaps after a power cut.
  void Start() {
    if (store) {
      const bool power = rng.OneIn(2);
      if (power) {
        // Batches that were not durable never were; their numbers may come again.
        std::erase_if(states, [&](const auto& s) { return s.first.first == term && s.first.second > store->durable_seq().v; });
      }
      store.reset();
      media_->Crash(rng, power);
    }
    store = RunSim(ex, MetaStore::Open(std::make_unique<MemKv>(media_))).value();
    ++term;
    walk.reset();
    tape.Begin(store->last_seq());
    store->SetTap([this](CommitSeq seq, const KvBatch& b) { tape.Add(seq, 0, ++clock, b); });
    Note();
  }
  void Note() { states[{term, store->last_seq().v}] = DumpOf(store->kv()); }

  ArchiveName Name(ArchiveKind kind, CommitSeq first, uint64_t last) const {
    ArchiveName n;
    n.incarnation = 1;
    n.term = term;
    n.kind = kind;
    n.first = first;
    n.walk = kind == ArchiveKind::kSegment ? 0 : walks;
    n.last = last;
    return n;
  }
  uint64_t Store(const ArchiveName& name, const std::string& body) {
    ArchiveHead head;
    head.cluster = Uuid{1, 2};
    head.name = name;
    head.wall_ns = ++clock;
    vault.Put(name, EncodeArchive(head, body, seal));
    return OpenArchive(vault.objects.back().second)->hash;
  }

  void Change() {
    Txn txn(*store);
    for (uint64_t n = 1 + rng.Below(4); n > 0; --n) {
      const auto family = static_cast<Family>(1 + rng.Below(kFamilies - 1));
      const std::string key(1 + rng.Below(3), static_cast<char>('a' + rng.Below(6)));
      if (rng.OneIn(3)) txn.Delete(family, key);
      else txn.Put(family, key, std::string(rng.Below(40), static_cast<char>('A' + rng.Below(26))) + std::to_string(rng.Next()));
    }
    txn.AddCount(Counter::kFiles, 1);
    (void)txn.NewShard();
    ASSERT_TRUE(txn.Commit().ok());
    Note();
  }
  void SendSegment(size_t bytes) {
    const auto cut = tape.CutAt(store->durable_seq(), bytes);
    if (!cut) return;
    Store(Name(ArchiveKind::kSegment, cut->first, cut->last.v), cut->body);
    tape.Drop(cut->last);
  }
  // The next of: a step of the walk, its page, its end.
  void StepCheckpoint() {
    // One is given up: the next may begin at the same sequence.
    if (walk && rng.OneIn(100)) walk.reset();
    if (!walk) {
      walk.emplace();
      ++walks;
      begin = tape.after();
      hashes.clear();
      until.reset();
    }
    if (!until) {
      if (!walk->ended()) ASSERT_TRUE(walk->Step(store->kv()).ok());
      if (walk->ended()) until = store->last_seq();
      if (!walk->page_empty() && (walk->ended() || rng.OneIn(3))) {
        hashes.push_back(Store(Name(ArchiveKind::kPage, begin, hashes.size()), walk->TakePage()));
      }
      return;
    }
    if (tape.after() < *until) return;
    Store(Name(ArchiveKind::kComplete, begin, until->v), EncodeComplete(hashes));
    walk.reset();
  }
  void Step() {
    switch (rng.Below(8)) {
      case 0:
      case 1:
      case 2: Change(); break;
      case 3: ASSERT_TRUE(RunSim(ex, store->Sync()).ok()); break;
      case 4: SendSegment(1 + rng.Below(1000)); break;
      case 5:
      case 6: StepCheckpoint(); break;
      default:
        if (rng.OneIn(40)) Start();
    }
  }

  // Restores, and checks that it is the state at the sequence that it says.
  Result<RestoreResult> RestoreAndCheck() {
    auto media = std::make_shared<MemKvMedia>(kFamilies);
    MemKv kv(media);
    KvBatch rubbish;
    rubbish.Put(3, "left over", "from another try");
    EXPECT_TRUE(kv.Write(rubbish).ok());
    std::vector<ArchiveName> names = vault.Names();
    for (size_t i = names.size(); i > 1; --i) std::swap(names[i - 1], names[rng.Below(i)]);
    Result<RestoreResult> r = RunSim(ex, RestoreArchive(names, &vault, &kv, proof));
    if (!r.ok()) return r;
    const auto it = states.find({r->term, r->seq.v});
    EXPECT_NE(it, states.end()) << r->term << " " << r->seq;
    if (it != states.end()) EXPECT_TRUE(DumpOf(kv) == it->second) << "term " << r->term << " sequence " << r->seq;
    return r;
  }

  const ArchiveSeal seal{{MasterKey(1)}};
  RestoreProof proof{&seal, false};
  Random rng;
  SimExecutor ex{1};
  Vault vault;
  std::map<std::pair<uint64_t, uint64_t>, Dump> states;  // by term and sequence
  std::unique_ptr<MetaStore> store;
  BatchTape tape;
  std::optional<CheckpointWalk> walk;
  uint64_t walks = 0;
  CommitSeq begin;
  std::optional<CommitSeq> until;
  std::vector<uint64_t> hashes;
  uint64_t term = 0;
  int64_t clock = 0;

 private:
  std::shared_ptr<MemKvMedia> media_;
};

// The naive answer: the newest complete checkpoint, and the end of the segments of its term.
std::optional<std::pair<uint64_t, uint64_t>> Newest(const std::vector<ArchiveName>& names) {
  std::optional<ArchiveName> complete;
  for (const ArchiveName& n : names) {
    if (n.kind == ArchiveKind::kComplete && (!complete || n > *complete)) {
      complete = n;
    }
  }
  if (!complete) return std::nullopt;
  uint64_t seq = complete->first.v;
  for (const ArchiveName& n : names) {
    if (n.kind == ArchiveKind::kSegment && n.term == complete->term) seq = std::max(seq, n.last);
  }
  return std::pair(complete->term, seq);
}

TEST(Restore, AnyPrefixGivesTheStateAtItsSequence) {
  size_t restored = 0, checkpoints = 0;
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    World w(seed);
    for (int i = 0; i < 400; ++i) w.Step();
    for (const ArchiveName& n : w.vault.Names()) checkpoints += n.kind == ArchiveKind::kComplete;
    for (int i = 0; i < 12; ++i) {
      w.vault.limit = i == 0 ? w.vault.objects.size() : w.rng.Below(w.vault.objects.size() + 1);
      const auto want = Newest(w.vault.Names());
      const Result<RestoreResult> r = w.RestoreAndCheck();
      ASSERT_EQ(r.ok(), want.has_value()) << r.error();
      if (!want) {
        EXPECT_EQ(r.code(), FsError::kNoEnt);
        continue;
      }
      EXPECT_EQ(std::pair(r->term, r->seq.v), *want);
      EXPECT_TRUE(r->passed_over.empty());
      ++restored;
    }
  }
  EXPECT_GT(restored, 200u);
  EXPECT_GT(checkpoints, 50u);
}

TEST(Restore, DamagedAndMissingObjectsNeverMakeAMixture) {
  size_t restored = 0, refused = 0, older = 0;
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    World w(seed * 1000);
    for (int i = 0; i < 600; ++i) w.Step();
    auto& objects = w.vault.objects;
    for (uint64_t n = 1 + w.rng.Below(4); n > 0 && !objects.empty(); --n) {
      const size_t i = w.rng.Below(objects.size());
      std::string& bytes = objects[i].second;
      switch (w.rng.Below(4)) {
        case 0: objects.erase(objects.begin() + static_cast<ptrdiff_t>(i)); break;
        case 1: bytes[w.rng.Below(bytes.size())] ^= 4; break;
        case 2: bytes.resize(w.rng.Below(bytes.size())); break;
        default: bytes = objects[w.rng.Below(objects.size())].second;  // another object under this name
      }
    }
    const auto want = Newest(w.vault.Names());
    const Result<RestoreResult> r = w.RestoreAndCheck();
    if (!r.ok()) {
      EXPECT_EQ(r.code(), FsError::kNoEnt);
      ++refused;
      continue;
    }
    ++restored;
    ASSERT_TRUE(want.has_value());
    EXPECT_LE(std::pair(r->term, r->seq.v), *want);
    older += std::pair(r->term, r->seq.v) < *want;
  }
  EXPECT_GT(restored, 20u);
  EXPECT_GT(refused + older, 3u);
}

TEST(Restore, TakesTheGoodCopy) {
  World w(3);
  while (!Newest(w.vault.Names())) w.Step();
  for (int i = 0; i < 100; ++i) w.Step();
  const auto want = Newest(w.vault.Names());
  std::vector<std::pair<ArchiveName, std::string>> twice;
  for (const auto& [name, bytes] : w.vault.objects) {
    std::string damaged = bytes;
    damaged[damaged.size() / 2] ^= 1;
    const bool first = w.rng.OneIn(2);
    twice.emplace_back(name, first ? damaged : bytes);
    twice.emplace_back(name, first ? bytes : damaged);
  }
  w.vault.objects = twice;
  const Result<RestoreResult> r = w.RestoreAndCheck();
  ASSERT_TRUE(r.ok()) << r.error();
  EXPECT_EQ(std::pair(r->term, r->seq.v), *want);
}

// How the objects are made anew. Their seals and what is encrypted are all that differs.
using Maker = std::function<std::string(const ArchiveHead& head, std::string_view body)>;

Maker EncryptedBy(const ArchiveSeal* seal) {
  return [seal](const auto& head, std::string_view body) { return EncodeArchive(head, body, *seal); };
}
// As releases before encryption did; nullptr: as those before seals.
Maker ClearBy(const ArchiveSeal* seal) {
  return [seal](const auto& head, std::string_view body) { return EncodeClearArchive(head, body, seal); };
}

// All of them, also what says which pages belong together. `key`: with which they were made.
void MakeAnew(std::vector<std::pair<ArchiveName, std::string>>* objects, const ArchiveSeal& key, const Maker& make) {
  std::map<uint64_t, uint64_t> hashes;  // of what was, of what is
  for (const bool complete : {false, true}) {
    for (auto& [name, bytes] : *objects) {
      if ((name.kind == ArchiveKind::kComplete) != complete) continue;
      const OpenedArchive was = Unseal(OpenArchive(bytes).value(), key).value();
      std::string body(was.body);
      if (complete) {
        std::vector<uint64_t> pages = DecodeComplete(was).value();
        for (uint64_t& page : pages) page = hashes.at(page);
        body = EncodeComplete(pages);
      }
      std::string made = make(was.head, body);
      hashes[was.hash] = OpenArchive(made)->hash;
      bytes = std::move(made);
    }
  }
}

TEST(Restore, WhatTheMetadataServerHasNotMadeIsPassedOver) {
  const ArchiveSeal other_key({MasterKey(2)});
  ClusterKey guess = MasterKey(9);
  guess.id = 1;
  const ArchiveSeal same_number({guess});
  for (const bool encrypted : {false, true}) {
    for (const ArchiveSeal* forger : {&other_key, &same_number}) {
      SCOPED_TRACE(std::string(encrypted ? "encrypted" : "clear") + (forger == &other_key ? ", other key" : ", same number"));
      World w(5);
      while (!Newest(w.vault.Names())) w.Step();
      for (int i = 0; i < 100; ++i) w.Step();
      const auto want = Newest(w.vault.Names());
      ASSERT_TRUE(w.RestoreAndCheck().ok());
      // One copy of each is made up: the other is taken.
      const auto objects = w.vault.objects;
      MakeAnew(&w.vault.objects, w.seal, encrypted ? EncryptedBy(forger) : ClearBy(forger));
      const auto made_up = w.vault.objects;
      w.vault.objects.insert(w.vault.objects.end(), objects.begin(), objects.end());
      for (const bool unproven : {false, true}) {
        w.proof.unproven = unproven;
        const Result<RestoreResult> r = w.RestoreAndCheck();
        ASSERT_TRUE(r.ok()) << r.error();
        EXPECT_EQ(std::pair(r->term, r->seq.v), *want);
        EXPECT_EQ(r->unproven, 0u) << "what is proven is better";
        EXPECT_TRUE(r->passed_over.empty());
      }
      // Both: nothing is restored, unless it is asked for and can be read, and then that is told.
      w.vault.objects = made_up;
      w.proof.unproven = false;
      const Result<RestoreResult> refused = w.RestoreAndCheck();
      EXPECT_EQ(refused.code(), FsError::kNoEnt);
      EXPECT_NE(refused.error().message.find(forger == &other_key ? "sealed by the key 2" : "was not sealed by this cluster's"),
                std::string::npos)
          << refused.error();
      w.proof.unproven = true;
      const Result<RestoreResult> taken = w.RestoreAndCheck();
      EXPECT_EQ(taken.ok(), !encrypted);
      if (!taken.ok()) continue;
      EXPECT_GT(taken->unproven, 0u);
      EXPECT_NE(taken->why_unproven, "");
    }
  }
}

// A backup is of several releases for a while, and its key may have been changed since.
TEST(Restore, WhatReleasesBeforeEncryptionMadeIsRestored) {
  for (uint64_t seed = 1; seed <= 5; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    World w(seed);
    while (!Newest(w.vault.Names())) w.Step();
    for (int i = 0; i < 100; ++i) w.Step();
    const auto want = Newest(w.vault.Names());
    const auto objects = w.vault.objects;
    MakeAnew(&w.vault.objects, w.seal, ClearBy(&w.seal));
    for (int i = 0; i < 100; ++i) w.Step();
    const Result<RestoreResult> both = w.RestoreAndCheck();
    ASSERT_TRUE(both.ok()) << both.error();
    EXPECT_GE(std::pair(both->term, both->seq.v), *want);
    EXPECT_EQ(both->unproven, 0u);
    const ArchiveSeal keys({MasterKey(3), MasterKey(1)});
    w.proof = {&keys, false};
    ASSERT_TRUE(w.RestoreAndCheck().ok());
    // Without a seal only if that is asked for.
    w.vault.objects = objects;
    MakeAnew(&w.vault.objects, w.seal, ClearBy(nullptr));
    EXPECT_EQ(w.RestoreAndCheck().code(), FsError::kNoEnt);
    w.proof.unproven = true;
    const Result<RestoreResult> unsealed = w.RestoreAndCheck();
    ASSERT_TRUE(unsealed.ok()) << unsealed.error();
    EXPECT_EQ(std::pair(unsealed->term, unsealed->seq.v), *want);
    EXPECT_GT(unsealed->unproven, 0u);
    w.proof = {nullptr, true};
    ASSERT_TRUE(w.RestoreAndCheck().ok()) << "what nothing is needed to read";
  }
}

TEST(Restore, WithoutTheKeyThereIsNothingToRestore) {
  World w(5);
  while (!Newest(w.vault.Names())) w.Step();
  for (const bool unproven : {false, true}) {
    w.proof = {nullptr, unproven};
    const Result<RestoreResult> r = w.RestoreAndCheck();
    EXPECT_EQ(r.code(), FsError::kNoEnt);
    EXPECT_NE(r.error().message.find("it is encrypted, and the key is not here"), std::string::npos) << r.error();
  }
}

// A page of another time under this name: its seal is good, and its name is not.
TEST(Restore, AnObjectUnderAnothersNameIsPassedOver) {
  World w(9);
  while (!Newest(w.vault.Names())) w.Step();
  auto& objects = w.vault.objects;
  const auto end = std::ranges::find_if(objects, [](const auto& o) { return o.first.kind == ArchiveKind::kComplete; });
  const auto page = std::ranges::find_if(objects, [](const auto& o) { return o.first.kind == ArchiveKind::kPage; });
  ASSERT_NE(page, objects.end());
  end->second = page->second;
  w.proof.unproven = true;
  const Result<RestoreResult> r = w.RestoreAndCheck();
  ASSERT_FALSE(r.ok());
  EXPECT_NE(r.error().message.find("another object than its name says"), std::string::npos) << r.error();
}

TEST(Restore, WhatIsObsoleteIsNotNeeded) {
  for (uint64_t seed = 1; seed <= 30; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    World w(seed * 77);
    for (int i = 0; i < 500; ++i) w.Step();
    const auto names = w.vault.Names();
    const auto want = Newest(names);
    const auto obsolete = ObsoleteObjects(names, 1, false);
    std::vector<ArchiveName> complete;
    for (const ArchiveName& n : names) {
      if (n.kind == ArchiveKind::kComplete) complete.push_back(n);
    }
    if (complete.size() > 2) {
      EXPECT_FALSE(obsolete.empty());
    }
    std::erase_if(w.vault.objects, [&](const auto& o) { return std::count(obsolete.begin(), obsolete.end(), o.first) > 0; });
    if (!want) continue;
    const Result<RestoreResult> r = w.RestoreAndCheck();
    ASSERT_TRUE(r.ok()) << r.error();
    EXPECT_EQ(std::pair(r->term, r->seq.v), *want);
    // The second newest is whole, too.
    if (complete.size() < 2) continue;
    std::sort(complete.begin(), complete.end());
    std::erase_if(w.vault.objects, [&](const auto& o) { return o.first == complete.back(); });
    const Result<RestoreResult> second = w.RestoreAndCheck();
    ASSERT_TRUE(second.ok()) << second.error();
    EXPECT_EQ(second->checkpoint, complete[complete.size() - 2].first);
    if (second->term == r->term) EXPECT_EQ(second->seq, r->seq);
  }
}

TEST(Restore, OtherIncarnationsAreKeptUntilTheyMayGo) {
  std::vector<ArchiveName> names;
  const auto add = [&](uint64_t incarnation, uint64_t term, ArchiveKind kind, uint64_t first, uint64_t last) {
    ArchiveName n;
    n.incarnation = incarnation;
    n.term = term;
    n.kind = kind;
    n.first = CommitSeq(first);
    n.last = last;
    names.push_back(n);
  };
  add(1, 1, ArchiveKind::kSegment, 1, 10);
  add(1, 1, ArchiveKind::kComplete, 0, 5);
  add(2, 9, ArchiveKind::kComplete, 100, 105);
  add(3, 20, ArchiveKind::kComplete, 1, 2);
  EXPECT_TRUE(ObsoleteObjects(names, 2, true).empty());
  add(2, 9, ArchiveKind::kComplete, 200, 205);
  EXPECT_TRUE(ObsoleteObjects(names, 2, false).empty());
  const std::vector<ArchiveName> former = {names[0], names[1]};
  EXPECT_EQ(ObsoleteObjects(names, 2, true), former);
  EXPECT_TRUE(ObsoleteObjects(names, 4, true).empty());
}

}  // namespace
}  // namespace stria
