// Which files are meant: names of inodes, and the files that have bytes in certain stripes.
#include <algorithm>
#include <iterator>

#include "common/codec.h"
#include "meta/service/meta_server_impl.h"
#include "stripe/layout.h"

namespace stria {
namespace {

constexpr size_t kUsesPage = 1024;

// Where a list of files goes on: after this use of this stripe.
struct ListPlace {
  StripeId stripe;
  StripeUse use;
};

std::string Encode(const ListPlace& p) {
  ByteWriter w;
  w.U64(p.stripe.v);
  w.U64(p.use.ino.v);
  w.U64(p.use.file_offset);
  return w.Take();
}

Result<std::optional<ListPlace>> DecodePlace(std::string_view text) {
  if (text.empty()) return std::optional<ListPlace>();
  if (text.size() != 24) return Error(FsError::kBadRequest, "this is no place in a list of files");
  ByteReader r(text);
  ListPlace p;
  p.stripe = StripeId(r.U64());
  p.use.ino = InodeId(r.U64());
  p.use.file_offset = r.U64();
  return std::optional(p);
}

}  // namespace

Result<MetaServer::FilesPage> MetaServer::PageOfFiles(const std::set<StripeId>& stripes, size_t limit,
                                                      const std::map<StripeId, std::vector<bool>>& gone,
                                                      std::string_view after) {
  ASSIGN_OR_RETURN(std::optional<ListPlace> place, DecodePlace(after));
  FilesPage out;
  const OpCtx root;
  Txn txn(*store_);
  for (auto it = place ? stripes.lower_bound(place->stripe) : stripes.begin(); it != stripes.end(); ++it) {
    const StripeId id = *it;
    const auto columns = gone.find(id);
    ASSIGN_OR_RETURN(const std::optional<StripeRecord> record, GetStripeRecord(txn, id));
    std::optional<StripeUse> last;
    if (place && place->stripe == id) last = place->use;
    for (bool more = true; more;) {
      ASSIGN_OR_RETURN(const auto uses, ListStripeUses(txn, id, kUsesPage, last ? &*last : nullptr));
      more = uses.size() == kUsesPage;
      for (const StripeUse& use : uses) {
        if (out.files.size() == limit) {
          if (place) out.next = Encode(*place);
          return out;
        }
        last = use;
        place = ListPlace{id, use};
        LostFile f;
        f.ino = use.ino;
        f.offset = use.file_offset;
        ASSIGN_OR_RETURN(const auto extent, txn.Read<ExtentRecord>(ExtentKey(use.ino, use.file_offset)));
        if (extent) f.length = extent->extent.length;
        // What lies on columns that are there can be read, whatever became of the others.
        if (columns != gone.end() && record && extent && extent->extent.stripe == id) {
          const auto parts = MapRange(record->info.shape, extent->extent.stripe_offset, extent->extent.length);
          if (std::ranges::none_of(parts, [&](const ShardRange& r) {
                return r.column.v < columns->second.size() && columns->second[r.column.v];
              })) {
            continue;
          }
        }
        const Result<PathsPage> names = OpPaths(txn, root, use.ino, {}, 1);
        if (names.ok() && !names->paths.empty()) f.path = names->paths.front();
        out.files.push_back(std::move(f));
      }
    }
  }
  return out;
}

Result<std::vector<LostFile>> MetaServer::ListFilesOf(const std::set<StripeId>& stripes, size_t limit,
                                                      const std::map<StripeId, std::vector<bool>>& gone) {
  ASSIGN_OR_RETURN(FilesPage page, PageOfFiles(stripes, limit, gone, {}));
  return std::move(page.files);
}

// Whoever asks is told what listing directories would tell; an admin all.
Task<Result<NamesReply>> MetaServer::Names(NamesRequest r) {
  CO_RETURN_IF_ERROR(CheckCaller(r.header));
  Txn txn(*store_);
  CO_ASSIGN_OR_RETURN(PathsPage page, OpPaths(txn, NamesCtx(r.header), r.ino, r.after));
  co_return NamesReply{std::move(page.paths), page.hidden, std::move(page.next)};
}

Task<Result<FilesReply>> MetaServer::Files(FilesRequest r) {
  CO_RETURN_IF_ERROR(CheckAdmin(r.header, "is told which files these are"));
  FilesReply reply;
  std::set<StripeId> stripes;
  Damage damage;
  switch (r.kind) {
    case FilesKind::kLost: {
      CO_ASSIGN_OR_RETURN(damage, co_await DamageNow());
      stripes = damage.lost;
      break;
    }
    case FilesKind::kThin:
      if (exposure_) stripes = exposure_->some_thin;
      reply.cut = exposure_ && exposure_->thin > stripes.size();
      break;
    case FilesKind::kUnfit:
      for (const ScrubProgress& p : upkeep_->scrubs().Progress()) {
        stripes.insert(p.unfit.begin(), p.unfit.end());
        reply.cut = reply.cut || p.unfit.size() >= kMaxUnfitStripes;
      }
      break;
    case FilesKind::kWouldBeLost:
    case FilesKind::kWouldDegrade: {
      CO_ASSIGN_OR_RETURN(const Damage before, co_await SurveyDamage({}));
      CO_ASSIGN_OR_RETURN(damage, co_await SurveyDamage({r.targets.begin(), r.targets.end()}));
      if (r.kind == FilesKind::kWouldBeLost) {
        std::ranges::set_difference(damage.lost, before.lost, std::inserter(stripes, stripes.end()));
      } else {
        std::ranges::set_difference(damage.hit, damage.lost, std::inserter(stripes, stripes.end()));
        reply.cut = damage.hit.size() >= Damage::kMaxHitStripes;
      }
      break;
    }
  }
  CO_ASSIGN_OR_RETURN(FilesPage page, PageOfFiles(stripes, kMaxAffectedFiles, damage.gone, r.after));
  reply.next = std::move(page.next);
  for (LostFile& f : page.files) {
    const bool lost = r.kind == FilesKind::kLost || r.kind == FilesKind::kWouldBeLost;
    reply.files.push_back({f.ino, std::move(f.path), f.offset, f.length, lost});
  }
  co_return std::move(reply);
}

}  // namespace stria
