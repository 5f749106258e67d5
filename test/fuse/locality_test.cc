// Where bytes are, and where they were read from, as programs see it: through the kernel, against what lies on the
// disks of a cluster in this process. Needs root and /dev/fuse; says so and passes otherwise.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <grp.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "common/random.h"
#include "locality/read_tally.h"
#include "stripe/layout_spec.h"
#include "test/fuse/mini_cluster.h"

namespace stria {
namespace {

namespace fs = std::filesystem;

std::string WhyNotHere() {
  if (geteuid() != 0) return "mounting with allow_other needs root";
  return access("/dev/fuse", R_OK | W_OK) == 0 ? "" : "/dev/fuse cannot be opened";
}

std::string RandomBytes(uint64_t seed, size_t n) {
  Random rng(seed);
  std::string out(n, '\0');
  for (size_t i = 0; i + 8 <= n; i += 8) {
    const uint64_t v = rng.Next();
    memcpy(out.data() + i, &v, 8);
  }
  return out;
}

// The value, or "!" and errno's name.
std::string Xattr(const std::string& path, const std::string& name) {
  std::string value(65536, '\0');
  const ssize_t n = getxattr(path.c_str(), name.c_str(), value.data(), value.size());
  if (n < 0) return std::string("!") + strerrorname_np(errno);
  value.resize(static_cast<size_t>(n));
  return value;
}

void Write(const std::string& path, const std::string& bytes) {
  const int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  ASSERT_GE(fd, 0) << path << ": " << strerror(errno);
  for (size_t at = 0; at < bytes.size();) {
    const ssize_t n = write(fd, bytes.data() + at, std::min<size_t>(bytes.size() - at, 1 << 20));
    ASSERT_GT(n, 0) << strerror(errno);
    at += static_cast<size_t>(n);
  }
  ASSERT_EQ(close(fd), 0) << strerror(errno);
}

std::string Read(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream out;
  out << in.rdbuf();
  return std::move(out).str();
}

struct Row {
  uint64_t offset = 0, length = 0;
  std::string node, role, health;
};
std::vector<Row> ParseRows(const std::string& text) {
  std::vector<Row> rows;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) {
    Row r;
    char node[64], role[16], health[16];
    EXPECT_EQ(sscanf(line.c_str(), "%lu+%lu %63[^:]:%*s %15s %15s", &r.offset, &r.length, node, role, health), 5) << line;
    r.node = node, r.role = role, r.health = health;
    rows.push_back(r);
  }
  return rows;
}

class Locality : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    if (!WhyNotHere().empty()) return;
    cluster_ = new MiniCluster(5, "raid5:2+1,unit=64K,stripe=1M");
    n2_ = new MiniMount(cluster_, 1, {}, "n2");
    other_ = new MiniMount(cluster_, 2);
  }
  static void TearDownTestSuite() {
    delete other_;
    delete n2_;
    delete cluster_;
  }
  void SetUp() override {
    const std::string why = WhyNotHere();
    if (!why.empty()) GTEST_SKIP() << why;
    name_ = "/" + std::string(::testing::UnitTest::GetInstance()->current_test_info()->name());
    ASSERT_EQ(mkdir(Here().c_str(), 0755), 0) << strerror(errno);
  }
  // In this test's directory: by way of the mount on node n2, or of the one on no node.
  std::string Here(const std::string& file = "") { return n2_->path() + name_ + (file.empty() ? "" : "/" + file); }
  std::string There(const std::string& file = "") { return other_->path() + name_ + (file.empty() ? "" : "/" + file); }
  void SetLayout(const std::string& layout) {
    ASSERT_EQ(setxattr(Here().c_str(), "user.stria.layout", layout.data(), layout.size(), 0), 0) << strerror(errno);
  }
  // What each node's disk has of `bytes`, by looking at its shard files: a row's bytes are in one of them.
  static void ExpectOnDisk(const Row& row, const std::string& bytes) {
    bool found = false;
    for (const auto& e : fs::recursive_directory_iterator(cluster_->disk_dir(row.node) + "/shards")) {
      if (!found && e.is_regular_file()) {
        found = Read(e.path()).find(bytes.substr(row.offset, row.length)) != std::string::npos;
      }
    }
    EXPECT_TRUE(found) << row.offset << "+" << row.length << " is not on " << row.node;
  }

  static MiniCluster* cluster_;
  static MiniMount* n2_;
  static MiniMount* other_;
  std::string name_;
};
MiniCluster* Locality::cluster_ = nullptr;
MiniMount* Locality::n2_ = nullptr;
MiniMount* Locality::other_ = nullptr;

TEST_F(Locality, WhereAgreesWithTheDisks) {
  for (const char* layout : {"raid5:2+1,unit=256K,stripe=2M", "raid5:2+1,unit=512K,stripe=2M,arrange=gathered",
                             "raid6:3+2,unit=512K,arrange=gathered,place=local"}) {
    SCOPED_TRACE(layout);
    SetLayout(layout);
    const std::string f = Here(std::string("f") + layout[4] + std::to_string(strlen(layout)));
    const std::string bytes = RandomBytes(strlen(layout), 3'500'000);
    Write(f, bytes);
    uint64_t at = 0;
    std::map<std::string, uint64_t> by_node;
    for (const Row& row : ParseRows(Xattr(f, "user.stria.locations"))) {
      EXPECT_EQ(row.health, "ok");
      if (row.role != "data") continue;
      EXPECT_EQ(row.offset, at);
      at += row.length;
      by_node[row.node] += row.length;
      // A merged row may cover several shards: look at pieces that lie in one for sure.
      for (uint64_t piece = row.offset; piece < row.offset + row.length; piece += 65536) {
        ExpectOnDisk({piece, std::min<uint64_t>(4096, row.offset + row.length - piece), row.node}, bytes);
      }
    }
    EXPECT_EQ(at, bytes.size());
    std::ostringstream hosts;
    const std::string said = Xattr(f, "user.stria.hosts");
    for (const auto& [node, n] : by_node) EXPECT_NE(said.find(node + ":"), std::string::npos) << said;
    EXPECT_EQ(std::ranges::count(said, ':'), std::ssize(by_node)) << said;
    EXPECT_EQ(Xattr(f, "user.stria.health"), "ok");
  }
}

TEST_F(Locality, ALocalFileIsOnTheNodeOfItsMount) {
  SetLayout("raid5:4+1,unit=512K,arrange=gathered,place=local");
  const std::string bytes = RandomBytes(7, 5'000'000);
  Write(Here("f"), bytes);
  EXPECT_EQ(Xattr(Here("f"), "user.stria.hosts"), "n2:100%");
  EXPECT_EQ(Xattr(Here("f"), "user.stria.local"), "100%");
  EXPECT_EQ(Xattr(Here("f"), "user.stria.node"), "n2");
  EXPECT_EQ(Xattr(There("f"), "user.stria.node"), "!ENODATA");
  EXPECT_EQ(Xattr(There("f"), "user.stria.local"), "0%") << "it is on no node";
  for (const Row& row : ParseRows(Xattr(Here("f"), "user.stria.locations"))) {
    EXPECT_EQ(row.node == "n2", row.role == "data");
  }
  EXPECT_EQ(Read(There("f")), bytes);
  const ReadTally there = ParseReadTally(Xattr(There("f"), "user.stria.io")).value();
  EXPECT_EQ(there.local_bytes, 0u);
  EXPECT_GE(there.network_bytes, bytes.size());
  const ReadTally before = ParseReadTally(Xattr(Here(), "user.stria.io")).value();
  EXPECT_EQ(Read(Here("f")), bytes);
  const ReadTally here = ParseReadTally(Xattr(Here("f"), "user.stria.io")).value();
  EXPECT_GE(here.local_bytes, bytes.size());
  EXPECT_EQ(here.network_bytes, 0u);
  EXPECT_EQ(here.reconstructed_bytes, 0u);
  const ReadTally after = ParseReadTally(Xattr(Here(), "user.stria.io")).value();
  EXPECT_EQ(after.local_bytes - before.local_bytes, here.local_bytes) << "a directory tells of the whole mount";
}

TEST_F(Locality, ANodeMayBeNamed) {
  SetLayout("raid5:4+1,unit=512K,arrange=gathered,place=node:n4");
  EXPECT_NE(Xattr(Here(), "user.stria.layout").find("place=node:n4"), std::string::npos);
  Write(Here("f"), RandomBytes(8, 3'000'000));
  EXPECT_EQ(Xattr(Here("f"), "user.stria.hosts"), "n4:100%");
}

TEST_F(Locality, GatheredPutsLongRangesOnOneNode) {
  SetLayout("raid5:4+1,unit=512K,stripe=2M,arrange=gathered");
  Write(Here("f"), RandomBytes(9, 4 << 20));
  const auto rows = ParseRows(Xattr(Here("f"), "user.stria.locations"));
  size_t data = 0;
  for (const Row& row : rows) {
    if (row.role != "data") continue;
    ++data;
    EXPECT_EQ(row.length % (512 << 10), 0u);
  }
  EXPECT_GE(data, 4u);
  EXPECT_LE(data, 8u);
}

TEST_F(Locality, GatherMovesAFileStripeByStripe) {
  SetLayout("raid5:4+1,unit=64K,stripe=1M");
  const std::string bytes = RandomBytes(14, 3'000'000);
  Write(Here("f"), bytes);
  struct stat before = {};
  ASSERT_EQ(stat(Here("f").c_str(), &before), 0);
  const auto set = [&](const char* name, const std::string& value) {
    return setxattr(Here("f").c_str(), name, value.data(), value.size(), 0) == 0 ? 0 : errno;
  };
  EXPECT_EQ(set("user.stria.gather", "0:1000000"), EINVAL) << "its layout spreads";
  ASSERT_EQ(set("user.stria.layout", "raid5:4+1,unit=512K,arrange=gathered"), 0);
  ASSERT_EQ(set("user.stria.gather", "0:700001,300000,999,5,1000000"), 0) << "more than a stripe has";
  const auto rows = ParseRows(Xattr(Here("f"), "user.stria.locations@0+1001005"));
  ASSERT_GE(rows.size(), 4u);
  EXPECT_EQ(rows[0].length, 700001u);
  EXPECT_EQ(rows[1].length, 300000u);
  EXPECT_EQ(rows[2].length, 999u);
  ASSERT_EQ(set("user.stria.layout", "raid5:4+1,unit=512K,arrange=gathered,place=local"), 0);
  EXPECT_EQ(Read(There("f")), bytes);  // who has read it, and does so no more, is not in the way
  ASSERT_EQ(set("user.stria.gather", "2001005:998995"), 0);
  const auto tail = ParseRows(Xattr(Here("f"), "user.stria.locations@2001005+"));
  ASSERT_EQ(tail.size(), 2u);
  EXPECT_EQ(tail[0].node, "n2");
  for (const char* bad : {"", "x", "0:", "0:0", "0:1,", "0:-1", "2999999:2", "0:99999999999999"}) {
    EXPECT_EQ(set("user.stria.gather", bad), EINVAL) << bad;
  }
  EXPECT_EQ(Read(Here("f")), bytes);
  EXPECT_EQ(Read(There("f")), bytes);
  struct stat after = {};
  ASSERT_EQ(stat(Here("f").c_str(), &after), 0);
  EXPECT_EQ(after.st_mtim.tv_nsec, before.st_mtim.tv_nsec) << "the content is the same";
  EXPECT_EQ(after.st_mtim.tv_sec, before.st_mtim.tv_sec);
  EXPECT_EQ(cluster_->loop().Run([&]() -> Task<Result<FsckReply>> { return cluster_->server().Fsck({}); })->problems,
            std::vector<std::string>{});
}

TEST_F(Locality, GatherLeavesHolesAlone) {
  SetLayout("raid5:4+1,unit=512K,arrange=gathered");
  Write(Here("f"), RandomBytes(16, 1'000'000));
  ASSERT_EQ(truncate(Here("f").c_str(), 2'000'000), 0);
  EXPECT_EQ(setxattr(Here("f").c_str(), "user.stria.gather", "900000:1000000", 14, 0), -1);
  EXPECT_EQ(errno, EINVAL);
}

TEST_F(Locality, GatherLosesNoWrites) {
  SetLayout("raid5:4+1,unit=64K,stripe=1M");
  std::string bytes = RandomBytes(15, 2'000'000);
  Write(Here("f"), bytes);
  const std::string layout = "raid5:4+1,unit=512K,arrange=gathered";
  ASSERT_EQ(setxattr(Here("f").c_str(), "user.stria.layout", layout.data(), layout.size(), 0), 0);
  // A writer on the same mount goes on meanwhile; its last words count.
  std::thread writer([&] {
    const int fd = open(Here("f").c_str(), O_WRONLY | O_CLOEXEC);
    Random rng(3);
    for (int i = 0; i < 400; ++i) {
      const uint64_t at = rng.Below(bytes.size() - 5000);
      const std::string piece = RandomBytes(1000 + static_cast<uint64_t>(i), rng.Between(8, 5000));
      bytes.replace(at, piece.size(), piece);
      ASSERT_EQ(pwrite(fd, piece.data(), piece.size(), static_cast<off_t>(at)), std::ssize(piece));
    }
    ASSERT_EQ(close(fd), 0);
  });
  for (int i = 0; i < 10; ++i) {
    EXPECT_EQ(setxattr(Here("f").c_str(), "user.stria.gather", "0:500000,500000,500000,500000", 29, 0), 0) << strerror(errno);
  }
  writer.join();
  EXPECT_TRUE(Read(Here("f")) == bytes);
  EXPECT_TRUE(Read(There("f")) == bytes);
  // While another mount writes, it is refused.
  const int fd = open(There("f").c_str(), O_RDWR | O_CLOEXEC);
  ASSERT_EQ(pwrite(fd, "x", 1, 0), 1);
  const int mine = open(Here("f").c_str(), O_RDWR | O_CLOEXEC);
  EXPECT_EQ(setxattr(Here("f").c_str(), "user.stria.gather", "0:500000", 8, 0), -1);
  EXPECT_EQ(errno, EBUSY);
  close(mine);
  close(fd);
}

TEST_F(Locality, ALayoutIsSetByAnOwner) {
  SetLayout("raid6:2+2,unit=1M");
  EXPECT_EQ(Xattr(Here(), "user.stria.layout"), LayoutToString(ParseLayout("raid6:2+2,unit=1M").value()));
  Write(Here("f"), "x");
  EXPECT_EQ(Xattr(Here("f"), "user.stria.layout"), Xattr(There(), "user.stria.layout")) << "inherited";
  EXPECT_EQ(setxattr(Here().c_str(), "user.stria.layout", "raid7", 5, 0), -1);
  EXPECT_EQ(errno, EINVAL);
  EXPECT_EQ(setxattr(Here("f").c_str(), "user.stria.hosts", "n1", 2, 0), -1);
  EXPECT_EQ(errno, EPERM);
  EXPECT_EQ(removexattr(Here("f").c_str(), "user.stria.layout"), -1);
}

TEST_F(Locality, OrdinaryUsersMayAskAndNothingIsListed) {
  Write(Here("f"), RandomBytes(10, 300'000));
  ASSERT_EQ(setxattr(Here("f").c_str(), "user.mine", "1", 1, 0), 0);
  char list[256];
  const ssize_t n = listxattr(Here("f").c_str(), list, sizeof list);
  EXPECT_EQ(std::string(list, n > 0 ? static_cast<size_t>(n) : 0), std::string("user.mine\0", 10));
  const pid_t child = fork();
  if (child == 0) {
    if (setgroups(0, nullptr) != 0 || setgid(1234) != 0 || setuid(1234) != 0) _exit(255);
    for (const char* name : {"layout", "hosts", "locations", "locations@0+4K", "local", "health", "io"}) {
      if (Xattr(Here("f"), std::string("user.stria.") + name)[0] == '!') _exit(1);
    }
    _exit(Xattr(Here(), "user.stria.rbytes") == "300000" && Xattr(Here(), "user.stria.rfiles") == "1" ? 0 : 2);
  }
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

TEST_F(Locality, ValuesAndSizesAreThoseOfGetxattr) {
  Write(Here("f"), RandomBytes(11, 2'000'000));
  const std::string f = Here("f");
  const std::string all = Xattr(f, "user.stria.locations");
  EXPECT_EQ(getxattr(f.c_str(), "user.stria.locations", nullptr, 0), std::ssize(all));
  std::string room(all.size() - 1, '\0');
  EXPECT_EQ(getxattr(f.c_str(), "user.stria.locations", room.data(), room.size()), -1);
  EXPECT_EQ(errno, ERANGE);
  const auto part = ParseRows(Xattr(f, "user.stria.locations@64K+64K"));
  ASSERT_GE(part.size(), 1u);
  EXPECT_EQ(part[0].offset, 65536u);
  EXPECT_EQ(part[0].length, 65536u);
  EXPECT_EQ(Xattr(f, "user.stria.locations@9M+1"), "");
  EXPECT_EQ(Xattr(f, "user.stria.locations@x"), "!EINVAL");
  EXPECT_EQ(Xattr(f, "user.stria.locationsx"), "!ENODATA");
  EXPECT_EQ(Xattr(f, "user.stria.nonsense"), "!ENODATA");
  EXPECT_EQ(Xattr(Here(), "user.stria.hosts"), "!ENODATA") << "of files only";
  EXPECT_EQ(Xattr(f, "user.stria.rbytes"), "!ENODATA") << "of directories only";
}

TEST_F(Locality, LongListsSayThatTheyAreCut) {
  SetLayout("raid5:2+1,unit=4K,stripe=1M");
  Write(Here("f"), RandomBytes(12, 16 << 20));
  const std::string text = Xattr(Here("f"), "user.stria.locations");
  EXPECT_LE(text.size(), 65536u);
  const size_t marker = text.rfind("... ");
  ASSERT_NE(marker, text.npos);
  const std::string from = text.substr(marker + 4, text.size() - marker - 5);
  const auto rest = ParseRows(Xattr(Here("f"), "user.stria.locations@" + from + "+4K"));
  ASSERT_FALSE(rest.empty());
  EXPECT_EQ(std::to_string(rest[0].offset), from);
}

TEST_F(Locality, TreesAreAddedUp) {
  ASSERT_EQ(mkdir(Here("a").c_str(), 0755), 0);
  ASSERT_EQ(mkdir(Here("a/b").c_str(), 0755), 0);
  EXPECT_EQ(Xattr(Here(), "user.stria.rfiles"), "0");
  Write(Here("f"), "12345");
  Write(Here("a/g"), RandomBytes(13, 100'000));
  Write(Here("a/b/h"), "1");
  ASSERT_EQ(symlink("f", Here("a/link").c_str()), 0);
  EXPECT_EQ(Xattr(There(), "user.stria.rbytes"), "100006");
  EXPECT_EQ(Xattr(There(), "user.stria.rfiles"), "3");
  EXPECT_EQ(Xattr(There("a"), "user.stria.rfiles"), "2");
}

}  // namespace
}  // namespace stria
