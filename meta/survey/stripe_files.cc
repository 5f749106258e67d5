#include "meta/survey/stripe_files.h"

#include <algorithm>

#include "common/codec.h"
#include "meta/ops/ops.h"
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

Result<FilesPage> PageOfFiles(MetaStore& store, const std::set<StripeId>& stripes, size_t limit, const GoneColumns& gone,
                              std::string_view after) {
  ASSIGN_OR_RETURN(std::optional<ListPlace> place, DecodePlace(after));
  FilesPage out;
  const OpCtx root;
  Txn txn(store);
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

Result<std::vector<LostFile>> ListFilesOf(MetaStore& store, const std::set<StripeId>& stripes, size_t limit,
                                          const GoneColumns& gone) {
  ASSIGN_OR_RETURN(FilesPage page, PageOfFiles(store, stripes, limit, gone, {}));
  return std::move(page.files);
}

}  // namespace stria
