#include "meta/exports/export_room.h"

#include <algorithm>
#include <set>

#include "common/codec.h"
#include "common/printable.h"
#include "meta/core/cluster_keys.h"
#include "meta/core/for_each.h"
#include "meta/core/number_record.h"

namespace stria {
namespace {

// What is believed by an empty list: everything.
bool BelievesAll(const IdRanges& now, const IdRanges& had) {
  if (now.empty()) return true;
  if (had.empty()) return false;
  return std::all_of(had.begin(), had.end(), [&](const auto& h) {
    return std::any_of(now.begin(), now.end(), [&](const auto& n) { return n.first <= h.first && h.second <= n.second; });
  });
}

// The more, the less is left to a client.
int Strictness(Export::Squash squash) {
  switch (squash) {
    case Export::Squash::kNone: return 0;
    case Export::Squash::kRoot: return 1;
    case Export::Squash::kAll: break;
  }
  return 2;
}

}  // namespace

bool GivesAtLeast(const Export& now, const Export& had) {
  return now.path == had.path && (had.read_only || !now.read_only) && Strictness(now.squash) <= Strictness(had.squash) &&
         BelievesAll(now.uids, had.uids) && BelievesAll(now.gids, had.gids);
}

SipKey ExportRoom::NewKey() const {
  const auto secret = [&] { return core_->signer().SecretEpoch(SessionId(), core_->rng().Next()).v; };
  SipKey key;
  key.k0 = secret();
  key.k1 = secret();
  return key;
}

Result<void> ExportRoom::Load(Txn& txn) {
  items_.clear();
  none_ = NewKey();
  bool changed_before = false;
  RETURN_IF_ERROR(ForEachEntry(txn, Family::kCluster, ExportRecordPrefix(), [&](const auto& k, const auto& v) -> Result<void> {
    if (k == ExportsChangedKey()) {
      changed_before = true;
      return Ok();
    }
    Item item;
    uint8_t version = 0;
    std::string_view body;
    if (!ParseExportRecordKey(k, &item.number) || !OpenRecord(v, 1, &version, &body)) {
      return CorruptRecord(Family::kCluster, k, "it does not decode");
    }
    ByteReader r(body);
    const std::string line(r.Str());
    item.key.k0 = r.U64();
    item.key.k1 = r.U64();
    Result<Export> e = ParseExport(line);
    if (!r.ok() || !e.ok()) return CorruptRecord(Family::kCluster, k, "it is no export");
    item.e = std::move(*e);
    items_.push_back(std::move(item));
    return Ok();
  }));
  if (!changed_before) items_ = {{1, Export(), NewKey()}};
  return Ok();
}

std::vector<Export> ExportRoom::List() const {
  std::vector<Export> out;
  for (const Item& i : items_) out.push_back(i.e);
  return out;
}

Result<Export> ExportRoom::For(const Peer& peer, const std::string& path) const {
  if (!IsExportPath(path)) {
    return Error(FsError::kInval, "'" + Printable(path.substr(0, 200)) +
                                      "' cannot be mounted: it is no absolute path without '.', '..', '//' and a slash at its end");
  }
  const std::vector<Export> all = List();
  if (const Export* e = FindExport(all, path, peer)) return *e;
  return Error::Denial(peer.name + " may not mount " + path + ": no export names it");
}

SipKey ExportRoom::KeyOf(const std::string& path) const {
  for (const Item& i : items_) {
    if (i.e.path == path) return i.key;
  }
  return none_;
}

Task<Result<void>> ExportRoom::Set(Export e) {
  if (const Result<Export> read = ParseExport(FormatExport(e)); !read.ok() || *read != e) {
    co_return Error(FsError::kInval, "it is no export that could be read again: " + FormatExport(e));
  }
  std::vector<Item> next = items_;
  for (Item& i : next) {
    if (i.e.path != e.path || i.e.clients != e.clients) continue;
    i.e = std::move(e);
    co_return co_await Change(std::move(next));
  }
  if (next.size() >= kMaxExports) {
    co_return Error(FsError::kInval, "there are " + std::to_string(kMaxExports) + " exports, and no more can be: join some by their clients");
  }
  const bool known = std::any_of(next.begin(), next.end(), [&](const Item& i) { return i.e.path == e.path; });
  const SipKey key = known ? KeyOf(e.path) : NewKey();
  next.push_back({next.empty() ? 1 : next.back().number + 1, std::move(e), key});
  co_return co_await Change(std::move(next));
}

Task<Result<void>> ExportRoom::Remove(std::string path, std::vector<ClientPattern> clients) {
  const auto meant = [&](const Item& i) { return i.e.path == path && (clients.empty() || i.e.clients == clients); };
  const auto count = std::count_if(items_.begin(), items_.end(), meant);
  if (count == 0) co_return Error(FsError::kNoEnt, "there is no such export of " + path);
  if (count > 1) co_return Error(FsError::kInval, "there are several exports of " + path + ": say clients= too");
  std::vector<Item> next = items_;
  std::erase_if(next, meant);
  co_return co_await Change(std::move(next));
}

Task<Result<void>> ExportRoom::Change(std::vector<Item> next) {
  {
    Txn txn(core_->store());
    std::set<uint32_t> kept;
    for (const Item& i : next) {
      ByteWriter w;
      w.Str(FormatExport(i.e));
      w.U64(i.key.k0);
      w.U64(i.key.k1);
      kept.insert(i.number);
      const auto was = std::find_if(items_.begin(), items_.end(), [&](const Item& old) { return old.number == i.number; });
      const std::string key = ExportRecordKey(i.number);
      CO_ASSIGN_OR_RETURN(const auto stored, txn.Get(Family::kCluster, key));
      if (stored && was != items_.end() && was->e == i.e) continue;
      txn.Put(Family::kCluster, key, SealRecord(1, w.str()));
    }
    for (const Item& old : items_) {
      if (!kept.contains(old.number)) txn.Delete(Family::kCluster, ExportRecordKey(old.number));
    }
    txn.Put(Family::kCluster, ExportsChangedKey(), EncodeNumber(1));
    CO_RETURN_IF_ERROR(core_->Commit(txn));
  }
  items_ = std::move(next);
  core_->Committed();
  changed_();
  co_return co_await core_->Sync();
}

}  // namespace stria
