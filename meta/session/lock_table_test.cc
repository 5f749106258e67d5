#include "meta/session/lock_table.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <functional>
#include <tuple>

#include "common/random.h"

namespace stria {
namespace {

using Outcome = LockTable::Outcome;
using enum LockType;

constexpr InodeId kF{10}, kG{11};
constexpr SessionId kA{1}, kB{2}, kC{3};

FileLock Range(InodeId ino, uint64_t owner, LockType type, uint64_t first, uint64_t last) {
  return {ino, LockKind::kPosix, owner, type, first, last, 0};
}
FileLock Whole(InodeId ino, uint64_t owner, LockType type) {
  return {ino, LockKind::kFlock, owner, type, 0, kLockToEnd, 0};
}

TEST(LockTable, ReadersShareAndWritersDoNot) {
  LockTable t;
  EXPECT_EQ(t.Try(kA, Range(kF, 1, kRead, 0, 9)).outcome, Outcome::kGranted);
  EXPECT_EQ(t.Try(kB, Range(kF, 1, kRead, 5, 20)).outcome, Outcome::kGranted);
  const auto a = t.Try(kC, Range(kF, 1, kWrite, 15, 30));
  EXPECT_EQ(a.outcome, Outcome::kConflict);
  EXPECT_EQ(a.conflict, Range(kF, 1, kRead, 5, 20));
  EXPECT_EQ(a.holder, kB);
  EXPECT_EQ(t.Try(kC, Range(kF, 1, kWrite, 21, 30)).outcome, Outcome::kGranted);
  EXPECT_EQ(t.Test(kA, Range(kF, 1, kWrite, 0, 4)).outcome, Outcome::kGranted) << "one's own lock is no conflict";
  EXPECT_EQ(t.Test(kA, Whole(kF, 1, kWrite)).outcome, Outcome::kGranted) << "kinds do not see each other";
  EXPECT_EQ(t.CheckInvariants(), "");
}

TEST(LockTable, WhoWaitsIsToldInOrderAndAsksAgain) {
  LockTable t;
  ASSERT_EQ(t.Try(kA, Whole(kF, 1, kWrite)).outcome, Outcome::kGranted);
  ASSERT_EQ(t.Wait(kB, Whole(kF, 1, kWrite), 7).outcome, Outcome::kWaits);
  ASSERT_EQ(t.Wait(kC, Whole(kF, 1, kRead), 9).outcome, Outcome::kWaits);
  EXPECT_EQ(t.Unlock(kA, Whole(kF, 1, kNone)), (std::vector<LockNotice>{{kB, kF, 7}})) << "C is behind B";
  EXPECT_EQ(t.Wait(kC, Whole(kF, 1, kRead), 9).outcome, Outcome::kWaits);
  EXPECT_EQ(t.Wait(kB, Whole(kF, 1, kWrite), 7).outcome, Outcome::kGranted);
  EXPECT_EQ(t.Wait(kB, Whole(kF, 1, kWrite), 7).outcome, Outcome::kGranted) << "asking twice is asking once";
  EXPECT_EQ(t.Drop(kB), (std::vector<LockNotice>{{kC, kF, 9}}));
  EXPECT_EQ(t.Wait(kC, Whole(kF, 1, kRead), 9).outcome, Outcome::kGranted);
  EXPECT_EQ(t.waits(), 0u);
  EXPECT_EQ(t.CheckInvariants(), "");
}

TEST(LockTable, WhoGivesUpWaitingLetsThoseBehindThrough) {
  LockTable t;
  ASSERT_EQ(t.Try(kA, Whole(kF, 1, kRead)).outcome, Outcome::kGranted);
  ASSERT_EQ(t.Wait(kB, Whole(kF, 1, kWrite), 7).outcome, Outcome::kWaits);
  ASSERT_EQ(t.Wait(kC, Whole(kF, 1, kRead), 9).outcome, Outcome::kWaits);
  EXPECT_EQ(t.Withdraw(kB, kF, 7), (std::vector<LockNotice>{{kC, kF, 9}}));
  EXPECT_EQ(t.Wait(kC, Whole(kF, 1, kRead), 9).outcome, Outcome::kGranted);
}

TEST(LockTable, FlockIsNotConvertedAtomically) {
  LockTable t;
  ASSERT_EQ(t.Try(kA, Whole(kF, 1, kRead)).outcome, Outcome::kGranted);
  ASSERT_EQ(t.Try(kB, Whole(kF, 1, kRead)).outcome, Outcome::kGranted);
  EXPECT_EQ(t.Try(kA, Whole(kF, 1, kWrite)).outcome, Outcome::kConflict);
  EXPECT_TRUE(t.LocksOf(kA).empty()) << "the old one is gone, as in Linux";
  // A byte range stays.
  ASSERT_EQ(t.Try(kA, Range(kG, 1, kRead, 0, 9)).outcome, Outcome::kGranted);
  ASSERT_EQ(t.Try(kB, Range(kG, 1, kRead, 0, 9)).outcome, Outcome::kGranted);
  EXPECT_EQ(t.Try(kA, Range(kG, 1, kWrite, 0, 9)).outcome, Outcome::kConflict);
  EXPECT_EQ(t.LocksOf(kA), (std::vector<FileLock>{Range(kG, 1, kRead, 0, 9)}));
}

TEST(LockTable, ADeadlockOverTwoFilesIsRefused) {
  LockTable t;
  ASSERT_EQ(t.Try(kA, Range(kF, 1, kWrite, 0, 0)).outcome, Outcome::kGranted);
  ASSERT_EQ(t.Try(kB, Range(kG, 1, kWrite, 0, 0)).outcome, Outcome::kGranted);
  ASSERT_EQ(t.Try(kC, Range(kG, 1, kWrite, 5, 5)).outcome, Outcome::kGranted);
  ASSERT_EQ(t.Wait(kB, Range(kG, 1, kWrite, 5, 5), 1).outcome, Outcome::kWaits);
  ASSERT_EQ(t.Wait(kA, Range(kG, 1, kWrite, 0, 0), 1).outcome, Outcome::kWaits);
  EXPECT_EQ(t.Wait(kC, Range(kF, 1, kRead, 0, 0), 1).outcome, Outcome::kDeadlock) << "C -> A -> B -> C";
  EXPECT_EQ(t.Try(kC, Range(kF, 1, kRead, 0, 0)).outcome, Outcome::kConflict) << "who only tries cannot deadlock";
  EXPECT_EQ(t.waits(), 2u);
  // Two owners of one session are told apart.
  EXPECT_EQ(t.Wait(kC, Range(kF, 2, kRead, 0, 0), 2).outcome, Outcome::kWaits);
}

TEST(LockTable, TwoReadersThatBothWantToWriteAreADeadlock) {
  LockTable t;
  ASSERT_EQ(t.Try(kA, Range(kF, 1, kRead, 0, 9)).outcome, Outcome::kGranted);
  ASSERT_EQ(t.Try(kB, Range(kF, 1, kRead, 0, 9)).outcome, Outcome::kGranted);
  EXPECT_EQ(t.Wait(kA, Range(kF, 1, kWrite, 0, 9), 1).outcome, Outcome::kWaits);
  EXPECT_EQ(t.Wait(kB, Range(kF, 1, kWrite, 0, 9), 1).outcome, Outcome::kDeadlock);
}

TEST(LockTable, TheLineDoesNotMakeDeadlocks) {
  LockTable t;
  // A writer waits for a reader that holds another lock: that reader may read more of it at once.
  ASSERT_EQ(t.Try(kA, Range(kF, 1, kRead, 0, 9)).outcome, Outcome::kGranted);
  ASSERT_EQ(t.Wait(kB, Range(kF, 1, kWrite, 0, 20), 1).outcome, Outcome::kWaits);
  EXPECT_EQ(t.Wait(kA, Range(kF, 1, kRead, 0, 20), 1).outcome, Outcome::kGranted);
  EXPECT_EQ(t.Wait(kC, Range(kF, 1, kRead, 0, 20), 1).outcome, Outcome::kWaits) << "C holds nothing";
}

TEST(LockTable, ReclaimsThatExcludeEachOtherFail) {
  LockTable t;
  EXPECT_TRUE(t.Reclaim(kA, Range(kF, 1, kWrite, 0, 9)));
  EXPECT_TRUE(t.Reclaim(kB, Range(kF, 1, kWrite, 10, 19)));
  EXPECT_FALSE(t.Reclaim(kC, Range(kF, 1, kRead, 19, 19)));
  EXPECT_EQ(t.CheckInvariants(), "");
}

TEST(LockTable, WhatIsHeldMoreStronglyCanBeKept) {
  LockTable t;
  ASSERT_EQ(t.Try(kA, Range(kF, 1, kWrite, 5, 9)).outcome, Outcome::kGranted);
  ASSERT_EQ(t.Try(kB, Range(kF, 1, kWrite, 2, 3)).outcome, Outcome::kGranted);
  EXPECT_EQ(t.Wait(kA, Range(kF, 1, kRead, 0, 11), 1, true).outcome, Outcome::kWaits);
  EXPECT_EQ(t.Unlock(kB, Range(kF, 1, kNone, 2, 3)), (std::vector<LockNotice>{{kA, kF, 1}}));
  EXPECT_EQ(t.Wait(kA, Range(kF, 1, kRead, 0, 11), 1, true).outcome, Outcome::kGranted);
  EXPECT_EQ(t.LocksOf(kA), (std::vector<FileLock>{Range(kF, 1, kRead, 0, 4), Range(kF, 1, kWrite, 5, 9),
                                                  Range(kF, 1, kRead, 10, 11)}));
  EXPECT_EQ(t.Try(kA, Range(kF, 1, kRead, 0, 11)).outcome, Outcome::kGranted);
  EXPECT_EQ(t.LocksOf(kA), (std::vector<FileLock>{Range(kF, 1, kRead, 0, 11)}));
  EXPECT_EQ(t.CheckInvariants(), "");
}

TEST(LockTable, IsBounded) {
  LockTable t;
  for (uint64_t i = 0; i + 2 <= kMaxLocksPerSession; ++i) {
    ASSERT_EQ(t.Try(kA, Range(kF, 1, kRead, 2 * i, 2 * i)).outcome, Outcome::kGranted) << i;
  }
  EXPECT_EQ(t.Try(kA, Range(kG, 2, kRead, 0, 0)).outcome, Outcome::kTooMany);
  ASSERT_EQ(t.Try(kB, Range(kF, 1, kRead, 1, 1)).outcome, Outcome::kGranted);
  for (uint64_t i = 1; i <= kMaxLocksPerSession / 2; ++i) {
    ASSERT_EQ(t.Try(kB, Range(kG, 2, kWrite, 2 * i, 2 * i)).outcome, Outcome::kGranted) << i;
  }
  EXPECT_EQ(t.Try(kB, Range(kG, 2, kRead, 0, kLockToEnd), true).outcome, Outcome::kTooMany)
      << "one between all of them";
  t.Drop(kB);
  ASSERT_EQ(t.Try(kB, Range(kG, 1, kWrite, 0, 0)).outcome, Outcome::kGranted);
  for (uint64_t i = 1; i <= kMaxLockWaitsPerSession; ++i) {
    ASSERT_EQ(t.Wait(kC, Range(kG, 1, kWrite, 0, 0), i).outcome, Outcome::kWaits);
  }
  EXPECT_EQ(t.Wait(kC, Range(kG, 1, kWrite, 0, 0), 0x10000).outcome, Outcome::kTooMany);
  EXPECT_EQ(t.Wait(kC, Range(kG, 1, kWrite, 0, 0), 1).outcome, Outcome::kWaits);
  t.Drop(kA), t.Drop(kB), t.Drop(kC);
  EXPECT_TRUE(t.empty());
  EXPECT_EQ(t.CheckInvariants(), "");
}

// ---- Against a table that knows one type per byte and looks at everything every time ----------------------

class Naive {
 public:
  static constexpr uint64_t kBytes = 8;
  using Who = std::tuple<SessionId, LockKind, uint64_t>;
  struct Wait {
    Who who;
    FileLock lock;
    uint64_t ticket;
    bool told;
  };
  static Who WhoOf(SessionId s, const FileLock& l) { return {s, l.kind, l.owner}; }

  Outcome Ask(SessionId s, const FileLock& l, uint64_t ticket, bool keep = false) {
    const Who who = WhoOf(s, l);
    if (l.kind == LockKind::kFlock && held[{l.ino, who}] != Bytes(l)) held[{l.ino, who}] = {};
    const size_t place = Place(s, ticket);
    const bool taken = !Against(who, l).empty();
    if (!taken && (ticket == 0 || !Behind(who, l, place))) {
      if (place < line.size()) line.erase(line.begin() + static_cast<ptrdiff_t>(place));
      Apply(who, l, keep);
      return Outcome::kGranted;
    }
    if (ticket == 0) return Outcome::kConflict;
    if (l.kind == LockKind::kPosix && taken && Reaches(who, l)) {
      if (place < line.size()) line.erase(line.begin() + static_cast<ptrdiff_t>(place));
      return Outcome::kDeadlock;
    }
    if (place < line.size()) line[place].told = false;
    else line.push_back({who, l, ticket, false});
    return Outcome::kWaits;
  }
  void Apply(const Who& who, const FileLock& l, bool keep = false) {
    for (uint64_t b = l.first; b <= std::min(l.last, kBytes - 1); ++b) {
      LockType& mine = held[{l.ino, who}][b];
      mine = keep ? std::max(mine, l.type) : l.type;
    }
  }
  // All waiters that can have their lock and do not know.
  std::vector<LockNotice> Tell() {
    std::vector<LockNotice> out;
    for (size_t i = 0; i < line.size(); ++i) {
      Wait& w = line[i];
      if (w.told || !Against(w.who, w.lock).empty() || Behind(w.who, w.lock, i)) continue;
      w.told = true;
      out.push_back({std::get<0>(w.who), w.lock.ino, w.ticket});
    }
    return out;
  }
  void Forget(SessionId s) {
    for (auto& [key, bytes] : held) {
      if (std::get<0>(key.second) == s) bytes = {};
    }
    std::erase_if(line, [&](const Wait& w) { return std::get<0>(w.who) == s; });
  }
  void Withdraw(SessionId s, uint64_t ticket) {
    std::erase_if(line, [&](const Wait& w) { return std::get<0>(w.who) == s && w.ticket == ticket; });
  }

  std::vector<Wait> line;

 private:
  using Types = std::array<LockType, kBytes>;
  static Types Bytes(const FileLock& l) {
    Types t{};
    for (uint64_t b = l.first; b <= std::min(l.last, kBytes - 1); ++b) t[b] = l.type;
    return t;
  }
  size_t Place(SessionId s, uint64_t ticket) const {
    size_t i = 0;
    while (i < line.size() && !(ticket && std::get<0>(line[i].who) == s && line[i].ticket == ticket)) ++i;
    return i;
  }
  std::set<Who> Against(const Who& who, const FileLock& l) const {
    std::set<Who> out;
    const Types want = Bytes(l);
    for (const auto& [key, bytes] : held) {
      if (key.first != l.ino || key.second == who || std::get<1>(key.second) != l.kind) continue;
      for (uint64_t b = 0; b < kBytes; ++b) {
        if (Excludes(bytes[b], want[b])) out.insert(key.second);
      }
    }
    return out;
  }
  bool Behind(const Who& who, const FileLock& l, size_t place) const {
    for (const auto& [key, bytes] : held) {
      if (key.second == who && bytes != Types{}) return false;
    }
    for (size_t i = 0; i < std::min(place, line.size()); ++i) {
      const Wait& w = line[i];
      if (w.lock.ino != l.ino || w.who == who || w.lock.kind != l.kind) continue;
      const Types x = Bytes(w.lock), y = Bytes(l);
      for (uint64_t b = 0; b < kBytes; ++b) {
        if (Excludes(x[b], y[b])) return true;
      }
    }
    return false;
  }
  bool Reaches(const Who& who, const FileLock& l) const {
    std::set<Who> seen = Against(who, l);
    for (bool grew = true; grew;) {
      grew = false;
      for (const Wait& w : line) {
        if (!seen.count(w.who)) continue;
        for (const Who& x : Against(w.who, w.lock)) grew = seen.insert(x).second || grew;
      }
    }
    return seen.count(who) > 0;
  }
  std::map<std::pair<InodeId, Who>, Types> held;
};

std::vector<LockNotice> Sorted(std::vector<LockNotice> v) {
  std::sort(v.begin(), v.end(), [](const LockNotice& a, const LockNotice& b) {
    return std::tie(a.session, a.ino, a.ticket) < std::tie(b.session, b.ino, b.ticket);
  });
  return v;
}

TEST(LockTable, AgreesWithANaiveOne) {
  size_t deadlocks = 0, told = 0;
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    SCOPED_TRACE(seed);
    Random rng(seed);
    LockTable t;
    Naive naive;
    uint64_t next_ticket = 1;
    const auto random_lock = [&] {
      FileLock l;
      l.ino = rng.OneIn(2) ? kF : kG;
      l.owner = rng.Between(1, 2);
      l.type = rng.OneIn(2) ? kRead : kWrite;
      if (rng.OneIn(4)) {
        l.kind = LockKind::kFlock;
      } else {
        l.first = rng.Below(Naive::kBytes);
        l.last = rng.Between(l.first, Naive::kBytes - 1);
        if (l.last == Naive::kBytes - 1) l.last = kLockToEnd;  // its last byte stands for all that follow
      }
      return l;
    };
    for (int step = 0; step < 600; ++step) {
      const SessionId s(rng.Between(1, 3));
      std::vector<LockNotice> notices;
      switch (rng.Below(8)) {
        case 0:
        case 1: {
          const FileLock l = random_lock();
          const bool keep = rng.OneIn(3);
          const auto a = t.Try(s, l, keep);
          ASSERT_EQ(t.Test(s, l).outcome, a.outcome);
          ASSERT_EQ(a.outcome, naive.Ask(s, l, 0, keep));
          notices = a.notices;
          break;
        }
        case 2:
        case 3: {
          const FileLock l = random_lock();
          const bool keep = rng.OneIn(3);
          const auto a = t.Wait(s, l, next_ticket, keep);
          ASSERT_EQ(a.outcome, naive.Ask(s, l, next_ticket, keep));
          ++next_ticket;
          deadlocks += a.outcome == Outcome::kDeadlock;
          notices = a.notices;
          break;
        }
        case 4: {  // a waiter asks again, told or not
          if (naive.line.empty()) continue;
          const Naive::Wait w = naive.line[rng.Below(naive.line.size())];
          const SessionId session = std::get<0>(w.who);
          const auto a = t.Wait(session, w.lock, w.ticket);
          ASSERT_EQ(a.outcome, naive.Ask(session, w.lock, w.ticket));
          deadlocks += a.outcome == Outcome::kDeadlock;
          notices = a.notices;
          break;
        }
        case 5:
        case 6: {
          FileLock l = random_lock();
          l.type = kNone;
          notices = t.Unlock(s, l);
          naive.Apply(Naive::WhoOf(s, l), l);
          break;
        }
        default:
          if (rng.OneIn(8)) {
            notices = t.Drop(s);
            naive.Forget(s);
          } else if (!naive.line.empty()) {
            const Naive::Wait w = naive.line[rng.Below(naive.line.size())];
            notices = t.Withdraw(std::get<0>(w.who), w.lock.ino, w.ticket);
            naive.Withdraw(std::get<0>(w.who), w.ticket);
          }
      }
      told += notices.size();
      ASSERT_EQ(Sorted(notices), Sorted(naive.Tell()));
      ASSERT_EQ(t.CheckInvariants(), "");
    }
    // A waiter that is told asks again, and unlocks: every waiter gets through.
    for (SessionId s : {kA, kB, kC}) {
      for (FileLock l : t.LocksOf(s)) l.type = kNone, t.Unlock(s, l);
    }
    while (!naive.line.empty()) {
      const size_t before = naive.line.size();
      for (size_t i = 0; i < naive.line.size(); ++i) {
        const Naive::Wait w = naive.line[i];
        const SessionId session = std::get<0>(w.who);
        if (t.Wait(session, w.lock, w.ticket).outcome != Outcome::kGranted) continue;
        for (FileLock l : t.LocksOf(session)) l.type = kNone, t.Unlock(session, l);
        naive.line.erase(naive.line.begin() + static_cast<ptrdiff_t>(i));
        break;
      }
      ASSERT_LT(naive.line.size(), before) << "nobody who waits can go on";
    }
    ASSERT_TRUE(t.empty());
  }
  EXPECT_GT(deadlocks, 20u);
  EXPECT_GT(told, 200u);
}

}  // namespace
}  // namespace stria
