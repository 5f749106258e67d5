// What a mount asks of the metadata server for work with small files: operations as the kernel makes them, and the calls
// that they cost. And that what is answered without a call is still right when others change it.
#include <gtest/gtest.h>

#include "test/sim/small_files_testing.h"

namespace stria {
namespace {

const Caller kRoot;

TEST_F(SmallFiles, InADirectoryThatWasMadeHere) {
  const InodeId dir = MakeDir(0, "d");
  Calls();
  Create(0, dir, "a", "small");
  EXPECT_EQ(Calls(), "Commit 1, MakeNode 1");
  ASSERT_TRUE(Rename(0, dir, "a", "b").ok());
  EXPECT_EQ(Calls(), "Rename 1");
  EXPECT_EQ(Lookup(0, dir, "a"), FsError::kNoEnt);
  EXPECT_EQ(Lookup(0, dir, "b"), FsError::kOk);
  EXPECT_EQ(Calls(), "");
  const InodeId below = Do(vfs(0).MakeNode(kRoot, dir, "sub", FileType::kDirectory, 0755, 0, ""))->attr.ino;
  EXPECT_EQ(Lookup(0, below, "x"), FsError::kNoEnt);
  EXPECT_EQ(Calls(), "MakeNode 1");
  EXPECT_EQ(Lookup(0, below, ".."), FsError::kOk);
}

TEST_F(SmallFiles, OthersAreSeenInADirectoryThatWasMadeHere) {
  const InodeId dir = MakeDir(0, "d");
  EXPECT_EQ(Lookup(0, dir, "x"), FsError::kNoEnt);
  Create(1, dir, "x", "");
  EXPECT_EQ(Lookup(0, dir, "x"), FsError::kOk);
  EXPECT_EQ(Lookup(0, dir, "y"), FsError::kNoEnt);
  Calls();
  // Of what comes next nobody would tell, had it not been asked for.
  Create(1, dir, "z", "");
  Calls();
  EXPECT_EQ(Lookup(0, dir, "z"), FsError::kOk);
  EXPECT_EQ(Calls(), "LeaseDone 1, Lookup 1");  // whose writer is asked for what it buffers
  ASSERT_TRUE(Rename(1, dir, "x", "y").ok());
  EXPECT_EQ(Lookup(0, dir, "x"), FsError::kNoEnt);
  EXPECT_EQ(Lookup(0, dir, "y"), FsError::kOk);
  ASSERT_TRUE(Unlink(1, dir, "y").ok());
  EXPECT_EQ(Lookup(0, dir, "y"), FsError::kNoEnt);
}

TEST_F(SmallFiles, AListingToItsEndTellsWhatIsNotThere) {
  const InodeId dir = MakeDir(1, "d");
  for (int i = 0; i < 7; ++i) Create(1, dir, "f" + std::to_string(i), "");
  EXPECT_EQ(List(0, dir, 3), 7u);
  Calls();
  EXPECT_EQ(Lookup(0, dir, "x"), FsError::kNoEnt);
  Create(0, dir, "x", "small");
  EXPECT_EQ(Calls(), "Commit 1, MakeNode 1");
  Create(1, dir, "y", "");
  EXPECT_EQ(Lookup(0, dir, "y"), FsError::kOk);
  ASSERT_TRUE(Unlink(1, dir, "y").ok());
  EXPECT_EQ(Lookup(0, dir, "y"), FsError::kNoEnt);
}

TEST_F(SmallFiles, AListingThatAChangeOvertakesTellsNothing) {
  const InodeId dir = MakeDir(1, "d");
  for (int i = 0; i < 7; ++i) Create(1, dir, "f" + std::to_string(i), "");
  const auto part = Do(vfs(0).ReadDir(kRoot, dir, 0, 3, false));
  ASSERT_TRUE(part.ok());
  for (int i = 0; i < 20; ++i) Create(1, dir, "g" + std::to_string(i), "");  // some of them before the cookie
  uint64_t cookie = part->entries.back().cookie;
  while (true) {
    const auto next = Do(vfs(0).ReadDir(kRoot, dir, cookie, 3, false));
    ASSERT_TRUE(next.ok());
    if (next->end) break;
    cookie = next->entries.back().cookie;
  }
  for (int i = 0; i < 20; ++i) EXPECT_EQ(Lookup(0, dir, "g" + std::to_string(i)), FsError::kOk);
}

TEST_F(SmallFiles, TwoNamesOfOneFileStayWhenOneIsMovedOverTheOther) {
  const InodeId dir = MakeDir(0, "d");
  const InodeId file = Create(0, dir, "a", "");
  ASSERT_TRUE(Do(vfs(0).Link(kRoot, file, dir, "b")).ok());
  ASSERT_TRUE(Rename(0, dir, "a", "b").ok());
  EXPECT_EQ(Lookup(0, dir, "a"), FsError::kOk);
  EXPECT_EQ(Lookup(0, dir, "b"), FsError::kOk);
  ASSERT_TRUE(Rename(0, dir, "a", "c").ok());
  EXPECT_EQ(Lookup(0, dir, "a"), FsError::kNoEnt);
  EXPECT_EQ(Lookup(0, dir, "c"), FsError::kOk);
}

TEST_F(SmallFiles, AnUnlinkGivesTheLeaseBack) {
  const InodeId dir = MakeDir(0, "d");
  const InodeId file = Create(0, dir, "a", "small");
  EXPECT_TRUE(cluster_.meta_server()->leases().IsOpen(file));  // kept for the next open
  Calls();
  ASSERT_TRUE(Unlink(0, dir, "a").ok());
  EXPECT_FALSE(cluster_.meta_server()->leases().IsOpen(file));
  EXPECT_EQ(Do(vfs(1).GetAttr(kRoot, file)).code(), FsError::kStale);
  EXPECT_EQ(Calls(), "GetAttr 1, Unlink 1");
}

TEST_F(SmallFiles, AFileWithAnotherNameKeepsItsLease) {
  const InodeId dir = MakeDir(0, "d");
  const InodeId file = Create(0, dir, "a", "small");
  ASSERT_TRUE(Do(vfs(0).Link(kRoot, file, dir, "b")).ok());
  ASSERT_TRUE(Unlink(0, dir, "a").ok());
  Calls();
  EXPECT_EQ(Read(0, file), "small");
  EXPECT_EQ(Calls(), "");
}

TEST_F(SmallFiles, AnUnlinkedFileThatIsOpenStays) {
  const InodeId dir = MakeDir(0, "d");
  const InodeId mine = Create(0, dir, "mine", "small");
  const InodeId theirs = Create(0, dir, "theirs", "small");
  VfsHandle flags;
  flags.read = true;
  auto here = Do(vfs(0).Open(kRoot, mine, false, flags));
  auto there = Do(vfs(1).Open(kRoot, theirs, false, flags));
  ASSERT_TRUE(here.ok() && there.ok());
  ASSERT_TRUE(Unlink(0, dir, "mine").ok());
  ASSERT_TRUE(Unlink(0, dir, "theirs").ok());
  EXPECT_EQ(Text(Do(vfs(0).Read(kRoot, here->handle, 0, 100))), "small");
  EXPECT_EQ(Text(Do(vfs(1).Read(kRoot, there->handle, 0, 100))), "small");
  EXPECT_TRUE(Do(vfs(0).Release(kRoot, here->handle)).ok());
  EXPECT_TRUE(Do(vfs(1).Release(kRoot, there->handle)).ok());
  cluster_.executor().RunUntil([] { return false; }, cluster_.executor().NowNs() + 5 * kSecond);
  for (const InodeId gone : {mine, theirs}) {
    EXPECT_FALSE(cluster_.meta_server()->leases().IsOpen(gone));
    InodeRequest r;  // not of a mount, which may remember it
    r.header = cluster_.AdminHeader();
    r.ino = gone;
    EXPECT_EQ(Do(cluster_.admin().GetAttr(r)).code(), FsError::kStale);
  }
}

TEST_F(SmallFiles, AnUnlinkThatFailsGivesTheLeaseBackAllTheSame) {
  const InodeId dir = MakeDir(0, "d");
  const InodeId file = Create(0, dir, "a", "small");
  Calls();
  Caller stranger;
  stranger.uid = stranger.gid = 1000;
  EXPECT_EQ(Do(vfs(0).Unlink(stranger, dir, "a")).code(), FsError::kAccess);
  cluster_.executor().RunUntil([] { return false; }, cluster_.executor().NowNs() + kSecond);
  EXPECT_EQ(Calls(), "Release 1, Unlink 1");
  EXPECT_FALSE(cluster_.meta_server()->leases().IsOpen(file));
  EXPECT_EQ(Read(0, file), "small");
  EXPECT_TRUE(cluster_.meta_server()->leases().IsOpen(file));
}

// Opens of the file that begin while its name goes.
TEST_F(SmallFiles, AnOpenBesideAnUnlinkKeepsWhatItGot) {
  const InodeId dir = MakeDir(0, "d");
  int opened = 0;
  for (int i = 0; i < 60; ++i) {
    const InodeId file = Create(0, dir, "a", "small");
    TaskScope scope;
    std::string seen = "nothing";
    scope.Spawn([](SmallFiles* t, InodeId ino, int64_t after_ns, std::string* out) -> Task<void> {
      VfsHandle flags;
      flags.read = true;
      co_await Sleep(after_ns);
      auto h = co_await t->vfs(0).Open(kRoot, ino, false, flags);
      if (!h.ok()) co_return;
      *out = "open";
      co_await Sleep(3 * kSecond);  // what nobody has open is cleaned away by then
      *out = t->Text(co_await t->vfs(0).Read(kRoot, h->handle, 0, 100));
      (void)co_await t->vfs(0).Release(kRoot, h->handle);
    }(this, file, i * 20 * kMicrosecond, &seen));
    ASSERT_TRUE(Do(vfs(0).Unlink(kRoot, dir, "a")).ok());
    cluster_.executor().RunUntil([] { return false; }, cluster_.executor().NowNs() + 5 * kSecond);
    EXPECT_TRUE(seen == "nothing" || seen == "small") << seen;
    opened += seen == "small";
    EXPECT_FALSE(cluster_.meta_server()->leases().IsOpen(file)) << i;
  }
  EXPECT_GT(opened, 0);
}

TEST_F(SmallFiles, WhatWasWrittenHereIsReadWithoutACall) {
  const InodeId dir = MakeDir(0, "d");
  const InodeId file = Create(0, dir, "a", "small");
  Calls();
  EXPECT_EQ(Read(0, file), "small");
  EXPECT_EQ(Calls(), "");
  Write(0, file, 3, "ll and more");
  EXPECT_EQ(Calls(), "Commit 1");
  EXPECT_EQ(Read(0, file), "small and more");
  SetAttrIn cut;
  cut.size = 7;
  ASSERT_TRUE(Do(vfs(0).SetAttr(kRoot, file, cut)).ok());
  EXPECT_EQ(Read(0, file), "small a");
  cut.size = 9;
  ASSERT_TRUE(Do(vfs(0).SetAttr(kRoot, file, cut)).ok());
  EXPECT_EQ(Read(0, file), std::string("small a\0\0", 9));
}

// Each time that the kernel is told to forget attributes someone waits for it, and it asks again.
TEST_F(SmallFiles, TheKernelIsNotToldWhatItKnows) {
  const InodeId dir = MakeDir(0, "d");
  const auto told = [this] { return cluster_.kernel(0).attrs_forgotten(); };
  const auto kept_ns = [this](InodeId ino) {
    const auto attr = Do(vfs(0).GetAttr(kRoot, ino));
    EXPECT_TRUE(attr.ok()) << attr.error();
    return attr.ok() ? attr->attr_valid_ns : -1;
  };
  uint64_t before = told();
  VfsHandle flags;
  flags.write = true;
  auto made = Do(vfs(0).Create(kRoot, dir, "f", 0644, true, false, flags));
  ASSERT_TRUE(made.ok()) << made.error();
  const InodeId file = made->entry.attr.ino;
  EXPECT_EQ(kept_ns(file), 0) << "it is about to be written";
  const auto append = [&](uint64_t at) {
    EXPECT_TRUE(Do(vfs(0).Write(kRoot, made->handle, at, Buffer::FromString("text"))).ok());
  };
  append(0);
  EXPECT_EQ(kept_ns(file), 0);
  append(4);
  EXPECT_EQ(told(), before);
  // Others may have been shown it when it is written no more.
  Do([]() -> Task<bool> {
    co_await Sleep(2 * kSecond);
    co_return true;
  }());
  EXPECT_GT(kept_ns(file), 0);
  append(8);
  EXPECT_EQ(told(), before + 1);
  EXPECT_EQ(kept_ns(file), 0);
  append(12);
  EXPECT_EQ(told(), before + 1);
  EXPECT_TRUE(Do(vfs(0).Flush(kRoot, made->handle)).ok());
  EXPECT_TRUE(Do(vfs(0).Release(kRoot, made->handle)).ok());
  EXPECT_GT(kept_ns(file), 0);
  // Reading moves its atime, which the kernel knows.
  before = told();
  flags = VfsHandle();
  flags.read = true;
  auto opened = Do(vfs(0).Open(kRoot, file, false, flags));
  ASSERT_TRUE(opened.ok()) << opened.error();
  EXPECT_EQ(Text(Do(vfs(0).Read(kRoot, opened->handle, 0, kMiB))), "texttexttexttext");
  EXPECT_TRUE(Do(vfs(0).Release(kRoot, opened->handle)).ok());
  EXPECT_EQ(told(), before);
  const auto attr = Do(vfs(0).GetAttr(kRoot, file));
  ASSERT_TRUE(attr.ok());
  EXPECT_GE(attr->attr.atime_ns, attr->attr.mtime_ns);
}

TEST_F(SmallFiles, AnOpenBringsTheMapping) {
  const InodeId dir = MakeDir(1, "d");
  const InodeId small = Create(1, dir, "small", "small");
  const std::string text(200'000, 'x');
  const InodeId striped = Create(1, dir, "striped", text);
  Calls();
  EXPECT_EQ(Read(0, small), "small");
  EXPECT_EQ(Calls(), "LeaseDone 1, Open 1");
  EXPECT_EQ(Read(0, striped), text);
  EXPECT_EQ(Calls(), "LeaseDone 1, Open 1");
  EXPECT_EQ(Read(0, striped), text);
  EXPECT_EQ(Calls(), "");
  // Others change it.
  Write(1, small, 0, "SMALL");
  EXPECT_EQ(Read(0, small), "SMALL");
  Write(1, striped, 5, "y");
  EXPECT_EQ(Read(0, striped), text.substr(0, 5) + "y" + text.substr(6));
}

// Somebody writes to the file, cuts it and clones over it while others open it again and again.
TEST_F(SmallFiles, WhatAnOpenBringsIsNotOfBeforeAChange) {
  const InodeId dir = MakeDir(1, "d");
  const InodeId file = Create(1, dir, "f", "0000");
  TaskScope scope;
  int done = 0;  // written and answered
  std::string wrong;
  bool stop = false;
  scope.Spawn([](SmallFiles* t, InodeId ino, int* written, bool* end) -> Task<void> {
    VfsHandle flags;
    flags.write = true;
    for (int i = 1; i < 150; ++i) {
      auto h = co_await t->vfs(1).Open(kRoot, ino, i % 10 == 0, flags);
      if (!h.ok()) break;
      char text[8];
      snprintf(text, sizeof text, "%04d", i);
      if (!(co_await t->vfs(1).Write(kRoot, h->handle, 0, Buffer::FromString(text))).ok()) break;
      if (!(co_await t->vfs(1).Flush(kRoot, h->handle)).ok()) break;
      *written = i;
      (void)co_await t->vfs(1).Release(kRoot, h->handle);
      co_await Sleep((i % 7) * 200 * kMicrosecond);
    }
    *end = true;
  }(this, file, &done, &stop));
  scope.Spawn([](SmallFiles* t, InodeId ino, const int* written, const bool* end, std::string* why) -> Task<void> {
    VfsHandle flags;
    flags.read = true;
    for (int round = 0; !*end; ++round) {
      const int before = *written;
      auto h = co_await t->vfs(0).Open(kRoot, ino, false, flags);
      if (!h.ok()) co_return void(*why = h.error().ToString());
      const std::string seen = t->Text(co_await t->vfs(0).Read(kRoot, h->handle, 0, 4));
      if (!seen.empty() && atoi(seen.c_str()) < before) *why += seen + " after " + std::to_string(before) + "; ";
      (void)co_await t->vfs(0).Release(kRoot, h->handle);
      co_await Sleep((round % 5) * 150 * kMicrosecond);
    }
  }(this, file, &done, &stop, &wrong));
  cluster_.executor().RunUntil([&] { return stop; }, cluster_.executor().NowNs() + 1000 * kSecond);
  EXPECT_EQ(done, 149);
  EXPECT_EQ(wrong, "");
  EXPECT_EQ(Read(0, file), "0149");
}

TEST_F(SmallFiles, AfterARestartOfTheServerNothingIsKnown) {
  const InodeId dir = MakeDir(0, "d");
  EXPECT_EQ(Lookup(0, dir, "x"), FsError::kNoEnt);
  ASSERT_TRUE(Do(vfs(0).SyncDir(kRoot, dir)).ok());
  cluster_.CrashMeta(false);
  cluster_.StartMeta();
  Create(1, dir, "x", "");
  EXPECT_EQ(Lookup(0, dir, "x"), FsError::kOk);
}

// What was asked before a change of our own, and is answered after it, is older: an open beside a truncation.
// The answer to a truncation is late, and somebody opens the file and writes to it meanwhile.
TEST_F(SmallFiles, WhatIsWrittenAfterACutStays) {
  const InodeId ino = Create(1, kRootInode, "f", "before");
  EXPECT_EQ(Lookup(0, kRootInode, "f"), FsError::kOk);
  cluster_.network().Block({"meta"}, {ClientHost(0)});
  std::optional<Result<EntryOut>> cut;
  cluster_.scope(0).Spawn([](Vfs* fs, InodeId of, std::optional<Result<EntryOut>>* out) -> Task<void> {
    SetAttrIn set;
    set.size = 0;
    *out = co_await fs->SetAttr(Caller(), of, set);
  }(&vfs(0), ino, &cut));
  cluster_.executor().RunFor(100 * kMillisecond);
  cluster_.network().Heal();
  EXPECT_FALSE(cut);
  VfsHandle flags;
  flags.read = flags.write = true;
  const auto opened = Do(vfs(0).Open(Caller(), ino, false, flags));
  ASSERT_TRUE(opened.ok()) << opened.error();
  std::string text;
  for (int i = 0; i < 200; ++i) {
    EXPECT_TRUE(Do(vfs(0).Write(Caller(), opened->handle, text.size(), Buffer::FromString("after"))).ok());
    text += "after";
    cluster_.executor().RunFor(100 * kMillisecond);
  }
  EXPECT_TRUE(cut && cut->ok());
  EXPECT_TRUE(Do(vfs(0).Fsync(Caller(), opened->handle)).ok());
  EXPECT_TRUE(Do(vfs(0).Release(Caller(), opened->handle)).ok());
  for (const size_t c : {0, 1}) EXPECT_EQ(Read(c, ino), text) << c;
}

// Of pages that the kernel has it does not ask: they go when the session comes back, and when it is lost. Then what was open
// gives EIO.
class Away : public SmallFiles, public testing::WithParamInterface<int64_t> {};
INSTANTIATE_TEST_SUITE_P(Seconds, Away, testing::Values(40, 700));
TEST_P(Away, WithTheSessionGoPagesOfOpenFiles) {
  const InodeId ino = Create(1, kRootInode, "f", "text");
  VfsHandle flags;
  flags.read = true;
  const auto opened = Do(vfs(0).Open(Caller(), ino, false, flags));
  ASSERT_TRUE(opened.ok() && opened->handle->page_cache);
  SetAttrIn mode;
  mode.mode = 0600;
  ASSERT_TRUE(Do(vfs(1).SetAttr(Caller(), ino, mode)).ok());  // its attributes are not known here any more
  cluster_.executor().RunFor(kSecond);
  const uint64_t forgotten = cluster_.kernel(0).pages_forgotten();
  cluster_.network().Block({ClientHost(0)}, {"meta"});
  cluster_.executor().RunFor(GetParam() * kSecond);
  cluster_.network().Heal();
  cluster_.executor().RunFor(10 * kSecond);
  const bool lost = GetParam() * kSecond > cluster_.options().meta.sessions.remember_ns;
  EXPECT_EQ(Do(vfs(0).Read(Caller(), opened->handle, 0, kMiB)).code(), lost ? FsError::kIo : FsError::kOk);
  EXPECT_GT(cluster_.kernel(0).pages_forgotten(), forgotten);
  EXPECT_TRUE(Do(vfs(0).Release(Caller(), opened->handle)).ok());
}

TEST_F(SmallFiles, AnOlderAnswerIsNotKept) {
  for (uint64_t i = 1; i <= 900; ++i) {
    // Nobody holds it.
    const auto made = Do(vfs(0).MakeNode(kRoot, kRootInode, "f" + std::to_string(i), FileType::kFile, 0644, 0, ""));
    ASSERT_TRUE(made.ok()) << made.error();
    const InodeId file = made->attr.ino;
    SetAttrIn longer;
    longer.size = 1000;
    ASSERT_TRUE(Do(vfs(0).SetAttr(kRoot, file, longer)).ok());
    std::optional<Result<Vfs::Opened>> opened;
    Do([](SmallFiles* t, InodeId ino, uint64_t size, std::optional<Result<Vfs::Opened>>* out) -> Task<bool> {
      std::vector<Task<bool>> both;
      both.push_back([](Vfs* fs, InodeId f, std::optional<Result<Vfs::Opened>>* o) -> Task<bool> {
        VfsHandle flags;
        flags.read = flags.noatime = true;
        co_await Sleep(50 * kMicrosecond);  // on its way already is a truncation, which the open may overtake
        *o = co_await fs->Open(kRoot, f, false, flags);
        co_return (*o)->ok();
      }(&t->vfs(1), ino, out));
      both.push_back([](Vfs* fs, InodeId f, uint64_t s) -> Task<bool> {
        SetAttrIn set;
        set.size = s;
        co_return (co_await fs->SetAttr(kRoot, f, set)).ok();
      }(&t->vfs(1), ino, size));
      for (const bool done : co_await WhenAll(std::move(both))) EXPECT_TRUE(done);
      co_return true;
    }(this, file, 1000 - i, &opened));
    ASSERT_EQ(Text(Do(vfs(1).Read(kRoot, (*opened)->handle, 0, kMiB))).size(), 1000 - i);
    EXPECT_TRUE(Do(vfs(1).Release(kRoot, (*opened)->handle)).ok());
  }
}

// More is read at once, and sought through, than one answer or the memory for mappings holds.
class ManyPieces : public SmallFiles {
 public:
  ManyPieces() : SmallFiles(Small()) {
    for (size_t i = 0; i < kPieces; ++i) bytes_.append(1, static_cast<char>('a' + i % 26)).append(kStride - 1, '\0');
    file_ = Create(0, kRootInode, "f", "");
    Open(0);
    for (size_t i = 0; i < kPieces; ++i) {
      EXPECT_TRUE(Do(vfs(0).Write(kRoot, handle_, i * kStride, Buffer::FromString(bytes_.substr(i * kStride, 1)))).ok());
    }
    EXPECT_TRUE(Do(vfs(0).Write(kRoot, handle_, bytes_.size() - 1, Buffer::FromString(std::string(1, '\0')))).ok());
    Close(0);
  }
  static SimClusterOptions Small() {
    SimClusterOptions o = Options();
    o.mapping_bytes = 64 * kKiB;
    return o;
  }
  void Open(size_t c) {
    VfsHandle flags;
    flags.read = flags.noatime = true;
    flags.write = c == 0;
    auto opened = Do(vfs(c).Open(kRoot, file_, false, flags));
    ASSERT_TRUE(opened.ok()) << opened.error();
    handle_ = opened->handle;
  }
  uint64_t Sought(uint64_t from, bool hole) {
    const auto found = Do(vfs(1).Seek(kRoot, handle_, from, hole));
    EXPECT_TRUE(found.ok()) << found.error();
    return found.ok() ? *found : 0;
  }
  void Close(size_t c) {
    EXPECT_TRUE(Do(vfs(c).Flush(kRoot, handle_)).ok());
    EXPECT_TRUE(Do(vfs(c).Release(kRoot, handle_)).ok());
  }

 protected:
  static constexpr size_t kReply = 4096;  // extents, at most
  static constexpr size_t kPieces = 2 * kReply + 100, kStride = 8;
  std::string bytes_;
  InodeId file_;
  VfsHandlePtr handle_;
};

class Gathered : public SmallFiles {
 public:
  Gathered() : SmallFiles(InColumns()) {}
  static SimClusterOptions InColumns() {
    SimClusterOptions o = Options();
    o.layout = "raid5:4+1,unit=64K,stripe=512K,arrange=gathered,place=local";
    return o;
  }
};

// Pages of a shared mapping come and are synced while their bytes move into another stripe.
TEST_F(Gathered, WhatIsWrittenMeanwhileStays) {
  constexpr uint64_t kBytes = 256 * kKiB, kPage = 4 * kKiB;
  const InodeId ino = Create(0, kRootInode, "f", std::string(kBytes, 'a'));
  VfsHandle flags;
  flags.read = flags.write = true;
  const auto opened = Do(vfs(0).Open(Caller(), ino, false, flags));
  ASSERT_TRUE(opened.ok()) << opened.error();
  std::string text(kBytes, 'a');
  for (int i = 0; i < 60; ++i) {
    std::optional<Result<void>> moved;
    cluster_.scope(0).Spawn([](Vfs* fs, InodeId of, std::optional<Result<void>>* out) -> Task<void> {
      *out = co_await fs->SetXattr(Caller(), of, "user.stria.gather", "0:65536,65536,65536,65536", false, false);
    }(&vfs(0), ino, &moved));
    cluster_.executor().RunFor(i * 200 * kMicrosecond);
    const std::string page(kPage, static_cast<char>('b' + i % 20));
    const uint64_t at = static_cast<uint64_t>(i) * kPage;
    EXPECT_TRUE(Do(vfs(0).WritePages(opened->handle, at, Buffer::FromString(page))).ok());
    text.replace(at, kPage, page);
    EXPECT_TRUE(Do(vfs(0).Fsync(Caller(), opened->handle)).ok());
    cluster_.executor().RunFor(5 * kSecond);
    ASSERT_TRUE(moved);
    EXPECT_TRUE(moved->ok()) << moved->error();
    ASSERT_TRUE(Text(Do(vfs(0).Read(Caller(), opened->handle, 0, kMiB))) == text) << i;
  }
  EXPECT_TRUE(Do(vfs(0).Release(Caller(), opened->handle)).ok());
  EXPECT_TRUE(Read(1, ino) == text);
}

TEST_F(ManyPieces, AreReadWhole) {
  Open(1);
  for (int round = 0; round < 2; ++round) EXPECT_EQ(Text(Do(vfs(1).Read(kRoot, handle_, 0, kMiB))), bytes_);
  // Ends in what the last answer brought, begins before.
  for (uint64_t at = 0; at + 20'000 < bytes_.size(); at += 9'999) {
    EXPECT_EQ(Text(Do(vfs(1).Read(kRoot, handle_, at, 20'000))), bytes_.substr(at, 20'000)) << at;
  }
  Close(1);
}

TEST_F(ManyPieces, AreSoughtOneByOne) {
  Open(1);
  for (const uint64_t at : {uint64_t{0}, bytes_.size() / 2 / kStride * kStride, kReply * kStride - kStride,
                            kReply * kStride, 2 * kReply * kStride}) {
    EXPECT_EQ(Sought(at, false), at);
    EXPECT_EQ(Sought(at, true), at + 1);
    EXPECT_EQ(Sought(at + 1, false), at + kStride);
  }
  Close(1);
}

TEST_F(ManyPieces, OfOneFileMakeRoomForAnother) {
  const InodeId first = file_;
  const std::string small(100'000, 'x');
  const InodeId other = Create(1, kRootInode, "other", small);
  Open(1);
  EXPECT_EQ(Text(Do(vfs(1).Read(kRoot, handle_, 0, kMiB))), bytes_);
  EXPECT_EQ(Read(1, other), small);
  EXPECT_EQ(Text(Do(vfs(1).Read(kRoot, handle_, 100, 1'000))), bytes_.substr(100, 1'000));
  EXPECT_EQ(Read(1, other), small);
  EXPECT_EQ(file_, first);
  Close(1);
}

}  // namespace
}  // namespace stria
