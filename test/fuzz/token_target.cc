// Input: one byte that names the kind; the rest is a token, a proof or a file of keys. What is good for anything is what the
// signer made, byte for byte, and it is good for that only.
#include <algorithm>
#include <cstdint>
#include <set>
#include <string>

#include "common/bound_token.h"
#include "common/token.h"
#include "test/fuzz/fuzz_target.h"
#include "test/fuzz/token_samples.h"

namespace stria {

uint64_t fuzz_taken = 0;

namespace {

using namespace token_samples;

constexpr uint8_t kRights[] = {kTokenRead, kTokenWrite, kTokenDelete, kTokenAdmin};

void AsShardToken(const std::string& s) {
  static const TokenSigner signer(Key(1));
  static const TokenVerifier verifier({Key(1), Key(2)});
  const auto t = DecodeToken(s);
  if (!t.ok()) return Must(!verifier.Check(s, ShardId(1), TargetId(1), kTokenRead, kNowS).ok());
  ++fuzz_taken;
  Must(EncodeToken(*t) == s && !IsBoundToken(s));
  for (const uint8_t right : kRights) {
    if (!verifier.Check(s, t->shard, t->target, right, kNowS).ok()) continue;
    Must((t->rights & right) != 0 && t->expiry_s >= kNowS);
    Must(EncodeToken(signer.Sign(t->shard, t->target, t->rights, t->expiry_s)) == s);
    Must(!verifier.Check(s, ShardId(t->shard.v + 1), t->target, right, kNowS).ok());
    Must(!verifier.Check(s, t->shard, TargetId(t->target.v + 1), right, kNowS).ok());
    Must(t->expiry_s == INT64_MAX || verifier.Check(s, t->shard, t->target, right, t->expiry_s + 1).code() == FsError::kTokenExpired);
  }
}

void AsBoundToken(const std::string& s) {
  static const BoundTokenSigner signer(NodeKeyOfToday());
  static const BoundTokenVerifier verifier(NodeKeysAround(Key(1), kNode, kNowS), kIncarnation);
  static const BoundTokenVerifier other_node(NodeKeysAround(Key(1), {kNode.hi, kNode.lo + 1}, kNowS), kIncarnation);
  static const BoundTokenVerifier restored(NodeKeysAround(Key(1), kNode, kNowS), kIncarnation + 1);
  const auto t = DecodeBoundToken(s);
  if (!t.ok()) {
    TokenUse any;
    any.shard = ShardId(1), any.target = TargetId(1), any.right = kTokenRead, any.holder = 1;
    return Must(!verifier.Check(s, any, kNowS).ok());
  }
  ++fuzz_taken;
  Must(EncodeBoundToken(*t) == s && IsBoundToken(s) && !DecodeToken(s).ok());
  for (const uint8_t right : kRights) {
    TokenUse use;
    use.shard = t->shard, use.target = t->target, use.right = right, use.holder = t->holder;
    use.bytes = right == kTokenWrite ? t->most_bytes : 0;
    if (!verifier.Check(s, use, kNowS).ok()) continue;
    Must((t->rights & right) != 0 && t->expiry_s >= kNowS && t->incarnation == kIncarnation);
    Must(EncodeBoundToken(signer.Sign(*t)) == s);
    Must(!other_node.Check(s, use, kNowS).ok() && !restored.Check(s, use, kNowS).ok());
    const auto refuses = [&](auto change) {
      TokenUse other = use;
      change(&other);
      Must(!verifier.Check(s, other, kNowS).ok());
    };
    refuses([](TokenUse* u) { ++u->shard.v; });
    refuses([](TokenUse* u) { ++u->target.v; });
    refuses([](TokenUse* u) { ++u->holder; });
    if (right == kTokenWrite && t->most_bytes < UINT64_MAX) refuses([](TokenUse* u) { ++u->bytes; });
    Must(t->expiry_s == INT64_MAX || verifier.Check(s, use, t->expiry_s + 1).code() == FsError::kTokenExpired);
  }
}

void AsOpenProof(const std::string& s) {
  static const TokenVerifier verifier({Key(1), Key(2)});
  for (const OpenProof& made : OpenProofs()) {
    for (const InodeId ino : {made.first, InodeId(made.first.v + made.count - 1), InodeId(made.first.v + made.count), InodeId(made.first.v - 1)}) {
      const uint8_t rights = verifier.OpenRights(s, kSession, ino);
      Must(verifier.OpenRights(s, SessionId(kSession.v + 1), ino) == 0);
      if (rights == 0) continue;
      ++fuzz_taken;
      static const TokenSigner signer(Key(1));
      const auto all = OpenProofs();
      const auto same = std::find_if(all.begin(), all.end(), [&](const OpenProof& p) { return signer.ProveOpen(p) == s; });
      Must(same != all.end() && same->rights == rights && RightsIn(s) == rights);
      Must(ino >= same->first && ino.v - same->first.v < same->count);
    }
  }
}

void AsNodeProof(const std::string& s) {
  static const std::string made = TokenSigner(Key(1)).ProveNode(kNode, "n6");
  static const TokenVerifier verifier({Key(1), Key(2)});
  const bool good = verifier.CheckNode(s, kNode, "n6").ok();
  Must(good == (s == made));
  Must(!verifier.CheckNode(s, kNode, "n7").ok() && !verifier.CheckNode(s, {kNode.hi, kNode.lo + 1}, "n6").ok());
  fuzz_taken += good;
}

void AsKeyFile(const std::string& s) {
  const auto keys = ParseClusterKeys(s);
  if (!keys.ok()) return;
  ++fuzz_taken;
  Must(!keys->empty() && keys->size() <= kMaxClusterKeys);
  std::string text;
  std::set<uint32_t> ids;
  for (const ClusterKey& k : *keys) {
    text += FormatClusterKey(k);
    Must(k.id > 0 && ids.insert(k.id).second);
  }
  const auto again = ParseClusterKeys(text);
  Must(again.ok() && again->size() == keys->size());
  for (size_t i = 0; i < keys->size(); ++i) Must((*again)[i].id == (*keys)[i].id && (*again)[i].secret == (*keys)[i].secret);
}

constexpr void (*kKinds[])(const std::string&) = {&AsShardToken, &AsBoundToken, &AsOpenProof, &AsNodeProof, &AsKeyFile};

}  // namespace
}  // namespace stria

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::string input(reinterpret_cast<const char*>(data) + 1, size - 1);
  stria::kKinds[data[0] % std::size(stria::kKinds)](input);
  return 0;
}
