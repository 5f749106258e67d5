#include "trust/doorman.h"

#include <algorithm>

#include "trust/network.h"

namespace stria {

std::string Doorman::PlaceOf(std::string_view address) {
  std::optional<IpAddress> ip = IpOfAddress(address);
  if (!ip) return address.starts_with("uid ") ? std::string(address) : "a local process";
  if (!ip->is_v4()) std::fill(ip->bytes.begin() + 8, ip->bytes.end(), uint8_t{0});
  return ip->ToString();
}

void Doorman::MakeRoom(Visitors::iterator who, Arrival* arrival) {
  ++sent_away_;
  arrival->sent_away = who->id;
  Leave(who->id);
}

Result<Doorman::Arrival> Doorman::Arrive(std::string_view address, int64_t now_ns) {
  const std::string from = PlaceOf(address);
  const auto mine = per_address_.find(from);
  const size_t have = mine == per_address_.end() ? 0 : mine->second;
  const auto oldest_of = [this](const std::string& place) {
    return std::find_if(visitors_.begin(), visitors_.end(), [&](const Visitor& v) { return v.from == place; });
  };
  const auto had_its_time = [&](Visitors::iterator v) { return v != visitors_.end() && now_ns - v->since_ns >= limits_.grace_ns; };
  Arrival arrival;
  if (have >= limits_.per_address) {
    const auto oldest = oldest_of(from);
    if (!had_its_time(oldest)) {
      ++refused_;
      return Error(FsError::kRetryLater, std::to_string(have) + " connections from " + from + " have not said yet who they are");
    }
    MakeRoom(oldest, &arrival);
  } else if (visitors_.size() >= limits_.unknown) {
    const auto most = std::max_element(per_address_.begin(), per_address_.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
    const bool others_have_more = most != per_address_.end() && most->second > have + 1;
    const auto oldest = others_have_more ? oldest_of(most->first) : visitors_.begin();
    if (!others_have_more && !had_its_time(oldest)) {
      ++refused_;
      return Error(FsError::kRetryLater, std::to_string(visitors_.size()) + " connections have not said yet who they are");
    }
    MakeRoom(oldest, &arrival);
  }
  arrival.id = next_id_++;
  visitors_.push_back({arrival.id, from, 0, now_ns});
  by_id_[arrival.id] = std::prev(visitors_.end());
  ++per_address_[from];
  return arrival;
}

Result<void> Doorman::Sent(uint64_t id, size_t bytes) {
  const auto it = by_id_.find(id);
  if (it == by_id_.end()) return Error(FsError::kDeadline, "it took too long to say who it is");
  it->second->bytes += bytes;
  if (it->second->bytes <= limits_.bytes) return Ok();
  return Error(FsError::kBadRequest, "it sent more than " + std::to_string(limits_.bytes) + " bytes before it said who it is");
}

void Doorman::Leave(uint64_t id) {
  const auto it = by_id_.find(id);
  if (it == by_id_.end()) return;
  const auto count = per_address_.find(it->second->from);
  if (--count->second == 0) per_address_.erase(count);
  visitors_.erase(it->second);
  by_id_.erase(it);
}

std::vector<uint64_t> Doorman::TakeOverdue(int64_t now_ns) {
  std::vector<uint64_t> ids;
  // They came in the order of time, but for who was in two threads at once: nobody waits for more than that.
  while (!visitors_.empty() && now_ns - visitors_.front().since_ns >= limits_.patience_ns) {
    ids.push_back(visitors_.front().id);
    Leave(ids.back());
  }
  return ids;
}

int64_t Doorman::NextOverdue() const { return visitors_.empty() ? INT64_MAX : visitors_.front().since_ns + limits_.patience_ns; }

}  // namespace stria
