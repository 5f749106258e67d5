#include "server/smart.h"

#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <nlohmann/json.hpp>
#include <set>
#include <thread>
#include <utility>

namespace stria {
namespace {

using Json = nlohmann::json;
namespace fs = std::filesystem;

constexpr size_t kMaxJsonBytes = 1 << 20;
constexpr int kMaxDepth = 8;  // of devices that lie on devices

// The number at this place, 0 if there is none.
uint64_t NumberAt(const Json& j, const char* pointer) {
  const Json::json_pointer at(pointer);
  if (!j.contains(at)) return 0;
  const Json& v = j[at];
  return v.is_number_unsigned() ? v.get<uint64_t>() : 0;
}
std::string TextAt(const Json& j, const char* pointer) {
  const Json::json_pointer at(pointer);
  return j.contains(at) && j[at].is_string() ? j[at].get<std::string>() : "";
}

void ReadAttributes(const Json& j, DiskSmart* out) {
  const Json::json_pointer at("/ata_smart_attributes/table");
  if (!j.contains(at) || !j[at].is_array()) return;
  for (const Json& a : j[at]) {
    const uint64_t id = NumberAt(a, "/id"), raw = NumberAt(a, "/raw/value");
    if (id == 5) out->reallocated = raw;
    if (id == 197) out->pending = raw;
    const Json::json_pointer prefailure("/flags/prefailure");
    const bool counts = a.contains(prefailure) && a[prefailure].is_boolean() && a[prefailure].get<bool>();
    if (counts && TextAt(a, "/when_failed") == "now") {
      out->health = SmartHealth::kFailing;
      out->problem = "its attribute " + TextAt(a, "/name") + " is below the threshold of its maker";
    }
  }
}

void ReadNvme(const Json& j, DiskSmart* out) {
  const Json::json_pointer at("/nvme_smart_health_information_log");
  if (!j.contains(at) || !j[at].is_object()) return;
  const Json& log = j[at];
  if (out->power_on_hours == 0) out->power_on_hours = NumberAt(log, "/power_on_hours");
  const uint64_t warning = NumberAt(log, "/critical_warning");
  std::string why;
  if (warning & 1) why = "its spare blocks are used up (" + std::to_string(NumberAt(log, "/available_spare")) + " % are left)";
  if (warning & 4) why = "it says that it is not reliable any more";
  if (warning & 8) why = "it can only be read any more";
  if (why.empty()) return;
  out->health = SmartHealth::kFailing;
  out->problem = why;
}

std::string ReadSmallFile(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  std::string out;
  char piece[4096];
  while (out.size() < kMaxJsonBytes && in.read(piece, sizeof piece).gcount() > 0) out.append(piece, static_cast<size_t>(in.gcount()));
  return out;
}

void AddDevices(const fs::path& device, const std::string& sys, int depth, std::set<std::string>* out);

void AddNumber(dev_t number, const std::string& sys, int depth, std::set<std::string>* out) {
  std::error_code error;
  const fs::path device = fs::canonical(fs::path(sys) / "dev/block" / (std::to_string(major(number)) + ":" + std::to_string(minor(number))), error);
  if (!error) AddDevices(device, sys, depth, out);
}

// A directory of /sys.
void AddDevices(const fs::path& device, const std::string& sys, int depth, std::set<std::string>* out) {
  if (depth > kMaxDepth) return;
  std::error_code error;
  if (fs::exists(device / "partition", error)) return AddDevices(device.parent_path(), sys, depth + 1, out);
  if (fs::exists(device / "loop/backing_file", error)) {
    std::string file = ReadSmallFile(device / "loop/backing_file");
    while (!file.empty() && file.back() == '\n') file.pop_back();
    struct stat st {};
    if (::stat(file.c_str(), &st) == 0) AddNumber(st.st_dev, sys, depth + 1, out);
    return;
  }
  bool slaves = false;
  for (fs::directory_iterator it(device / "slaves", error), end; !error && it != end; it.increment(error)) {
    const fs::path slave = fs::canonical(it->path(), error);
    if (error) break;
    slaves = true;
    AddDevices(slave, sys, depth + 1, out);
  }
  if (!slaves) out->insert(device.filename().string());
}

}  // namespace

Result<DiskSmart> ParseSmart(const std::string& device, std::string_view json) {
  const Json j = Json::parse(json, nullptr, false);
  if (!j.is_object() || !j.contains("smartctl")) return Error(FsError::kBadRequest, "it is no output of smartctl --json");
  DiskSmart out;
  out.device = device;
  out.model = TextAt(j, "/model_name");
  if (out.model.empty()) out.model = TextAt(j, "/scsi_model_name");
  out.serial = TextAt(j, "/serial_number");
  out.power_on_hours = NumberAt(j, "/power_on_time/hours");
  out.temperature_c = static_cast<uint32_t>(std::min<uint64_t>(NumberAt(j, "/temperature/current"), 1000));
  out.reallocated = NumberAt(j, "/scsi_grown_defect_list");
  const Json::json_pointer passed("/smart_status/passed");
  if (j.contains(passed) && j[passed].is_boolean()) {
    out.health = j[passed].get<bool>() ? SmartHealth::kGood : SmartHealth::kFailing;
    if (out.health == SmartHealth::kFailing) out.problem = "its own assessment of its health has failed";
  }
  ReadAttributes(j, &out);
  ReadNvme(j, &out);
  return out;
}

DiskSmart WorstOf(const std::vector<DiskSmart>& all) {
  const auto of = [&](SmartHealth h) { return std::ranges::find(all, h, &DiskSmart::health); };
  for (const SmartHealth h : {SmartHealth::kFailing, SmartHealth::kGood}) {
    if (const auto it = of(h); it != all.end()) return *it;
  }
  return all.empty() ? DiskSmart() : all.front();
}

std::vector<std::string> DevicesBelow(dev_t number, const std::string& sys) {
  std::set<std::string> out;
  if (major(number) != 0) AddNumber(number, sys, 0, &out);
  return {out.begin(), out.end()};
}

DiskSmart LookAtSmart(const std::string& path, const SmartOptions& options) {
  struct stat st {};
  if (options.directory.empty() || ::stat(path.c_str(), &st) != 0) return {};
  std::vector<DiskSmart> all;
  for (const std::string& device : DevicesBelow(st.st_dev, options.sys)) {
    const std::string file = options.directory + "/" + device + ".json";
    struct stat of_file {};
    if (::stat(file.c_str(), &of_file) != 0) continue;
    const int64_t age_ns = std::chrono::nanoseconds(std::chrono::system_clock::now().time_since_epoch()).count() - of_file.st_mtim.tv_sec * kSecond;
    if (age_ns > options.old_ns) continue;
    if (Result<DiskSmart> smart = ParseSmart(device, ReadSmallFile(file)); smart.ok()) all.push_back(std::move(*smart));
  }
  return WorstOf(all);
}

struct SmartWatch::State {
  std::mutex mu;
  std::condition_variable cv;
  // All guarded by mu.
  bool stop = false;
  bool more = false;  // paths, since the last round
  std::vector<std::string> paths;
  std::vector<DiskSmart> known;  // by path
};

SmartWatch::SmartWatch(std::vector<std::string> paths, SmartOptions options) : state_(std::make_shared<State>()) {
  state_->known.resize(paths.size());
  state_->paths = std::move(paths);
  if (options.directory.empty()) return;
  std::thread([state = state_, options = std::move(options)] {
    std::unique_lock lock(state->mu);
    while (!state->stop) {
      state->more = false;
      for (size_t i = 0; i < state->paths.size(); ++i) {
        const std::string path = state->paths[i];
        lock.unlock();
        DiskSmart smart = LookAtSmart(path, options);
        lock.lock();
        if (state->stop) return;
        state->known[i] = std::move(smart);
      }
      state->cv.wait_for(lock, std::chrono::nanoseconds(options.period_ns), [&] { return state->stop || state->more; });
    }
  }).detach();
}

void SmartWatch::Add(std::string path) {
  const std::lock_guard lock(state_->mu);
  state_->paths.push_back(std::move(path));
  state_->known.emplace_back();
  state_->more = true;
  state_->cv.notify_all();
}

SmartWatch::~SmartWatch() {
  const std::lock_guard lock(state_->mu);
  state_->stop = true;
  state_->cv.notify_all();
}

DiskSmart SmartWatch::Of(size_t i) const {
  const std::lock_guard lock(state_->mu);
  return i < state_->known.size() ? state_->known[i] : DiskSmart();
}

}  // namespace stria
