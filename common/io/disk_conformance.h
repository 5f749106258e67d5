// The rules for every Disk. A test file includes this once and instantiates DiskConformance with a maker of harnesses.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "common/exec/sim_run.h"
#include "common/io/disk.h"
#include "common/random.h"

namespace stria {

// One empty disk on a medium of its own.
class DiskHarness {
 public:
  virtual ~DiskHarness() = default;
  virtual Disk& disk() = 0;
  // The process ends and starts again; the machine stays up.
  virtual void Reopen() = 0;
};

struct DiskMaker {
  std::string name;
  std::function<std::unique_ptr<DiskHarness>()> make;
};

class DiskConformance : public testing::TestWithParam<DiskMaker> {
 protected:
  void SetUp() override { h_ = GetParam().make(); }
  Disk& disk() { return h_->disk(); }
  static Buffer Bytes(std::string s) { return Buffer::FromString(std::move(s)); }
  Result<void> Write(const std::string& name, uint64_t offset, const std::string& data) {
    return RunSim(ex_, disk().Write(name, offset, BufferChain(Bytes(data))));
  }
  std::string Read(const std::string& name, uint64_t offset = 0, uint64_t length = 1 << 20) {
    auto r = RunSim(ex_, disk().Read(name, offset, length));
    return r.ok() ? std::string(r->view()) : "(" + std::string(FsErrorName(r.code())) + ")";
  }
  std::string List(const std::string& directory) {
    std::string out;
    const auto files = RunSim(ex_, disk().List(directory));
    for (const DiskFile& f : *files) out += f.name + ":" + std::to_string(f.size_bytes) + " ";
    return out;
  }
  Result<void> Sync(std::vector<std::string> names) {
    return RunSim(ex_, disk().SyncFiles(std::move(names)));
  }

  SimExecutor ex_{1};
  std::unique_ptr<DiskHarness> h_;
};

TEST_P(DiskConformance, WritesAndReads) {
  EXPECT_EQ(Read("a"), "(NoEnt)");
  ASSERT_TRUE(Write("a", 0, "hello").ok());
  EXPECT_EQ(Read("a"), "hello");
  EXPECT_EQ(Read("a", 1, 3), "ell");
  EXPECT_EQ(Read("a", 4, 9), "o");
  EXPECT_EQ(Read("a", 5, 9), "");
  EXPECT_EQ(Read("a", 1 << 30, 9), "");
  EXPECT_EQ(Read("a", 0, 0), "");
  ASSERT_TRUE(Write("a", 3, "LO there").ok());
  EXPECT_EQ(Read("a"), "helLO there");
  ASSERT_TRUE(Write("d/e/f", 5000, "x").ok());
  EXPECT_EQ(Read("d/e/f"), std::string(5000, '\0') + "x");
  ASSERT_TRUE(Write("empty", 0, "").ok());
  EXPECT_EQ(Read("empty"), "");
}

TEST_P(DiskConformance, WritesChains) {
  BufferChain chain;
  std::string all;
  for (int i = 0; i < 2100; ++i) {  // more than IOV_MAX pieces
    const std::string piece = std::to_string(i) + ",";
    chain.Append(Bytes(piece));
    all += piece;
  }
  ASSERT_TRUE(RunSim(ex_, disk().Write("chain", 0, chain)).ok());
  EXPECT_TRUE(Read("chain") == all);
}

TEST_P(DiskConformance, RefusesNamesThatEscape) {
  const std::string nul("a\0b", 3);
  for (const std::string& name :
       {std::string(), std::string("/etc"), std::string("a//b"), std::string("a/"), std::string(".."),
        std::string("a/../b"), std::string("./a"), nul, std::string(201, 'x'), std::string("a.new~")}) {
    SCOPED_TRACE(name);
    EXPECT_EQ(Write(name, 0, "x").code(), FsError::kBadRequest);
    EXPECT_EQ(Read(name), "(BadRequest)");
    EXPECT_EQ(Sync({name}).code(), FsError::kBadRequest);
    EXPECT_EQ(RunSim(ex_, disk().Remove(name)).code(), FsError::kBadRequest);
    EXPECT_EQ(RunSim(ex_, disk().Truncate(name, 0)).code(), FsError::kBadRequest);
    EXPECT_EQ(RunSim(ex_, disk().Reserve(name, 0)).code(), FsError::kBadRequest);
    EXPECT_EQ(RunSim(ex_, disk().ReplaceFile(name, Bytes("x"))).code(), FsError::kBadRequest);
    EXPECT_EQ(disk().OpenForRead(name).code(), FsError::kBadRequest);
  }
  EXPECT_EQ(RunSim(ex_, disk().List("..")).code(), FsError::kBadRequest);
}

TEST_P(DiskConformance, FilesAndDirectoriesDoNotMix) {
  ASSERT_TRUE(Write("a/b", 0, "x").ok());
  EXPECT_EQ(Write("a", 0, "x").code(), FsError::kIsDir);
  EXPECT_EQ(Write("a/b/c", 0, "x").code(), FsError::kNotDir);
  EXPECT_EQ(Read("a/b"), "x");
}

TEST_P(DiskConformance, RemovesAndTruncates) {
  ASSERT_TRUE(Write("a", 0, std::string(10'000, 'x')).ok());
  ASSERT_TRUE(RunSim(ex_, disk().Truncate("a", 4097)).ok());
  EXPECT_EQ(Read("a"), std::string(4097, 'x'));
  ASSERT_TRUE(RunSim(ex_, disk().Truncate("a", 6000)).ok());
  EXPECT_EQ(Read("a"), std::string(4097, 'x') + std::string(1903, '\0'));
  ASSERT_TRUE(RunSim(ex_, disk().Remove("a")).ok());
  EXPECT_EQ(Read("a"), "(NoEnt)");
  EXPECT_EQ(RunSim(ex_, disk().Remove("a")).code(), FsError::kNoEnt);
  EXPECT_EQ(RunSim(ex_, disk().Truncate("a", 1)).code(), FsError::kNoEnt);
  ASSERT_TRUE(Write("a", 0, "new").ok());
  EXPECT_EQ(Read("a"), "new");
}

TEST_P(DiskConformance, ReplacesAsAWhole) {
  ASSERT_TRUE(RunSim(ex_, disk().ReplaceFile("d/a", Bytes("one, and long"))).ok());
  EXPECT_EQ(Read("d/a"), "one, and long");
  ASSERT_TRUE(RunSim(ex_, disk().ReplaceFile("d/a", Bytes("two"))).ok());
  EXPECT_EQ(Read("d/a"), "two");
  ASSERT_TRUE(Write("d/a", 3, "!").ok());
  EXPECT_EQ(Read("d/a"), "two!");
  ASSERT_TRUE(RunSim(ex_, disk().ReplaceFile("d/a", Buffer())).ok());
  EXPECT_EQ(Read("d/a"), "");
  EXPECT_EQ(List(""), "d/a:0 ");
}

TEST_P(DiskConformance, ListsInOrder) {
  EXPECT_EQ(List(""), "");
  EXPECT_EQ(List("nowhere"), "");
  for (const char* name : {"b", "a/2", "a/10", "a/x/y", "a.b", "ab/1"})
    ASSERT_TRUE(Write(name, 0, name).ok());
  EXPECT_EQ(List(""), "a.b:3 a/10:4 a/2:3 a/x/y:5 ab/1:4 b:1 ");
  EXPECT_EQ(List("a"), "a/10:4 a/2:3 a/x/y:5 ");
  EXPECT_EQ(List("a/x"), "a/x/y:5 ");
  EXPECT_EQ(List("b"), "");
}

TEST_P(DiskConformance, SyncsWhatIsThere) {
  for (const char* name : {"a", "d/b", "d/c", "d/e/f"}) ASSERT_TRUE(Write(name, 0, "x").ok());
  EXPECT_TRUE(Sync({"a", "d/b", "d/c", "d/e/f", "a"}).ok());
  EXPECT_TRUE(Sync({}).ok());
  EXPECT_EQ(Sync({"a", "nothing", "d/b"}).code(), FsError::kNoEnt);
  h_->Reopen();
  EXPECT_TRUE(Sync({"a", "d/e/f"}).ok());
  EXPECT_EQ(List(""), "a:1 d/b:1 d/c:1 d/e/f:1 ");
}

TEST_P(DiskConformance, WritesAndSyncsInOneGo) {
  const auto write = [&](const std::string& name, uint64_t offset, std::string data) {
    return RunSim(ex_, disk().WriteAndSync(name, offset, BufferChain(Bytes(std::move(data)))));
  };
  for (const auto& [offset, data] : {std::pair<uint64_t, std::string>(0, "hello"), {3, "LO there"}}) {
    const DiskWritten done = write("d/a", offset, data);
    EXPECT_TRUE(done.write.ok() && done.sync.ok());
  }
  EXPECT_EQ(Read("d/a"), "helLO there");
  h_->Reopen();
  EXPECT_EQ(Read("d/a"), "helLO there");
  EXPECT_EQ(write("d", 0, "x").write.code, FsError::kIsDir);
  EXPECT_EQ(write("../a", 0, "x").write.code, FsError::kBadRequest);
  EXPECT_EQ(List(""), "d/a:11 ");
}

TEST_P(DiskConformance, ReservesWithoutGrowing) {
  ASSERT_TRUE(RunSim(ex_, disk().Reserve("a", 1 << 20)).ok());
  EXPECT_EQ(Read("a"), "");
  ASSERT_TRUE(Write("a", 0, "x").ok());
  EXPECT_EQ(Read("a"), "x");
}

TEST_P(DiskConformance, TellsItsSpace) {
  auto space = RunSim(ex_, disk().Space());
  ASSERT_TRUE(space.ok());
  EXPECT_GT(space->capacity_bytes, 0u);
  EXPECT_LE(space->free_bytes, space->capacity_bytes);
}

TEST_P(DiskConformance, HandsOutReadOnlyDescriptors) {
  ASSERT_TRUE(Write("a", 0, "hello").ok());
  auto fd = disk().OpenForRead("a");
  if (fd.code() == FsError::kNotSupported) return;
  ASSERT_TRUE(fd.ok());
  char text[8] = {};
  EXPECT_EQ(pread(*fd, text, sizeof text, 0), 5);
  EXPECT_STREQ(text, "hello");
  EXPECT_EQ(fcntl(*fd, F_GETFL) & O_ACCMODE, O_RDONLY);
  close(*fd);
  EXPECT_EQ(disk().OpenForRead("nothing").code(), FsError::kNoEnt);
}

TEST_P(DiskConformance, ParallelWritesToOneFile) {
  std::vector<Task<Result<void>>> all;
  for (int i = 0; i < 16; ++i) {
    all.push_back(disk().Write("d/a", static_cast<uint64_t>(i) * 3000,
                               BufferChain(Bytes(std::string(3000, static_cast<char>('a' + i))))));
  }
  for (const auto& r : RunSim(ex_, WhenAll(std::move(all)))) EXPECT_TRUE(r.ok());
  std::string want;
  for (int i = 0; i < 16; ++i) want += std::string(3000, static_cast<char>('a' + i));
  EXPECT_EQ(Read("d/a"), want);
}

TEST_P(DiskConformance, AgreesWithAnOracle) {
  for (uint64_t seed = 1; seed <= 3; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    h_ = GetParam().make();
    Random rng(seed);
    std::map<std::string, std::string> oracle;
    for (int step = 0; step < 400; ++step) {
      const std::string name = (rng.OneIn(2) ? "d/" : "e/f/") + std::to_string(rng.Below(6));
      const bool there = oracle.contains(name);
      switch (rng.Below(9)) {
        case 0:
        case 1:
        case 2: {
          const uint64_t offset = rng.Below(20'000);
          std::string data(rng.Between(1, 9000), static_cast<char>('a' + rng.Below(26)));
          ASSERT_TRUE(Write(name, offset, data).ok());
          std::string& f = oracle[name];
          if (f.size() < offset + data.size()) f.resize(offset + data.size());
          f.replace(offset, data.size(), data);
          break;
        }
        case 3: {
          const uint64_t offset = rng.Below(25'000), length = rng.Below(9000);
          ASSERT_EQ(
              Read(name, offset, length),
              !there ? "(NoEnt)" : (offset < oracle[name].size() ? oracle[name].substr(offset, length) : ""));
          break;
        }
        case 4:
          ASSERT_EQ(RunSim(ex_, disk().Remove(name)).ok(), there);
          oracle.erase(name);
          break;
        case 5: {
          const uint64_t size = rng.Below(25'000);
          ASSERT_EQ(RunSim(ex_, disk().Truncate(name, size)).ok(), there);
          if (there) oracle[name].resize(size);
          break;
        }
        case 6: {
          std::string data(rng.Below(9000), 'R');
          ASSERT_TRUE(RunSim(ex_, disk().ReplaceFile(name, Bytes(data))).ok());
          oracle[name] = data;
          break;
        }
        case 7:
          ASSERT_EQ(Sync({name}).code(), there ? FsError::kOk : FsError::kNoEnt);
          if (rng.OneIn(5)) h_->Reopen();
          break;
        case 8: {
          std::string want;
          for (const auto& [n, data] : oracle) want += n + ":" + std::to_string(data.size()) + " ";
          ASSERT_EQ(List(""), want);
          break;
        }
      }
    }
    for (const auto& [name, data] : oracle) ASSERT_EQ(Read(name), data) << name;
  }
}

}  // namespace stria
