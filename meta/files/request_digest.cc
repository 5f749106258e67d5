#include "meta/files/request_digest.h"

#include <xxhash.h>

#include <algorithm>
#include <optional>

#include "common/codec.h"

namespace stria {
namespace {

constexpr uint8_t kForm = 1;

class Digest {
 public:
  Digest() { w_.U8(kForm); }
  template <class... N>
  Digest& Numbers(N... n) {
    (w_.U64(static_cast<uint64_t>(n)), ...);
    return *this;
  }
  template <class T>
  Digest& Maybe(const std::optional<T>& n) {
    w_.Bool(n.has_value());
    if (n) w_.U64(static_cast<uint64_t>(*n));
    return *this;
  }
  Digest& Text(std::string_view s) {
    w_.Str(s);
    return *this;
  }
  uint64_t Done() const { return std::max<uint64_t>(XXH3_64bits(w_.str().data(), w_.size()), 1); }

 private:
  ByteWriter w_;
};

}  // namespace

uint64_t RequestDigest(const SetAttrRequest& r) {
  return Digest()
      .Numbers(r.ino.v, r.atime_now, r.mtime_now, r.kill_suid, r.read_version)
      .Maybe(r.mode).Maybe(r.uid).Maybe(r.gid).Maybe(r.size).Maybe(r.atime_ns).Maybe(r.mtime_ns).Maybe(r.read_ns)
      .Done();
}

uint64_t RequestDigest(const MakeNodeRequest& r) {
  return Digest()
      .Numbers(r.parent.v, r.type, r.mode, r.umask, r.rdev, r.open, r.for_read, r.exclusive, r.truncate)
      .Text(r.name).Text(r.target)
      .Done();
}

uint64_t RequestDigest(const OpenRequest& r) { return Digest().Numbers(r.ino.v, r.for_write, r.truncate, r.for_read).Done(); }

uint64_t RequestDigest(const NameRequest& r) { return Digest().Numbers(r.parent.v).Text(r.name).Done(); }

uint64_t RequestDigest(const RenameRequest& r) {
  return Digest().Numbers(r.parent.v, r.new_parent.v, r.no_replace, r.exchange).Text(r.name).Text(r.new_name).Done();
}

uint64_t RequestDigest(const LinkRequest& r) { return Digest().Numbers(r.ino.v, r.new_parent.v).Text(r.new_name).Done(); }

uint64_t RequestDigest(const XattrRequest& r) {
  return Digest().Numbers(r.ino.v, r.create, r.replace).Text(r.name).Text(r.value).Done();
}

uint64_t RequestDigest(const LayoutRequest& r) {
  Digest d;
  d.Numbers(r.ino.v, r.layout.has_value());
  if (r.layout) d.Numbers(r.layout->k, r.layout->m, r.layout->codec, r.layout->unit_bytes, r.layout->stripe_bytes);
  return d.Done();
}

uint64_t RequestDigest(const AllocateRequest& r) {
  Digest d;
  d.Numbers(r.ino.v, r.count, r.payload_bytes);
  for (const TargetId t : r.avoid) d.Numbers(t.v);
  return d.Done();
}

uint64_t RequestDigest(const CommitRequest& r) {
  Digest d;
  d.Numbers(r.ino.v, r.clip, r.append, r.stripes.size(), r.extents.size(), r.punch.size(), r.give_back.size());
  d.Maybe(r.grow_to).Maybe(r.mtime_ns);
  for (const StripeInfo& s : r.stripes) d.Numbers(s.id.v, s.shape.payload_bytes);
  for (const Extent& e : r.extents) d.Numbers(e.file_offset, e.length, e.stripe.v, e.stripe_offset).Text(e.inline_bytes);
  for (const auto& [offset, length] : r.punch) d.Numbers(offset, length);
  for (const StripeId s : r.give_back) d.Numbers(s.v);
  if (r.make) d.Numbers(r.make->parent.v, r.make->mode, r.make->umask).Text(r.make->name);
  return d.Done();
}

uint64_t RequestDigest(const CloneRequest& r) {
  return Digest().Numbers(r.from.v, r.from_offset, r.to.v, r.to_offset, r.length).Done();
}

uint64_t RequestDigest(const LockRequest& r) {
  return Digest()
      .Numbers(r.op, r.keep, r.ticket, r.lock.ino.v, r.lock.kind, r.lock.owner, r.lock.type, r.lock.first, r.lock.last)
      .Done();
}

}  // namespace stria
