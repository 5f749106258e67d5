// ForEachInode against the members of the structs themselves: a member that is an inode and is forgotten fails here, and a type of
// message that has one and no overload does not compile.
#include "api/inodes_of.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "proto/random_messages.h"

namespace stria {
namespace {

using random_messages::kIsId;
using random_messages::kIsOptional;
using random_messages::kIsPeer;
using random_messages::kIsVector;
using random_messages::Tie;

// Answers to admins: a session that is confined to a part of the tree is not given them, or not these members (ConfinedMeta).
template <class T>
inline constexpr bool kForAdmins = false;
template <>
inline constexpr bool kForAdmins<StatusReply> = true;
template <>
inline constexpr bool kForAdmins<UpkeepReply> = true;
template <>
inline constexpr bool kForAdmins<CanRemoveReply> = true;
template <>
inline constexpr bool kForAdmins<FilesReply> = true;

struct Ignore {
  void operator()(InodeId, InodeUse) const {}
};
template <class T>
inline constexpr bool kHasOverload = requires(const T& v) { ForEachInode(v, Ignore()); };

// Gives every inode of `v` a number of its own, with two elements in each list and something in each optional.
class Numbers {
 public:
  template <class T>
  void Fill(T& v) {
    if constexpr (std::is_same_v<T, InodeId>) {
      v = InodeId(++last_);
    } else if constexpr (std::is_same_v<T, std::vector<InodeSeal>>) {
      // They prove what is named elsewhere.
    } else if constexpr (kIsVector<T>) {
      v.resize(2);
      for (auto& e : v) Fill(e);
    } else if constexpr (kIsOptional<T>) {
      Fill(v.emplace());
    } else if constexpr (!kIsId<T> && !kIsPeer<T> && !std::is_arithmetic_v<T> && !std::is_enum_v<T> && !std::is_same_v<T, std::string> &&
                         !std::is_same_v<T, BufferChain>) {
      std::apply([&](auto&... members) { (Fill(members), ...); }, Tie(v));
    }
  }
  uint64_t last() const { return last_; }

 private:
  uint64_t last_ = 0;
};

template <class T>
void CheckType(const char* name) {
  T message;
  Numbers numbers;
  numbers.Fill(message);
  if constexpr (kHasOverload<T>) {
    std::map<InodeId, int> found;
    ForEachInode(std::as_const(message), [&](InodeId ino, InodeUse) { ++found[ino]; });
    found.erase(InodeId());
    EXPECT_EQ(found.size(), numbers.last()) << name << ": an inode of it is forgotten, or made up";
    for (uint64_t n = 1; n <= numbers.last(); ++n) {
      EXPECT_EQ(found[InodeId(n)], 1) << name << ": its inode " << n << " in the order of its members";
    }
  } else if constexpr (!kForAdmins<T>) {
    EXPECT_EQ(numbers.last(), 0u) << name << " names inodes, and api/inodes_of.h does not know it";
  } else {
    EXPECT_GT(numbers.last(), 0u) << name << " names no inode any more";
  }
}

TEST(InodesOf, EveryMemberThatIsAnInodeIsFound) {
#define CHECK_TYPE(T) CheckType<T>(#T);
  STRIA_ALL_MESSAGES(CHECK_TYPE)
#undef CHECK_TYPE
}

TEST(InodesOf, TheWalkSeesInodesInPartsOfParts) {
  Numbers numbers;
  OpenReply open;
  numbers.Fill(open);
  EXPECT_EQ(numbers.last(), 5u) << "of node three, of mapping one, first_number";
  ReadDirReply list;
  Numbers of_list;
  of_list.Fill(list);
  EXPECT_EQ(of_list.last(), 5u) << "two entries with attributes, parent";
}

template <class T>
std::vector<std::pair<uint64_t, InodeUse>> UsesIn(const T& message) {
  std::vector<std::pair<uint64_t, InodeUse>> out;
  ForEachInode(message, [&](InodeId ino, InodeUse use) {
    if (ino) out.emplace_back(ino.v, use);
  });
  std::sort(out.begin(), out.end());
  return out;
}
using Uses = std::vector<std::pair<uint64_t, InodeUse>>;

TEST(InodesOf, TellsWhatIsProvedOtherwise) {
  MakeNodeRequest make;
  make.parent = InodeId(5);
  make.former = InodeId(6);
  EXPECT_EQ(UsesIn(make), (Uses{{5, InodeUse::kDirectory}, {6, InodeUse::kKnown}}));
  CommitRequest commit;
  commit.ino = InodeId(7);
  EXPECT_EQ(UsesIn(commit), (Uses{{7, InodeUse::kNamed}}));
  commit.make.emplace().parent = InodeId(8);
  EXPECT_EQ(UsesIn(commit), (Uses{{7, InodeUse::kKnown}, {8, InodeUse::kDirectory}}));
  OpenReply open;
  open.node.attr.ino = InodeId(9);
  open.first_number = InodeId(100);
  open.numbers = 20;
  EXPECT_EQ(UsesIn(open), (Uses{{9, InodeUse::kNamed}, {100, InodeUse::kKnown}}));
  OpenSessionRequest claim;
  claim.held = {{InodeId(3), LeaseMode::kRead, false, false, "proof"}};
  EXPECT_EQ(UsesIn(claim), (Uses{{3, InodeUse::kKnown}}));
  NameRequest unlink;
  unlink.parent = InodeId(4);
  unlink.release = InodeId(11);
  EXPECT_EQ(UsesIn(unlink), (Uses{{4, InodeUse::kDirectory}, {11, InodeUse::kKnown}}));
}

TEST(InodesOf, TellsDirectoriesInWhichNamesAreAskedFor) {
  RenameRequest rename;
  rename.parent = InodeId(1);
  rename.new_parent = InodeId(2);
  EXPECT_EQ(UsesIn(rename), (Uses{{1, InodeUse::kDirectory}, {2, InodeUse::kDirectory}}));
  LinkRequest link;
  link.ino = InodeId(1);
  link.new_parent = InodeId(2);
  EXPECT_EQ(UsesIn(link), (Uses{{1, InodeUse::kNamed}, {2, InodeUse::kDirectory}}));
  ReadDirRequest list;
  list.ino = InodeId(3);
  EXPECT_EQ(UsesIn(list), (Uses{{3, InodeUse::kDirectory}}));
}

}  // namespace
}  // namespace stria
