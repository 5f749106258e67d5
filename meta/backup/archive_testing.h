// Backup objects as releases before encryption made them, for tests.
#pragma once

#include <string>
#include <string_view>

#include "common/codec.h"
#include "meta/backup/archive.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace stria {

// Without `seal`: as those made it that did not seal either.
inline std::string EncodeClearArchive(const ArchiveHead& head, std::string_view body, const ArchiveSeal* seal) {
  ByteWriter fields;
  for (const uint64_t v : {head.cluster.hi, head.cluster.lo, head.name.incarnation, head.name.term}) fields.U64(v);
  fields.U8(static_cast<uint8_t>(head.name.kind));
  for (const uint64_t v : {head.name.first.v, head.name.walk, head.name.last}) fields.U64(v);
  fields.I64(head.wall_ns);
  if (seal != nullptr) fields.U32(seal->key_id());
  ByteWriter w;
  w.Raw("striaMB1");
  w.U32(seal == nullptr ? 1 : 2);
  w.Str(fields.str());
  w.Str(body);
  if (seal != nullptr) {
    const PurposeTag tag = seal->Of(w.str());
    w.Raw({reinterpret_cast<const char*>(tag.data()), tag.size()});
  }
  w.U64(XXH3_64bits(w.str().data(), w.size()));
  return w.Take();
}

}  // namespace stria
