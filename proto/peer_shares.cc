#include "proto/peer_shares.h"

#include <algorithm>

#include "common/check.h"
#include "trust/network.h"

namespace stria {

std::string PeerShareKey(const Peer* peer, std::string_view address) {
  if (peer) return std::string(RoleName(peer->role)) + " " + peer->name;
  std::optional<IpAddress> ip = IpOfAddress(address);
  static const IpAddress v4_loopback = ParseIp("127.0.0.1").value(), v6_loopback = ParseIp("::1").value();
  if (!ip || *ip == v4_loopback || *ip == v6_loopback) return "";
  if (!ip->is_v4()) std::fill(ip->bytes.begin() + 8, ip->bytes.end(), uint8_t{0});
  return ip->ToString();
}

PeerShares::Connection& PeerShares::At(uint64_t id) {
  const auto it = by_id_.find(id);
  CHECK(it != by_id_.end(), "a connection has no account any more");
  return it->second;
}

void PeerShares::Tidy(uint64_t id) {
  const auto it = by_id_.find(id);
  if (it->second.open || !it->second.idle()) return;
  const Accounts::iterator account = it->second.account;
  by_id_.erase(it);
  if (account->second.used == Usage()) peers_.erase(account);
}

Result<PeerShares::Opened> PeerShares::Open(const std::string& peer) {
  const auto account = peers_.try_emplace(peer).first;
  Account& a = account->second;
  Opened opened;
  if (!peer.empty() && a.used.connections >= limits_.connections) {
    const auto oldest = std::find_if(a.open.begin(), a.open.end(), [this](uint64_t id) { return At(id).idle(); });
    if (oldest == a.open.end()) {
      Error full(FsError::kRetryLater, peer + " has " + std::to_string(a.used.connections) + " connections already, and all are busy");
      if (a.used == Usage()) peers_.erase(account);  // of limits that let nobody in
      return full;
    }
    opened.to_close = *oldest;
  }
  opened.id = next_id_++;
  by_id_.emplace(opened.id, Connection{account, true, {}});
  a.open.insert(opened.id);
  ++a.used.connections;
  if (opened.to_close) Close(*opened.to_close);
  return opened;
}

void PeerShares::Close(uint64_t id) {
  const auto it = by_id_.find(id);
  if (it == by_id_.end() || !it->second.open) return;
  it->second.open = false;
  Account& a = it->second.account->second;
  a.open.erase(id);
  --a.used.connections;
  Tidy(id);
}

Result<void> PeerShares::Room(const Connection& c, uint64_t bytes) const {
  const Usage& used = c.account->second.used;
  if (!Bounded(c) || bytes == 0 || (used.bytes <= limits_.bytes && bytes <= limits_.bytes - used.bytes)) return Ok();
  return Error(FsError::kRetryLater, "requests and replies of " + c.account->first + " take " + std::to_string(limits_.bytes / kMiB) +
                                         " MiB of this server, which is all that one peer gets; it has to take its replies first");
}

Result<void> PeerShares::Begin(uint64_t id, uint64_t bytes) {
  const auto it = by_id_.find(id);
  if (it == by_id_.end() || !it->second.open) return Error(FsError::kRetryLater, "this connection has made room for another one");
  Connection& c = it->second;
  Usage& all = c.account->second.used;
  if (Bounded(c) && all.requests >= limits_.requests) {
    return Error(FsError::kRetryLater, c.account->first + " has " + std::to_string(all.requests) + " requests under way, which is all that one peer gets");
  }
  if (Bounded(c) && all.bytes >= limits_.bytes) RETURN_IF_ERROR(Room(c, 1));
  RETURN_IF_ERROR(Room(c, bytes));
  ++all.requests, ++c.used.requests;
  all.bytes += bytes, c.used.bytes += bytes;
  return Ok();
}

Result<void> PeerShares::Grow(uint64_t id, uint64_t bytes) {
  Connection& c = At(id);
  RETURN_IF_ERROR(Room(c, bytes));
  c.account->second.used.bytes += bytes, c.used.bytes += bytes;
  return Ok();
}

Result<void> PeerShares::MayBeServed(uint64_t id) {
  const Connection& c = At(id);
  return c.account->second.used.bytes <= limits_.bytes ? Ok() : Room(c, 1);
}

void PeerShares::Reply(uint64_t id, uint64_t bytes) {
  Connection& c = At(id);
  c.account->second.used.bytes += bytes, c.used.bytes += bytes;
}

void PeerShares::End(uint64_t id, size_t requests, uint64_t bytes) {
  Connection& c = At(id);
  Usage& all = c.account->second.used;
  CHECK(c.used.requests >= requests && c.used.bytes >= bytes);
  c.used.requests -= requests, all.requests -= requests;
  c.used.bytes -= bytes, all.bytes -= bytes;
  Tidy(id);
}

bool PeerShares::Refuse(uint64_t id) {
  const auto it = by_id_.find(id);
  if (it == by_id_.end() || !it->second.open) return false;
  Connection& c = it->second;
  Usage& all = c.account->second.used;
  // Of those that cannot be told apart each connection is bounded, as nothing else bounds these.
  if ((Bounded(c) ? all.refusals : c.used.refusals) >= limits_.refusals) return false;
  ++all.refusals, ++c.used.refusals;
  return true;
}

void PeerShares::EndRefusal(uint64_t id) {
  Connection& c = At(id);
  CHECK(c.used.refusals > 0);
  --c.used.refusals, --c.account->second.used.refusals;
  Tidy(id);
}

PeerShares::Usage PeerShares::Of(const std::string& peer) const {
  const auto it = peers_.find(peer);
  return it == peers_.end() ? Usage() : it->second.used;
}

}  // namespace stria
