// Records that several clients append to one file (O_APPEND), of some bytes up to more than a stripe's share of
// inline bytes. (Disjoint ranges of one file are values of watched.cc.)
//
// Invariants:
//  - Each record is in the file as a whole, at most once, after all earlier ones of its writer.
//  - What was answered is there for everybody who looks later, as long as its writer's session lives; what was
//    synced is always there.
//  - If a record is there, so is all that its writer was answered before.
//  - Only of a record whose writer's session was lost before the answer, or whose answer was an error, a front part
//    may be all that is there.
//
// Oracle: all records by writer and number; the bytes follow from these. A writer is one opened file.
#include <algorithm>
#include <cstring>
#include <map>

#include "test/sim/file_model.h"
#include "test/sim/root_caller.h"
#include "test/sim/work.h"

namespace stria {
namespace {

constexpr uint64_t kMagic = 0x7374726961617070;
constexpr size_t kWritersPerClient = 2;
constexpr size_t kLong = 60;  // records of a file; then comes the next

struct Header {
  uint64_t magic = kMagic;
  uint64_t writer = 0;
  uint64_t number = 0;
  uint64_t length = 0;  // with this
};

class AppendWork final : public SimWork {
 public:
  using SimWork::SimWork;
  void Start(size_t client, uint64_t seed) override;
  Task<void> FinalChecks() override;

 private:
  struct Record {
    uint64_t length = 0;
    bool answered = false;
    bool failed = false;
    bool durable = false;
  };
  struct Writer {
    Who who;
    std::vector<Record> records;
  };
  struct Log {
    std::string name;
    InodeId ino;
    size_t begun = 0;
    std::map<uint64_t, Writer> writers;  // by number
  };
  using LogPtr = std::shared_ptr<Log>;
  // How many records of each writer must be there.
  using Floor = std::map<uint64_t, size_t>;

  Task<void> Appender(size_t client, uint64_t seed);
  Task<void> NextLog(size_t client);
  Task<void> Session(size_t client, LogPtr log, Random& rng);
  Task<void> Reader(size_t client, uint64_t seed);
  Task<Result<void>> Look(size_t client, LogPtr log);
  Floor FloorOf(const Log& log);
  Floor LeastOf(const Log& log, const Floor& before);
  static std::string RecordBytes(uint64_t writer, uint64_t number, uint64_t length);
  std::string Parse(const Log& log, const std::string& content, std::map<uint64_t, std::vector<uint64_t>>* found);
  uint64_t LeftOver(const Log& log, const std::string& content, uint64_t at);
  void Check(const Log& log, const std::string& content, const Floor& least, const std::string& who);

  std::vector<LogPtr> logs_;
  uint64_t next_name_ = 0;
  uint64_t next_writer_ = 1;
};

void AppendWork::Start(size_t client, uint64_t seed) {
  for (size_t i = 0; i < kWritersPerClient; ++i) Spawn(client, Appender(client, seed + i));
  Spawn(client, Reader(client, seed + kWritersPerClient));
}

std::string AppendWork::RecordBytes(uint64_t writer, uint64_t number, uint64_t length) {
  Random rng(writer * 100'003 + number);
  std::string bytes = PatternBytes(rng, length);
  const Header h{kMagic, writer, number, length};
  std::memcpy(bytes.data(), &h, sizeof h);
  return bytes;
}

Task<void> AppendWork::Appender(size_t client, uint64_t seed) {
  Random rng(seed);
  while (!stopping()) {
    co_await Sleep(static_cast<int64_t>(rng.Below(500 * kMillisecond)));
    if (logs_.empty() || logs_.back()->begun >= kLong) co_await NextLog(client);
    else co_await Session(client, logs_.back(), rng);
  }
}

Task<void> AppendWork::NextLog(size_t client) {
  const std::string name = "a" + std::to_string(next_name_);
  ++next_name_;
  auto made = co_await vfs(client).MakeNode(kRoot, kRootInode, name, FileType::kFile, 0644, 0, "");
  if (!made.ok() || !(co_await vfs(client).SyncDir(kRoot, kRootInode)).ok()) co_return;
  if (!logs_.empty() && logs_.back()->begun < kLong) co_return;  // somebody else was faster
  logs_.push_back(std::make_shared<Log>());
  logs_.back()->name = name;
  logs_.back()->ino = made->attr.ino;
}

Task<void> AppendWork::Session(size_t client, LogPtr log, Random& rng) {
  auto opened = co_await vfs(client).Open(kRoot, log->ino, false, Flags(true, true));
  if (!opened.ok()) co_return;
  const VfsHandlePtr h = opened->handle;
  const uint64_t writer = next_writer_++;
  Writer& w = log->writers[writer];
  w.who = Me(client);
  w.who.generation = h->generation;
  for (uint64_t n = 1 + rng.Below(6); n > 0 && !stopping(); --n) {
    const uint64_t number = w.records.size();
    Record record;
    record.length = sizeof(Header) + rng.Below(rng.OneIn(6) ? 110 * kKiB : rng.OneIn(3) ? 9000 : 200);
    w.records.push_back(record);
    ++log->begun;
    StrikeClient(client);
    auto done = co_await vfs(client).Write(kRoot, h, 0, Buffer::FromString(RecordBytes(writer, number, record.length)));
    Trace(log->name + " append of " + std::to_string(writer) + "." + std::to_string(number) + ", " +
          std::to_string(record.length) + " bytes: " + done.error().ToString());
    Count(done.ok() ? "appends" : "failed appends");
    w.records[number].answered = done.ok();
    w.records[number].failed = !done.ok();
    if (!done.ok()) break;
    if (rng.OneIn(3)) {
      auto synced = co_await vfs(client).Fsync(kRoot, h);
      Trace(log->name + " fsync by " + std::to_string(writer) + ": " + synced.error().ToString());
      if (!synced.ok()) break;
      for (Record& r : w.records) r.durable = r.answered;
      Strike();
    }
    if (rng.OneIn(2)) co_await Sleep(static_cast<int64_t>(rng.Below(300 * kMillisecond)));
  }
  (void)co_await vfs(client).Release(kRoot, h);
}

AppendWork::Floor AppendWork::FloorOf(const Log& log) {
  Floor floor;
  for (const auto& [number, w] : log.writers) {
    const bool keeps = Keeps(w.who);
    size_t n = 0;
    for (size_t i = 0; i < w.records.size(); ++i) {
      if (w.records[i].durable || (keeps && w.records[i].answered)) n = i + 1;
    }
    floor[number] = n;
  }
  return floor;
}

// Of what had to be there when a look began, what still has to be when it has ended.
AppendWork::Floor AppendWork::LeastOf(const Log& log, const Floor& before) {
  const Floor now = FloorOf(log);
  Floor least;
  for (const auto& [number, n] : before) least[number] = std::min(n, now.at(number));
  return least;
}

// The length of the front part of a record that lies at `at`, followed by another record or the end; 0: none may.
uint64_t AppendWork::LeftOver(const Log& log, const std::string& content, uint64_t at) {
  for (const auto& [number, w] : log.writers) {
    for (size_t i = 0; i < w.records.size(); ++i) {
      if (w.records[i].durable || (Keeps(w.who) && !w.records[i].failed)) continue;
      const std::string bytes = RecordBytes(number, i, w.records[i].length);
      uint64_t same = 0;
      while (same < bytes.size() && at + same < content.size() && content[at + same] == bytes[same]) ++same;
      if (same == bytes.size() || same == 0) continue;
      const size_t next = std::min<size_t>(sizeof kMagic, content.size() - at - same);
      if (std::memcmp(content.data() + at + same, &kMagic, next) == 0) return same;
    }
  }
  return 0;
}

// "" and the records by writer; or what is wrong.
std::string AppendWork::Parse(const Log& log, const std::string& content,
                              std::map<uint64_t, std::vector<uint64_t>>* found) {
  uint64_t at = 0;
  while (at < content.size()) {
    const std::string where = " at " + std::to_string(at) + " of " + std::to_string(content.size()) + " bytes";
    Header h;
    h.magic = 0;
    if (content.size() - at >= sizeof h) std::memcpy(&h, content.data() + at, sizeof h);
    auto w = log.writers.find(h.writer);
    const bool known = h.magic == kMagic && w != log.writers.end() && h.number < w->second.records.size() &&
                       w->second.records[h.number].length == h.length;
    const std::string want = known ? RecordBytes(h.writer, h.number, h.length) : "";
    if (known && content.compare(at, want.size(), want) == 0) {
      std::vector<uint64_t>& of = (*found)[h.writer];
      const std::string record = std::to_string(h.writer) + "." + std::to_string(h.number) + where;
      if (!of.empty() && of.back() >= h.number) return "record " + record + " is there twice or after a later one";
      of.push_back(h.number);
      at += want.size();
      continue;
    }
    const uint64_t part = LeftOver(log, content, at);
    if (part == 0) {
      return known ? "record " + std::to_string(h.writer) + "." + std::to_string(h.number) + where + " is not whole: " +
                         FirstDifference(want, content.substr(at, want.size()))
                   : "no record is" + where;
    }
    Count("appended parts of records");
    at += part;
  }
  return "";
}

void AppendWork::Check(const Log& log, const std::string& content, const Floor& least, const std::string& who) {
  std::map<uint64_t, std::vector<uint64_t>> found;
  const std::string wrong = Parse(log, content, &found);
  if (!wrong.empty()) return Fail(who + " reads " + log.name + ": " + wrong);
  for (const auto& [number, w] : log.writers) {
    const std::vector<uint64_t>& there = found[number];
    uint64_t end = there.empty() ? 0 : there.back() + 1;
    if (auto l = least.find(number); l != least.end()) end = std::max<uint64_t>(end, l->second);
    for (uint64_t i = 0; i < end; ++i) {
      if (!w.records[i].answered || std::binary_search(there.begin(), there.end(), i)) continue;
      return Fail(who + " reads " + log.name + ", " + std::to_string(content.size()) + " bytes: record " +
                  std::to_string(number) + "." + std::to_string(i) + " is not there" +
                  (w.records[i].durable ? " and was synced" : ""));
    }
  }
}

Task<void> AppendWork::Reader(size_t client, uint64_t seed) {
  Random rng(seed);
  while (!stopping()) {
    co_await Sleep(static_cast<int64_t>(rng.Below(1500 * kMillisecond)));
    if (logs_.empty()) continue;
    (void)co_await Look(client, rng.OneIn(6) ? logs_[rng.Below(logs_.size())] : logs_.back());
  }
}

Task<Result<void>> AppendWork::Look(size_t client, LogPtr log) {
  const Floor floor = FloorOf(*log);
  auto opened = co_await vfs(client).Open(kRoot, log->ino, false, Flags(false));
  if (!opened.ok()) co_return opened.error();
  auto content = co_await ReadAll(client, opened->handle);
  (void)co_await vfs(client).Release(kRoot, opened->handle);
  if (!content.ok()) co_return content.error();
  Trace(log->name + " look by " + Name(client) + ": " + std::to_string(content->size()) + " bytes");
  Count("looks at appended files");
  Check(*log, *content, LeastOf(*log, floor), Name(client));
  co_return Ok();
}

Task<void> AppendWork::FinalChecks() {
  for (const LogPtr& log : logs_) {
    for (size_t c = 0; c < clients(); ++c) {
      const auto seen = co_await Look(c, log);
      if (!seen.ok()) Fail("final read of " + log->name + " by " + Name(c) + ": " + seen.error().ToString());
    }
  }
}

}  // namespace

std::unique_ptr<SimWork> MakeAppendWork(SimWorld* world) { return std::make_unique<AppendWork>(world); }

}  // namespace stria
