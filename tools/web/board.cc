#include "tools/web/board.h"

#include "common/sentence.h"

namespace stria::web {
namespace {

Json OrNull(const std::optional<int64_t>& n) { return n ? Json(*n) : Json(); }

}  // namespace

void Board::Take(Result<Json> status, int64_t now_ms, double answer_ms) {
  std::lock_guard lock(mu_);
  asked_ms_ = now_ms;
  if (!status.ok()) {
    if (!away_since_ms_) away_since_ms_ = now_ms;
    error_ = SentenceOf(status.error());
    return;
  }
  history_.Add(SampleOf(*status, now_ms, answer_ms));
  status_ = std::make_shared<const Json>(std::move(*status));
  as_of_ms_ = now_ms;
  away_since_ms_.reset();
  error_.clear();
}

void Board::TakeEvents(std::optional<Json> events) {
  std::lock_guard lock(mu_);
  events_ = std::move(events);
}

int64_t Board::PeriodMs(int64_t now_ms) const {
  std::lock_guard lock(mu_);
  const bool looked = looked_ms_ && now_ms - *looked_ms_ < kLookedMs;
  return looked ? kWatchedPeriodMs : kPeriodMs;
}

std::string Board::Status(int64_t now_ms) {
  Json out;
  std::shared_ptr<const Json> status;
  {
    std::lock_guard lock(mu_);
    looked_ms_ = now_ms;
    status = status_;
    out = {{"cluster", cluster_},
           {"program", program_},
           {"recorded", recorded_},
           {"now_ms", now_ms},
           {"state", away_since_ms_ ? "away" : as_of_ms_ ? "live" : "starting"},
           {"as_of_ms", OrNull(as_of_ms_)},
           {"away_since_ms", OrNull(away_since_ms_)},
           {"error", error_}};
  }
  out["status"] = status ? *status : Json();
  return cli::DumpLine(out);
}

std::string Board::History(int64_t now_ms) const {
  Json out;
  {
    std::lock_guard lock(mu_);
    out = history_.Points(now_ms);
  }
  return cli::DumpLine(out);
}

std::string Board::Events() const {
  std::lock_guard lock(mu_);
  return cli::DumpLine({{"available", events_.has_value()}, {"events", events_ ? *events_ : Json::array()}});
}

Result<std::string> Board::Health(int64_t now_ms) const {
  std::lock_guard lock(mu_);
  if (!recorded_ && asked_ms_ && now_ms - *asked_ms_ > kStuckMs) {
    return Error(FsError::kUnavailable, "the cluster has not been asked for " + std::to_string((now_ms - *asked_ms_) / 1000) + " s");
  }
  if (away_since_ms_) return "ok; no answer from the metadata server since " + std::to_string((now_ms - *away_since_ms_) / 1000) + " s";
  return std::string(as_of_ms_ ? "ok" : "ok; nothing heard from the metadata server yet");
}

}  // namespace stria::web
