// Two mounts behave as two processes of one machine: what threads on both see of a few files and names, and when,
// is explained by one order of their operations (test/linear).
#include <dirent.h>
#include <sys/file.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "test/fuse/two_mounts.h"
#include "test/linear/models.h"

namespace stria {
namespace {

using linear::Event;
using linear::FileModel;
using linear::Hold;
using linear::NamesModel;

constexpr int kClients = 4;  // threads, half on each mount
constexpr int kRounds = 90;  // operations of each

// Histories of each kind; more with STRIA_LINEAR_SEEDS=100.
uint64_t Seeds(uint64_t usual) {
  const char* wanted = std::getenv("STRIA_LINEAR_SEEDS");
  return wanted ? std::strtoull(wanted, nullptr, 10) : usual;
}

int64_t NowNs() {
  return std::chrono::steady_clock::now().time_since_epoch() / std::chrono::nanoseconds(1);
}

// What all threads did to one object.
template <class Model>
class Recorder {
 public:
  // `fn` carries the operation out and notes its answer; nullopt: it did nothing that counts.
  template <class F>
  void Run(F fn) {
    Event<typename Model::Op> e;
    e.called = NowNs();
    std::optional<typename Model::Op> op = fn();
    e.returned = NowNs();
    if (!op) return;
    e.op = std::move(*op);
    std::lock_guard<std::mutex> lock(mu_);
    history_.push_back(std::move(e));
  }
  std::string Explain(typename Model::State start) { return linear::Explain<Model>(history_, start); }
  // Leaves out what `excused(event, history)` says.
  template <class F>
  void Excuse(F excused) {
    const auto all = history_;
    std::erase_if(history_, [&](const auto& e) { return excused(e, all); });
  }
  size_t size() const { return history_.size(); }

 private:
  std::mutex mu_;
  std::vector<Event<typename Model::Op>> history_;
};

// The kernel's limits (docs/posix.md): while the size of a file is being changed, a page-cached read of one cell may see
// zeros in its place, or the end of the file; and while it is cut on the same mount, the size may be that which is cut
// to, although it has grown again elsewhere.
bool SizeWasChanging(const Event<FileModel::Op>& e, const std::vector<Event<FileModel::Op>>& all) {
  using Kind = FileModel::Op::Kind;
  const bool read = e.op.page_cached && (e.op.values.empty() || e.op.values == std::vector<uint32_t>{0});
  if (!read && e.op.kind != Kind::kSize) return false;
  return std::any_of(all.begin(), all.end(), [&](const Event<FileModel::Op>& o) {
    if (o.called > e.returned || e.called > o.returned + kMillisecond) return false;
    if (!read) return o.op.kind == Kind::kTruncate && o.op.client % 2 == e.op.client % 2;
    return o.op.kind != Kind::kRead && o.op.kind != Kind::kSize;
  });
}

class LinearTest : public TwoMounts {
 protected:
  template <class F>
  void OnAllClients(F work) {
    std::vector<std::thread> threads;
    for (uint32_t c = 0; c < kClients; ++c) {
      threads.emplace_back([this, c, work] { work(c, c % 2 ? b_->path() + dir_ : a_->path() + dir_); });
    }
    for (std::thread& t : threads) t.join();
  }
  void RunFiles(size_t cell_bytes, uint64_t seed);
  void RunRegisters(uint64_t seed);
};

// One thread's use of one file. Cells are of `cell_bytes`, filled with one value.
class FileClient {
 public:
  FileClient(Recorder<FileModel>* recorder, std::string path, uint32_t client, size_t cell_bytes, uint64_t seed)
      : recorder_(recorder), path_(std::move(path)), client_(client), cell_(cell_bytes), rng_(seed) {}

  void Step() {
    // Now and then all is closed: leases come and go.
    if (rng_.OneIn(4)) kept_.reset();
    switch (rng_.Below(10)) {
      case 0:
      case 1:
      case 2: return Read(rng_.OneIn(3));
      case 3:
      case 4:
      case 5: return Write();
      case 6: return Append();
      case 7: return Truncate();
      default: return Size();
    }
  }

 private:
  using Op = FileModel::Op;

  int Handle() {
    if (!kept_) kept_.emplace(path_, O_RDWR);
    return *kept_;
  }
  Op NewOp(Op::Kind kind) const {
    Op op;
    op.kind = kind;
    op.client = client_;
    return op;
  }
  // A cell that is not of one value is no value that anybody wrote.
  uint32_t ValueOf(const char* cell) const {
    uint32_t first;
    memcpy(&first, cell, sizeof(first));
    for (size_t i = 0; i < cell_; i += sizeof(first)) {
      if (memcmp(cell + i, &first, sizeof(first)) != 0) return UINT32_MAX;
    }
    return first;
  }
  std::string Fill(const std::vector<uint32_t>& values) const {
    std::string out;
    for (uint32_t v : values) {
      for (size_t i = 0; i < cell_; i += sizeof(v)) out.append(reinterpret_cast<const char*>(&v), sizeof(v));
    }
    return out;
  }
  std::vector<uint32_t> NewValues(size_t n) {
    std::vector<uint32_t> out(n);
    for (uint32_t& v : out) v = (client_ + 1) * 100'000 + ++written_;
    return out;
  }

  // `fresh`: by a file opened for reading only, whose pages the kernel may keep; then one cell of one page.
  void Read(bool fresh) {
    if (fresh && cell_ > 4096) fresh = false;
    Op op = NewOp(Op::Kind::kRead);
    op.at = rng_.Below(4);
    op.count = fresh ? 1 : rng_.Between(1, 4);
    op.page_cached = fresh;
    std::optional<Fd> reader;
    if (fresh) reader.emplace(path_, O_RDONLY);
    const int fd = fresh ? static_cast<int>(*reader) : Handle();
    recorder_->Run([&]() -> std::optional<Op> {
      std::string got(op.count * cell_, '\0');
      const ssize_t n = pread(fd, got.data(), got.size(), static_cast<off_t>(op.at * cell_));
      EXPECT_GE(n, 0) << strerror(errno);
      if (n < 0) return std::nullopt;
      EXPECT_EQ(static_cast<size_t>(n) % cell_, 0u) << "a part of a cell";
      for (size_t i = 0; (i + 1) * cell_ <= static_cast<size_t>(n); ++i) op.values.push_back(ValueOf(&got[i * cell_]));
      return op;
    });
  }
  void Write() {
    Op op = NewOp(Op::Kind::kWrite);
    op.at = rng_.Below(4);
    op.values = NewValues(rng_.Between(1, 3));
    const std::string bytes = Fill(op.values);
    const int fd = Handle();
    recorder_->Run([&]() -> std::optional<Op> {
      EXPECT_EQ(pwrite(fd, bytes.data(), bytes.size(), static_cast<off_t>(op.at * cell_)),
                static_cast<ssize_t>(bytes.size())) << strerror(errno);
      return op;
    });
  }
  void Append() {
    Op op = NewOp(Op::Kind::kAppend);
    op.values = NewValues(rng_.Between(1, 2));
    const std::string bytes = Fill(op.values);
    Fd fd(path_, O_WRONLY | O_APPEND);
    recorder_->Run([&]() -> std::optional<Op> {
      EXPECT_EQ(write(fd, bytes.data(), bytes.size()), static_cast<ssize_t>(bytes.size())) << strerror(errno);
      return op;
    });
  }
  void Truncate() {
    Op op = NewOp(Op::Kind::kTruncate);
    op.size = rng_.Below(5);
    const bool by_name = rng_.OneIn(2);
    const bool by_open = op.size == 0 && by_name;
    const int fd = by_name ? -1 : Handle();
    recorder_->Run([&]() -> std::optional<Op> {
      const auto size = static_cast<off_t>(op.size * cell_);
      if (by_open) {
        EXPECT_GE(Fd(path_, O_WRONLY | O_TRUNC), 0) << strerror(errno);
        return op;
      }
      EXPECT_EQ(by_name ? truncate(path_.c_str(), size) : ftruncate(fd, size), 0) << strerror(errno);
      return op;
    });
  }
  void Size() {
    Op op = NewOp(Op::Kind::kSize);
    const bool by_name = rng_.OneIn(2);
    const int fd = by_name ? -1 : Handle();
    recorder_->Run([&]() -> std::optional<Op> {
      struct stat st = {};
      EXPECT_EQ(by_name ? stat(path_.c_str(), &st) : fstat(fd, &st), 0) << strerror(errno);
      EXPECT_EQ(static_cast<size_t>(st.st_size) % cell_, 0u);
      op.size = static_cast<size_t>(st.st_size) / cell_;
      return op;
    });
  }

  Recorder<FileModel>* const recorder_;
  const std::string path_;
  const uint32_t client_;
  const size_t cell_;
  Random rng_;
  uint32_t written_ = 0;
  std::optional<Fd> kept_;
};

void LinearTest::RunFiles(size_t cell_bytes, uint64_t seed) {
  SCOPED_TRACE("cells of " + std::to_string(cell_bytes) + " bytes, seed " + std::to_string(seed));
  Recorder<FileModel> recorders[2];
  const std::string names[2] = {"x" + std::to_string(seed), "y" + std::to_string(seed)};
  for (const std::string& n : names) WriteAll(A(n), "");
  OnAllClients([&](uint32_t client, const std::string& dir) {
    Random rng(seed * 100 + client);
    FileClient x(&recorders[0], dir + "/" + names[0], client, cell_bytes, rng.Next());
    FileClient y(&recorders[1], dir + "/" + names[1], client, cell_bytes, rng.Next());
    for (int i = 0; i < kRounds; ++i) (rng.OneIn(3) ? y : x).Step();
  });
  for (Recorder<FileModel>& r : recorders) {
    const size_t all = r.size();
    r.Excuse(SizeWasChanging);
    EXPECT_GT(r.size(), all * 3 / 4) << "that many cannot have been unlucky";
    EXPECT_EQ(r.Explain({}), "");
  }
}

// A file of a fixed size. On each mount one program has it open only to read, often since before anybody wrote, so that it reads
// the kernel's pages; and others come to write and go again, in every way to open it. No excuses.
void LinearTest::RunRegisters(uint64_t seed) {
  SCOPED_TRACE("registers, seed " + std::to_string(seed));
  constexpr size_t kCell = 64, kCells = 4;
  constexpr int kSteps = 250;
  using Op = FileModel::Op;
  Recorder<FileModel> recorder;
  const std::string name = "r" + std::to_string(seed);
  WriteAll(A(name), std::string(kCell * kCells, '\0'));
  const auto read = [&recorder](int fd, uint32_t client, uint64_t at) {
    recorder.Run([&]() -> std::optional<Op> {
      uint32_t value = 0;
      EXPECT_EQ(pread(fd, &value, sizeof(value), static_cast<off_t>(at * kCell)), static_cast<ssize_t>(sizeof(value)));
      Op op;
      op.kind = Op::Kind::kRead;
      op.client = client;
      op.at = at;
      op.count = 1;
      op.values = {value};
      return op;
    });
  };
  OnAllClients([&](uint32_t client, const std::string& dir) {
    const std::string path = dir + "/" + name;
    Random rng(seed * 100 + client);
    uint32_t written = 0;
    std::optional<Fd> kept;
    for (int i = 0; i < kSteps; ++i) {
      if (client < 2) {
        if (!kept || rng.OneIn(40)) kept.emplace(path, O_RDONLY);
        read(*kept, client, rng.Below(kCells));
        continue;
      }
      if (rng.OneIn(3)) usleep(static_cast<useconds_t>(rng.Below(3000)));
      const uint64_t way = rng.Below(3);
      Fd fd(path, way == 0 ? O_WRONLY : way == 1 ? O_RDWR : O_RDONLY | O_DIRECT);
      for (uint64_t n = rng.Between(1, 3); n > 0; --n) {
        const uint64_t at = rng.Below(kCells);
        if (way == 2 || (way == 1 && rng.OneIn(2))) {
          read(fd, client, at);
          continue;
        }
        recorder.Run([&]() -> std::optional<Op> {
          Op op;
          op.kind = Op::Kind::kWrite;
          op.client = client;
          op.at = at;
          op.values = {(client + 1) * 100'000 + ++written};
          EXPECT_EQ(pwrite(fd, op.values.data(), sizeof(uint32_t), static_cast<off_t>(at * kCell)),
                    static_cast<ssize_t>(sizeof(uint32_t)));
          return op;
        });
      }
    }
  });
  FileModel::State start;
  start.cells.assign(kCells, 0);
  EXPECT_EQ(recorder.Explain(start), "");
}

TEST_F(LinearTest, RegistersReadThroughPages) {
  for (uint64_t i = 0; i < Seeds(4); ++i) RunRegisters(1 + i);
}

TEST_F(LinearTest, FilesOfInlineBytes) {
  for (uint64_t i = 0; i < Seeds(3); ++i) RunFiles(64, 1 + i);
}

TEST_F(LinearTest, FilesOfStripes) {
  for (uint64_t i = 0; i < Seeds(2); ++i) RunFiles(80 << 10, 1'000'001 + i);
}

TEST_F(LinearTest, Names) {
  using Op = NamesModel::Op;
  // Not kLink: link(2) looks the file up by its name first, which is another moment.
  constexpr Op::Kind kKinds[] = {Op::Kind::kLookup, Op::Kind::kCreate, Op::Kind::kUnlink, Op::Kind::kRename,
                                 Op::Kind::kList};
  Recorder<NamesModel> recorder;
  OnAllClients([&](uint32_t client, const std::string& dir) {
    Random rng(client + 1);
    for (int i = 0; i < kRounds; ++i) {
      Op op;
      op.client = client;
      op.kind = kKinds[rng.Below(std::size(kKinds))];
      op.name = std::string(1, static_cast<char>('a' + rng.Below(3)));
      do op.to = std::string(1, static_cast<char>('a' + rng.Below(3)));
      while (op.to == op.name);
      const std::string path = dir + "/" + op.name;
      recorder.Run([&]() -> std::optional<Op> {
        struct stat st = {};
        switch (op.kind) {
          case Op::Kind::kLookup:
            op.error = stat(path.c_str(), &st) == 0 ? 0 : errno;
            op.file = st.st_ino;
            return op;
          case Op::Kind::kCreate: {
            Fd fd(path, O_RDWR | O_CREAT | O_EXCL);
            op.error = fd >= 0 ? 0 : errno;
            if (fd >= 0) EXPECT_EQ(fstat(fd, &st), 0);
            op.file = st.st_ino;
            return op;
          }
          case Op::Kind::kUnlink:
            op.error = unlink(path.c_str()) == 0 ? 0 : errno;
            return op;
          case Op::Kind::kRename:
            op.error = rename(path.c_str(), (dir + "/" + op.to).c_str()) == 0 ? 0 : errno;
            return op;
          case Op::Kind::kLink: break;
          case Op::Kind::kList: {
            DIR* d = opendir(dir.c_str());
            EXPECT_NE(d, nullptr);
            if (!d) return std::nullopt;
            while (const dirent* e = readdir(d)) {
              if (e->d_name[0] != '.') op.names.push_back(e->d_name);
            }
            closedir(d);
            std::sort(op.names.begin(), op.names.end());
            return op;
          }
        }
        return std::nullopt;
      });
    }
  });
  EXPECT_EQ(recorder.size(), size_t{kClients} * kRounds);
  EXPECT_EQ(recorder.Explain({}), "");
}

TEST_F(LinearTest, LocksExclude) {
  WriteAll(A("f"), "x");
  std::mutex mu;
  std::vector<Hold> ranges, files;
  OnAllClients([&](uint32_t client, const std::string& dir) {
    Random rng(client + 1);
    Fd fd(dir + "/f", O_RDWR);
    for (int i = 0; i < kRounds / 2; ++i) {
      const bool whole = rng.OneIn(3), wait = rng.OneIn(2);
      Hold h;
      h.client = client;
      h.exclusive = rng.OneIn(2);
      h.first = whole ? 0 : rng.Below(4);
      h.last = whole ? 3 : rng.Between(h.first, 3);
      int got;
      struct flock l = {};
      l.l_whence = SEEK_SET;
      l.l_start = static_cast<off_t>(h.first);
      l.l_len = static_cast<off_t>(h.last - h.first + 1);
      if (whole) {
        got = flock(fd, (h.exclusive ? LOCK_EX : LOCK_SH) | (wait ? 0 : LOCK_NB));
      } else {
        l.l_type = h.exclusive ? F_WRLCK : F_RDLCK;
        got = fcntl(fd, wait ? F_OFD_SETLKW : F_OFD_SETLK, &l);
      }
      if (got != 0) {
        EXPECT_TRUE(errno == EAGAIN && !wait) << strerror(errno);
        continue;
      }
      h.from = NowNs();
      std::this_thread::yield();
      h.to = NowNs();
      l.l_type = F_UNLCK;
      EXPECT_EQ(whole ? flock(fd, LOCK_UN) : fcntl(fd, F_OFD_SETLK, &l), 0) << strerror(errno);
      std::lock_guard<std::mutex> lock(mu);
      (whole ? files : ranges).push_back(h);
    }
  });
  EXPECT_GT(ranges.size(), size_t{kRounds} / 2);
  EXPECT_EQ(linear::CheckExclusion(ranges), "");
  EXPECT_EQ(linear::CheckExclusion(files), "");
}

// ---- What cost other filesystems data

TEST_F(LinearTest, DisjointWritesOfOneFileAreAllThere) {
  constexpr size_t kBlock = 5000, kBlocks = 60;
  WriteAll(A("f"), "");
  OnAllClients([&](uint32_t client, const std::string& dir) {
    Fd fd(dir + "/f", O_WRONLY);
    for (size_t i = client; i < kBlocks; i += kClients) {
      const std::string bytes = RandomBytes(i, kBlock);
      EXPECT_EQ(pwrite(fd, bytes.data(), kBlock, static_cast<off_t>(i * kBlock)), static_cast<ssize_t>(kBlock));
    }
    EXPECT_EQ(fd.Close(), 0);
  });
  std::string all;
  for (size_t i = 0; i < kBlocks; ++i) all += RandomBytes(i, kBlock);
  EXPECT_TRUE(ReadAll(A("f")) == all);
  EXPECT_TRUE(ReadAll(B("f")) == all);
}

TEST_F(LinearTest, BufferedBytesDoNotComeBackAfterATruncation) {
  for (const size_t bytes : {size_t{100}, size_t{300} << 10}) {
    WriteAll(A("f"), std::string(bytes, 'o'));
    Fd a(A("f"), O_RDWR);
    ASSERT_EQ(pwrite(a, std::string(bytes, 'n').data(), bytes, 0), static_cast<ssize_t>(bytes));  // in the buffer
    ASSERT_EQ(truncate(B("f").c_str(), 10), 0);
    ASSERT_EQ(truncate(B("f").c_str(), static_cast<off_t>(bytes)), 0);
    EXPECT_EQ(fsync(a), 0);
    EXPECT_EQ(ReadAll(B("f")), std::string(10, 'n') + std::string(bytes - 10, '\0'));
    EXPECT_EQ(Stat(A("f")).st_size, static_cast<off_t>(bytes));
  }
}

// Sizes agree, negative entries and listings go when the other mount makes something: at once, not after a while.
TEST_F(LinearTest, TheOtherMountKnowsAtOnce) {
  for (int i = 0; i < 20; ++i) {
    const std::string name = "n" + std::to_string(i);
    EXPECT_EQ(access(B(name).c_str(), F_OK), -1);
    Fd a(A(name), O_RDWR | O_CREAT | O_EXCL);
    ASSERT_EQ(access(B(name).c_str(), F_OK), 0) << strerror(errno);
    ASSERT_EQ(write(a, "12345", 5), 5);  // buffered
    EXPECT_EQ(Stat(B(name)).st_size, 5);
    ASSERT_EQ(write(a, "678", 3), 3);
    EXPECT_EQ(Stat(B(name)).st_size, 8);
    EXPECT_EQ(Stat(A(name)).st_mtim.tv_nsec, Stat(B(name)).st_mtim.tv_nsec);
    ASSERT_EQ(chmod(B(name).c_str(), 0600), 0);
    EXPECT_EQ(Stat(A(name)).st_mode & 07777, 0600u);
    ASSERT_EQ(rename(B(name).c_str(), (B(name) + "m").c_str()), 0);
    EXPECT_EQ(access(A(name).c_str(), F_OK), -1);
    EXPECT_EQ(Stat(A(name) + "m").st_size, 8);
  }
}

}  // namespace
}  // namespace stria
