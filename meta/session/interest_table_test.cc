#include "meta/session/interest_table.h"

#include <gtest/gtest.h>

namespace stria {
namespace {

using Kind = SessionEvent::Kind;
const SessionId kA{1}, kB{2}, kC{3};
const InodeId kDir{10}, kFile{11};

TEST(InterestTable, ChangeReachesThoseWhoCachedOnce) {
  InterestTable t;
  std::vector<InterestTable::Notice> evicted;
  t.NoteAttr(kA, kFile, &evicted);
  t.NoteAttr(kB, kFile, &evicted);
  t.NoteAttr(kB, kFile, &evicted);
  auto n = t.AttrChanged(kFile, kA);
  ASSERT_EQ(n.size(), 1u);
  EXPECT_EQ(n[0].session, kB);
  EXPECT_EQ(n[0].event.kind, Kind::kInvalidateAttr);
  EXPECT_TRUE(t.AttrChanged(kFile, kA).empty()) << "B forgot it";
  EXPECT_EQ(t.AttrChanged(kFile, kC).size(), 1u) << "A still has it";
  EXPECT_TRUE(evicted.empty());
}

TEST(InterestTable, DataCoversAttributes) {
  InterestTable t;
  std::vector<InterestTable::Notice> evicted;
  t.NoteAttr(kA, kFile, &evicted);
  t.NoteData(kA, kFile, &evicted);
  t.NoteAttr(kB, kFile, &evicted);
  auto n = t.DataChanged(kFile, kC);
  ASSERT_EQ(n.size(), 2u);
  EXPECT_EQ(n[0].session, kA);
  EXPECT_EQ(n[0].event.kind, Kind::kInvalidateData);
  EXPECT_EQ(n[1].session, kB);
  EXPECT_EQ(n[1].event.kind, Kind::kInvalidateAttr);
  EXPECT_EQ(t.size(), 0u);
}

TEST(InterestTable, EntriesAndListings) {
  InterestTable t;
  std::vector<InterestTable::Notice> evicted;
  t.NoteEntry(kA, kDir, "x", &evicted);
  t.NoteEntry(kA, kDir, "y", &evicted);
  t.NoteListing(kA, kDir, &evicted);
  t.NoteListing(kB, kDir, &evicted);
  auto n = t.EntryChanged(kDir, "x", kC);
  ASSERT_EQ(n.size(), 2u);
  EXPECT_EQ(n[0].session, kA);
  EXPECT_EQ(n[0].event.name, "x");
  EXPECT_EQ(n[1].session, kB);
  EXPECT_EQ(n[1].event.name, "x");
  EXPECT_TRUE(t.EntryChanged(kDir, "x", kC).empty());
  EXPECT_EQ(t.EntryChanged(kDir, "y", kC).size(), 1u);
  EXPECT_TRUE(t.EntryChanged(kFile, "y", kC).empty());
}

TEST(InterestTable, BoundedByEvictingTheOldest) {
  InterestTable t(3);
  std::vector<InterestTable::Notice> evicted;
  for (uint64_t i = 1; i <= 3; ++i) t.NoteAttr(kA, InodeId(i), &evicted);
  t.NoteAttr(kA, InodeId(1), &evicted);  // used again
  EXPECT_TRUE(evicted.empty());
  t.NoteEntry(kB, kDir, "n", &evicted);
  ASSERT_EQ(evicted.size(), 1u);
  EXPECT_EQ(evicted[0].session, kA);
  EXPECT_EQ(evicted[0].event.ino, InodeId(2));
  EXPECT_EQ(t.size(), 3u);
  t.Drop(kA);
  EXPECT_EQ(t.size(), 1u);
}

// Sessions 1 to 9 are one owner's, 10 to 19 another's.
TEST(InterestTable, WhoHasMoreThanItsShareGivesRoomFirst) {
  InterestTable t(80, [](SessionId s) { return s.v / 10 + 1; });
  std::vector<InterestTable::Notice> evicted;
  const auto note = [&](uint64_t session, uint64_t ino) { t.NoteAttr(SessionId(session), InodeId(ino), &evicted); };
  for (uint64_t i = 0; i < 10; ++i) note(10, 500 + i);  // a share
  EXPECT_FALSE(t.HasMoreThanItsShare(SessionId(10)));
  EXPECT_EQ(t.GivesRoomTo(SessionId(20)), SessionId()) << "there is room, and nobody is asked for it";
  for (uint64_t i = 0; i < 70; ++i) note(1 + i % 9, 1000 + i);  // the first is older than all of the next
  EXPECT_TRUE(t.HasMoreThanItsShare(SessionId(3)));
  EXPECT_TRUE(evicted.empty());
  EXPECT_EQ(t.GivesRoomTo(SessionId(2)), SessionId(1)) << "its owner's oldest";
  note(2, 2000);
  note(20, 3000);
  ASSERT_EQ(evicted.size(), 2u);
  EXPECT_EQ(evicted[0].event.ino, InodeId(1000));
  EXPECT_EQ(evicted[1].event.ino, InodeId(1001)) << "also for who has little";
  evicted.clear();
  for (uint64_t i = 0; i < 100; ++i) note(1, 4000 + i);
  for (const auto& n : evicted) EXPECT_LT(n.session, SessionId(10));
  EXPECT_EQ(t.size(), 80u);
  for (uint64_t s = 1; s < 10; ++s) t.Drop(SessionId(s));
  EXPECT_EQ(t.size(), 11u);
  EXPECT_EQ(t.GivesRoomTo(SessionId(1)), SessionId());
}

TEST(InterestTable, WhileNobodyHasMoreTheOldestOfAllGoes) {
  InterestTable t(80, [](SessionId s) { return s.v; });
  std::vector<InterestTable::Notice> evicted;
  for (uint64_t i = 0; i < 80; ++i) t.NoteAttr(SessionId(1 + i % 8), InodeId(100 + i), &evicted);
  t.NoteAttr(SessionId(9), InodeId(1), &evicted);
  ASSERT_EQ(evicted.size(), 1u);
  EXPECT_EQ(evicted[0].event.ino, InodeId(100));
}

}  // namespace
}  // namespace stria
