#include "test/hostile/campaign.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

#include "common/exec/sim_run.h"
#include "common/exec/task.h"
#include "common/sanitized.h"
#include "test/hostile/attacker.h"
#include "test/hostile/hostile_world.h"

namespace stria {
namespace {

constexpr int64_t kPatienceNs = 3 * kSecond;  // for an answer; a handler that waits longer goes on waiting
constexpr uint64_t kWavesPerRenewal = 4;
constexpr uint64_t kWavesPerBounds = 50;
constexpr uint64_t kWavesPerSession = 400;
constexpr int64_t kQuietNs = 400 * kSecond;  // more than any call may wait
constexpr uint64_t kWarmUp = 4'000;          // requests, after which memory is measured
constexpr uint64_t kSpareBytes = 192 * kMiB;
constexpr uint64_t kBytesPerStoredByte = 6;  // the store is in this process: tables, logs, what is not synced yet
constexpr size_t kShownBytes = 160;

// Of sanitizers: they keep what was freed.
constexpr bool kMemoryIsOurs = !kSanitized;

std::string Shown(const std::string& bytes) {
  std::string out = HexBytes(bytes.substr(0, kShownBytes));
  return bytes.size() > kShownBytes ? out + ".." : out;
}

class Campaign {
 public:
  explicit Campaign(const CampaignPlan& plan)
      : plan_(plan), world_(plan.seed, plan.as), attacker_(&world_, plan.seed), stub_(world_.to_meta()) {}

  CampaignResult Run(const std::function<void(uint64_t)>& progress) {
    if (HasSessions() && !OpenSession()) Fail("the attacker gets no session of its own, as every client should");
    before_ = Audit();
    for (uint64_t wave = 0; result_.failure.empty() && result_.requests < plan_.requests; ++wave) {
      if (wave % kWavesPerRenewal == 0 && !KeepSession(wave)) break;
      Wave(std::min(plan_.wave, plan_.requests - result_.requests));
      Judge();
      if (result_.failure.empty() && wave % kWavesPerBounds == 0) JudgeRarely();
      if (warm_resident_ == 0 && result_.requests >= kWarmUp) MeasureWarm();
      if (progress) progress(result_.requests);
    }
    if (result_.failure.empty()) End();
    return std::move(result_);
  }

 private:
  void Fail(const std::string& why) {
    if (!result_.failure.empty()) return;
    result_.failure = why;
    for (const Shot& s : wave_) {
      result_.last.push_back(attacker_.MethodOf(s) + (s.mutated ? " (changed bytes) " : " ") + std::to_string(s.bytes.size()) + " bytes " + Shown(s.bytes));
    }
  }

  // ---- Its session ----
  bool HasSessions() const { return plan_.as != Hostile::kNode; }
  bool OpenSession() {
    OpenSessionRequest r;
    if (plan_.as == Hostile::kConfined) r.path = kOwnPath;
    r.header.cluster = world_.strangers().h().cluster;
    r.client_uuid = Uuid{66, 1};
    // Another name each time, and some are long.
    r.client = "mount of the hostile one " + std::to_string(result_.sessions) + std::string(result_.sessions % 3 * 2000, 'x');
    for (int tries = 0; tries < 100; ++tries) {
      const auto reply = RunSim(world_.ex(), stub_.OpenSession(r));
      if (reply.ok()) {
        attacker_.UseSession(reply->session, reply->epoch);
        hostile_.push_back(reply->session);
        ++result_.sessions;
        acked_ = reply->first_event - 1;
        return true;
      }
      // It has as many as it may: they lapse, and are forgotten.
      world_.ex().RunFor(20 * kSecond);
    }
    return false;
  }
  // Renews it, and takes events now and then; opens another one if it is gone, or has been used for long.
  bool KeepSession(uint64_t wave) {
    if (wave % kWavesPerSession == kWavesPerRenewal) {
      const std::vector<std::string> tokens = world_.TokensOfRoot();
      world_.NoteStolen(tokens);
      attacker_.Steal(tokens);
    }
    if (!HasSessions()) return true;
    RenewRequest renew;
    renew.header = attacker_.ValidHeader(false);
    renew.unreachable.assign(wave % 7 == 0 ? 65'536 : wave % 13, NodeId(static_cast<uint32_t>(1 + wave % 9)));
    for (size_t i = 0; i < renew.unreachable.size(); i += 3) renew.unreachable[i] = NodeId(static_cast<uint32_t>(wave + i));
    bool lives = RunSim(world_.ex(), stub_.Renew(renew)).ok();
    if (lives && wave % (4 * kWavesPerRenewal) == 0) {
      PollRequest poll;
      poll.header = attacker_.ValidHeader(false);
      poll.header.timeout_ns = kMillisecond;
      poll.acked_event = acked_;
      const auto events = RunSim(world_.ex(), stub_.Poll(poll));
      if (events.ok() && !events->events.empty()) acked_ = std::max(acked_, events->events.back().seq);
      for (const SessionEvent& e : events.ok() ? events->events : std::vector<SessionEvent>()) {
        if (e.name.find(kSecret) != e.name.npos) Fail("an event tells the attacker of " + e.name);
      }
    }
    if (lives && wave % kWavesPerSession == 0 && wave > 0) {
      InodeRequest close;
      close.header = attacker_.ValidHeader(false);
      (void)RunSim(world_.ex(), stub_.CloseSession(close));
      lives = false;
    }
    if (!lives && !OpenSession()) Fail("the attacker gets no new session, although its former ones are over");
    return result_.failure.empty();
  }

  // ---- A wave ----
  struct Answer {
    std::optional<Result<WireMessage>> reply;
    bool done = false;
  };
  static Task<void> Fire(std::shared_ptr<Transport> to, std::string method, std::string bytes, Answer* answer, size_t* left) {
    WireMessage message;
    message.payload = BufferChain(Buffer::FromString(std::move(bytes)));
    answer->reply = co_await to->Call(std::move(method), std::move(message), kPatienceNs);
    answer->done = true;
    --*left;
  }
  void Wave(uint64_t n) {
    wave_.clear();
    for (uint64_t i = 0; i < n; ++i) wave_.push_back(attacker_.Next());
    std::vector<Answer> answers(wave_.size());
    size_t left = wave_.size();
    {
      TaskScope scope;
      for (size_t i = 0; i < wave_.size(); ++i) {
        const auto& to = attacker_.IsForData(wave_[i]) ? world_.to_data(wave_[i].node) : world_.to_meta();
        scope.Spawn(Fire(to, attacker_.MethodOf(wave_[i]), wave_[i].bytes, &answers[i], &left));
      }
      (void)world_.ex().RunUntil([&] { return left == 0; }, world_.ex().NowNs() + 2 * kPatienceNs);
    }
    result_.requests += n;
    for (size_t i = 0; i < wave_.size(); ++i) {
      CampaignResult::Count& count = result_.methods[attacker_.MethodOf(wave_[i])];
      ++count.sent;
      if (!answers[i].done || !answers[i].reply->ok()) continue;
      const WireMessage& reply = **answers[i].reply;
      const std::string told = world_.Leak(std::string(reply.Bytes().Flatten().view()));
      if (!told.empty()) {
        std::swap(wave_[i], wave_.back());
        return Fail("an answer to " + attacker_.MethodOf(wave_.back()) + " tells the attacker " + told);
      }
      count.taken += attacker_.Heard(wave_[i], reply);
    }
  }

  // ---- What holds ----
  std::map<std::string, std::string> Audit() {
    std::vector<SessionId> all = hostile_;
    for (const auto& [session, _] : attacker_.sessions()) all.push_back(session);
    return world_.Audit(all);
  }
  void Judge() {
    if (!result_.failure.empty()) return;
    if (const std::string changed = Difference(before_, Audit()); !changed.empty()) Fail("the attacker has changed what is not its own: " + changed);
    for (const auto& [ino, _] : attacker_.seals()) {
      if (const std::string told = world_.LeakOfSeal(ino); !told.empty()) Fail("the attacker is shown " + told);
    }
  }
  void JudgeRarely() {
    if (const std::string bad = world_.CheckBytes(); !bad.empty()) Fail("the attacker has changed what is not its own: " + bad);
    if (const std::string grown = world_.CheckBounds(); !grown.empty()) Fail("a bound does not hold: " + grown);
  }
  void MeasureWarm() {
    warm_resident_ = ResidentBytes();
    warm_stored_ = world_.StoredBytes();
  }
  void End() {
    Judge();
    JudgeRarely();
    wave_.clear();
    // Its calls come to their ends, and so do its sessions.
    world_.ex().RunFor(kQuietNs);
    if (const size_t left = world_.Handlers(); left > 0) Fail(std::to_string(left) + " calls still run " + std::to_string(kQuietNs / kSecond) + " s after the last request");
    Judge();
    JudgeRarely();
    result_.resident_bytes = ResidentBytes();
    if (!kMemoryIsOurs || warm_resident_ == 0) return;
    const uint64_t stored = world_.StoredBytes();
    const uint64_t files = stored > warm_stored_ ? stored - warm_stored_ : 0;
    const uint64_t limit = warm_resident_ + kSpareBytes + kBytesPerStoredByte * files;
    if (result_.resident_bytes > limit) {
      Fail("memory has grown from " + std::to_string(warm_resident_ / kMiB) + " to " + std::to_string(result_.resident_bytes / kMiB) + " MiB, of which " +
           std::to_string(files / kMiB) + " MiB are files of the attacker");
    }
  }

  const CampaignPlan plan_;
  HostileWorld world_;
  Attacker attacker_;
  MetaStub stub_;
  std::map<std::string, std::string> before_;
  std::vector<SessionId> hostile_;  // that it opened for itself
  uint64_t acked_ = 0;
  std::vector<Shot> wave_;
  uint64_t warm_resident_ = 0, warm_stored_ = 0;
  CampaignResult result_;
};

}  // namespace

CampaignResult RunCampaign(const CampaignPlan& plan, const std::function<void(uint64_t)>& progress) { return Campaign(plan).Run(progress); }

}  // namespace stria
