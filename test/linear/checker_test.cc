// The checker itself: histories known to be good and bad, and small random ones against all orders.
#include "test/linear/checker.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <numeric>

#include "common/random.h"
#include "test/linear/models.h"

namespace stria::linear {
namespace {

using Kind = FileModel::Op::Kind;
using FileEvent = Event<FileModel::Op>;
using FileHistory = std::vector<FileEvent>;

FileEvent Read(int64_t from, int64_t to, uint64_t at, std::vector<uint32_t> got, uint64_t asked = 1) {
  return {from, to, {Kind::kRead, 0, at, asked, std::move(got), 0}};
}
FileEvent Write(int64_t from, int64_t to, uint64_t at, std::vector<uint32_t> values) {
  return {from, to, {Kind::kWrite, 0, at, 0, std::move(values), 0}};
}
FileEvent Append(int64_t from, int64_t to, uint32_t value) { return {from, to, {Kind::kAppend, 0, 0, 0, {value}, 0}}; }
FileEvent Truncate(int64_t from, int64_t to, uint64_t size) { return {from, to, {Kind::kTruncate, 0, 0, 0, {}, size}}; }
FileEvent Size(int64_t from, int64_t to, uint64_t size) { return {from, to, {Kind::kSize, 0, 0, 0, {}, size}}; }
bool Good(const FileHistory& h) { return Explain<FileModel>(h, {}).empty(); }

TEST(Linear, OneAfterAnother) {
  EXPECT_TRUE(Good({Write(0, 1, 0, {7}), Read(2, 3, 0, {7})}));
  EXPECT_FALSE(Good({Write(0, 1, 0, {7}), Read(2, 3, 0, {})})) << "a lost write";
  EXPECT_FALSE(Good({Write(0, 1, 0, {7}), Write(2, 3, 0, {8}), Read(4, 5, 0, {7})})) << "a stale read";
}

TEST(Linear, AtTheSameTime) {
  EXPECT_TRUE(Good({Write(0, 9, 0, {7}), Read(1, 2, 0, {}), Read(3, 4, 0, {7})}));
  EXPECT_FALSE(Good({Write(0, 9, 0, {7}), Read(1, 2, 0, {7}), Read(3, 4, 0, {})})) << "back in time";
  EXPECT_TRUE(Good({Write(0, 9, 0, {7}), Write(0, 9, 0, {8}), Read(10, 11, 0, {7}), Read(12, 13, 0, {7})}));
  EXPECT_FALSE(Good({Write(0, 9, 0, {7}), Write(0, 9, 0, {8}), Read(10, 11, 0, {7}), Read(12, 13, 0, {8})}));
  EXPECT_FALSE(Good({Write(0, 9, 0, {7, 7}), Write(0, 9, 0, {8, 8}), Read(10, 11, 0, {7, 8}, 2)})) << "a torn write";
}

TEST(Linear, AppendsTruncatesAndSizes) {
  EXPECT_TRUE(Good({Append(0, 9, 1), Append(0, 9, 2), Read(10, 11, 0, {2, 1}, 5), Size(10, 11, 2)}));
  EXPECT_FALSE(Good({Append(0, 9, 1), Append(0, 9, 2), Read(10, 11, 0, {2}, 5)})) << "one overwrote the other";
  EXPECT_TRUE(Good({Write(0, 1, 0, {1, 2}), Truncate(2, 3, 1), Truncate(4, 5, 2), Read(6, 7, 0, {1, 0}, 2)}));
  EXPECT_FALSE(Good({Write(0, 1, 0, {1, 2}), Truncate(2, 3, 1), Truncate(4, 5, 2), Read(6, 7, 0, {1, 2}, 2)}))
      << "truncated bytes come back";
  EXPECT_FALSE(Good({Append(0, 1, 1), Size(2, 3, 0)})) << "a stale size";
}

TEST(Linear, WhoseEndIsNotKnown) {
  EXPECT_TRUE(Good({Write(0, kPending, 0, {7}), Read(1, 2, 0, {})}));
  EXPECT_TRUE(Good({Write(0, kPending, 0, {7}), Read(1, 2, 0, {}), Read(3, 4, 0, {7})}));
  EXPECT_FALSE(Good({Write(0, kPending, 0, {7}), Read(1, 2, 0, {7}), Read(3, 4, 0, {})}));
  EXPECT_FALSE(Good({Read(1, 2, 0, {7}), Write(3, kPending, 0, {7})})) << "seen before it was called";
}

TEST(Linear, SaysWhatIsWrong) {
  const std::string why = Explain<FileModel>({Write(0, 1, 0, {7}), Read(2, 3, 0, {9})}, {});
  EXPECT_NE(why.find("write at 0 of {7}"), why.npos) << why;
  EXPECT_NE(why.find("read 1 at 0 gave {9}"), why.npos) << why;
}

TEST(Linear, Names) {
  using N = NamesModel::Op::Kind;
  using Names = std::vector<Event<NamesModel::Op>>;
  const auto good = [](const Names& h) { return Explain<NamesModel>(h, {{{"a", 1}}}).empty(); };
  const auto lookup = [](int64_t at, std::string name, uint64_t file) {
    return Event<NamesModel::Op>{at, at + 1, {N::kLookup, 0, std::move(name), "", file ? 0 : ENOENT, file, {}}};
  };
  const Event<NamesModel::Op> rename{0, 9, {N::kRename, 0, "a", "b", 0, 0, {}}};
  EXPECT_TRUE(good({rename, lookup(1, "a", 1), lookup(3, "b", 1), lookup(5, "a", 0)}));
  EXPECT_FALSE(good({rename, lookup(1, "b", 1), lookup(3, "a", 1)})) << "under both names";
  EXPECT_FALSE(good({rename, lookup(1, "a", 0), lookup(3, "b", 0)})) << "under neither";
  EXPECT_FALSE(good({rename, lookup(10, "b", 0)})) << "a stale negative entry";
  const auto create = [](uint64_t file, int error) {
    return Event<NamesModel::Op>{0, 9, {N::kCreate, 0, "n", "", error, file, {}}};
  };
  EXPECT_TRUE(good({create(5, 0), create(0, EEXIST)}));
  EXPECT_FALSE(good({create(5, 0), create(6, 0)})) << "two made the same name";
  const Event<NamesModel::Op> list{10, 11, {N::kList, 0, "", "", 0, 0, {"a"}}};
  EXPECT_FALSE(good({rename, list})) << "a stale listing";
}

TEST(Linear, LinksAndFilesThatNobodyWasToldOf) {
  using N = NamesModel::Op::Kind;
  using Names = std::vector<Event<NamesModel::Op>>;
  const auto good = [](const Names& h) { return Explain<NamesModel>(h, {{{"a", 1}}}).empty(); };
  const auto op = [](int64_t at, N kind, std::string name, std::string to, int error, uint64_t file) {
    return Event<NamesModel::Op>{at, at + 1, {kind, 0, std::move(name), std::move(to), error, file, {}}};
  };
  const auto link = op(0, N::kLink, "", "b", 0, 1);
  EXPECT_TRUE(good({link, op(2, N::kLookup, "a", "", 0, 1), op(4, N::kLookup, "b", "", 0, 1)}));
  EXPECT_TRUE(good({link, op(2, N::kRename, "a", "b", 0, 0), op(4, N::kLookup, "a", "", 0, 1)})) << "one file";
  EXPECT_FALSE(good({link, op(2, N::kRename, "a", "b", 0, 0), op(4, N::kLookup, "a", "", ENOENT, 0)}));
  EXPECT_TRUE(good({op(0, N::kLink, "", "b", ENOENT, 7), op(2, N::kLink, "", "a", EEXIST, 1)}));
  EXPECT_FALSE(good({op(0, N::kLink, "", "b", ENOENT, 1)})) << "it is there";
  auto pending = op(0, N::kCreate, "n", "", 0, NamesModel::kUnknown + 1);
  pending.returned = kPending;
  EXPECT_TRUE(good({pending, op(1, N::kLookup, "n", "", ENOENT, 0), op(3, N::kLookup, "n", "", 0, 9)}));
  EXPECT_FALSE(good({pending, op(1, N::kLookup, "n", "", 0, 8), op(3, N::kLookup, "n", "", 0, 9)})) << "two files";
  EXPECT_FALSE(good({pending, op(1, N::kLookup, "n", "", 0, 1)})) << "an old file";
}

TEST(Linear, Exclusion) {
  EXPECT_EQ(CheckExclusion({{1, true, 0, 9, 10, 20}, {2, true, 0, 9, 20, 30}, {2, true, 10, 19, 12, 15}}), "");
  EXPECT_EQ(CheckExclusion({{1, false, 0, 9, 10, 20}, {2, false, 0, 9, 15, 30}}), "");
  EXPECT_NE(CheckExclusion({{1, true, 0, 9, 10, 20}, {2, false, 5, 5, 19, 30}}), "");
}

// Tries every order that time allows.
bool AnyOrder(const FileHistory& h) {
  std::vector<size_t> order(h.size());
  std::iota(order.begin(), order.end(), size_t{0});
  do {
    bool fits = true;
    for (size_t i = 0; i < order.size() && fits; ++i) {
      for (size_t j = 0; j < i && fits; ++j) fits = h[order[i]].returned >= h[order[j]].called;
    }
    FileModel::State s;
    for (size_t i = 0; i < order.size() && fits; ++i) fits = FileModel::Apply(&s, h[order[i]].op);
    if (fits) return true;
  } while (std::next_permutation(order.begin(), order.end()));
  return false;
}

TEST(Linear, AgreesWithAllOrdersOfSmallHistories) {
  int good = 0, bad = 0;
  for (uint64_t seed = 1; seed <= 1500; ++seed) {
    Random rng(seed);
    FileHistory h;
    for (int i = 0; i < 6; ++i) {
      const int64_t from = static_cast<int64_t>(rng.Below(12));
      const int64_t to = from + static_cast<int64_t>(rng.Between(1, 5));
      switch (rng.Below(5)) {
        case 0: h.push_back(Write(from, to, rng.Below(2), {static_cast<uint32_t>(rng.Between(1, 2))})); break;
        case 1: h.push_back(Append(from, to, static_cast<uint32_t>(rng.Between(1, 2)))); break;
        case 2: h.push_back(Truncate(from, to, rng.Below(2))); break;
        case 3: h.push_back(Size(from, to, rng.Below(2))); break;
        default: {
          std::vector<uint32_t> got(rng.Below(2), static_cast<uint32_t>(rng.Between(1, 2)));
          h.push_back(Read(from, to, 0, std::move(got)));
        }
      }
    }
    const bool expected = AnyOrder(h);
    ASSERT_EQ(Good(h), expected) << "seed " << seed;
    ++(expected ? good : bad);
  }
  EXPECT_GT(good, 100);
  EXPECT_GT(bad, 100);
}

}  // namespace
}  // namespace stria::linear
