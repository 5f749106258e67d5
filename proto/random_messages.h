// For tests: random valid messages of every type, and their comparison. Independent of the codec's
// field lists: it walks the structs' members themselves. A member added to a struct of api/ breaks the
// build here until its count is corrected, and then the round-trip test until the codec has it too.
#pragma once

#include <algorithm>
#include <optional>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "api/admin_api.h"
#include "api/backup_api.h"
#include "api/beat_api.h"
#include "api/data_api.h"
#include "api/meta_api.h"
#include "api/replica_api.h"
#include "api/trust_api.h"
#include "common/random.h"
#include "stripe/layout.h"

namespace stria::random_messages {

// Number of members of each struct.
template <class T>
inline constexpr int kMembers = -1;
#define MEMBERS(T, n) \
  template <>         \
  inline constexpr int kMembers<T> = n
using OffsetLength = std::pair<uint64_t, uint64_t>;
MEMBERS(OffsetLength, 2);
MEMBERS(Uuid, 2);
MEMBERS(Layout, 12);
MEMBERS(LayoutRoom, 7);
MEMBERS(StripeShape, 7);
MEMBERS(Extent, 5);
MEMBERS(Column, 4);
MEMBERS(StripeInfo, 5);
MEMBERS(StripeGrant, 3);
MEMBERS(ItemResult, 2);
MEMBERS(ClientIo, 5);
MEMBERS(Attr, 15);
MEMBERS(InodeSeal, 2);
MEMBERS(OpHeader, 21);
MEMBERS(SessionEvent, 6);
MEMBERS(FileLock, 7);
MEMBERS(NodeInfo, 6);
MEMBERS(DiskSmart, 9);
MEMBERS(TargetInfo, 16);
MEMBERS(ClusterMap, 11);
MEMBERS(DataHeader, 10);
MEMBERS(ShardWrite, 7);
MEMBERS(WriteRequest, 3);
MEMBERS(SealResult, 3);
MEMBERS(WriteReply, 2);
MEMBERS(ShardSeal, 4);
MEMBERS(SealRequest, 2);
MEMBERS(SealReply, 2);
MEMBERS(ShardRead, 7);
MEMBERS(ReadRequest, 2);
MEMBERS(LeftOut, 4);
MEMBERS(ReadItem, 4);
MEMBERS(ReadReply, 3);
MEMBERS(ShardDelete, 3);
MEMBERS(DeleteRequest, 2);
MEMBERS(DeleteReply, 1);
MEMBERS(InventoryRequest, 4);
MEMBERS(ShardStat, 4);
MEMBERS(InventoryReply, 2);
MEMBERS(HeldInode, 5);
MEMBERS(NotTaken, 2);
MEMBERS(OpenSessionRequest, 8);
MEMBERS(CallerRange, 2);
MEMBERS(BelievedCallers, 3);
MEMBERS(OpenSessionReply, 15);
MEMBERS(RenewRequest, 4);
MEMBERS(RenewReply, 5);
MEMBERS(PollRequest, 2);
MEMBERS(PollReply, 2);
MEMBERS(InodeRequest, 2);
MEMBERS(LeaseDoneRequest, 4);
MEMBERS(LockRequest, 5);
MEMBERS(LockReply, 2);
MEMBERS(Empty, 0);
MEMBERS(NameRequest, 4);
MEMBERS(NodeReply, 7);
MEMBERS(SetAttrRequest, 13);
MEMBERS(MakeNodeRequest, 15);
MEMBERS(OpenRequest, 7);
MEMBERS(OpenReply, 14);
MEMBERS(RenameRequest, 8);
MEMBERS(LinkRequest, 4);
MEMBERS(ReadLinkReply, 1);
MEMBERS(ReadDirRequest, 5);
MEMBERS(DirEntry, 5);
MEMBERS(ReadDirReply, 4);
MEMBERS(XattrRequest, 6);
MEMBERS(XattrReply, 3);
MEMBERS(StatFsReply, 3);
MEMBERS(LayoutRequest, 3);
MEMBERS(LayoutReply, 2);
MEMBERS(GetExtentsRequest, 5);
MEMBERS(GetExtentsReply, 6);
MEMBERS(AllocateRequest, 5);
MEMBERS(AllocateReply, 2);
MEMBERS(MadeFile::Set, 5);
MEMBERS(MadeFile, 6);
MEMBERS(CommitRequest, 14);
MEMBERS(CommitReply, 5);
MEMBERS(CloneRequest, 6);
MEMBERS(CloneReply, 4);
MEMBERS(ReportShardRequest, 6);
MEMBERS(PathsReply, 3);
MEMBERS(DiskHello, 17);
MEMBERS(RegisterNodeRequest, 7);
MEMBERS(NodeTokenKey, 2);
MEMBERS(FencedHolder, 3);
MEMBERS(RegisterNodeReply, 9);
MEMBERS(DeleteWork, 3);
MEMBERS(RebuildWork, 8);
MEMBERS(HeartbeatRequest, 8);
MEMBERS(WidenWork, 3);
MEMBERS(CheckWork, 3);
MEMBERS(CheckResult, 3);
MEMBERS(HeartbeatReply, 10);
MEMBERS(RebuildResult, 7);
MEMBERS(WidenResult, 6);
MEMBERS(ReportWorkRequest, 7);
MEMBERS(CheckShardsRequest, 3);
MEMBERS(CheckShardsReply, 3);
MEMBERS(RepairProgress, 10);
MEMBERS(LostFile, 4);
MEMBERS(SessionInfo, 6);
MEMBERS(NodeExposure, 4);
MEMBERS(NodeLoss, 3);
MEMBERS(Advice, 3);
MEMBERS(StatusReply, 23);
MEMBERS(AdminRequest, 9);
MEMBERS(AdminReply, 3);
MEMBERS(FsckReply, 4);
MEMBERS(ScrubProgress, 11);
MEMBERS(ScrubOrder, 4);
MEMBERS(ReportScrubRequest, 4);
MEMBERS(HeldShard, 2);
MEMBERS(CompareShardsRequest, 5);
MEMBERS(CompareShardsReply, 3);
MEMBERS(UpkeepRequest, 4);
MEMBERS(UpkeepReply, 10);
MEMBERS(FoldState, 5);
MEMBERS(BackupState, 10);
MEMBERS(ListParityRequest, 4);
MEMBERS(ListParityReply, 2);
MEMBERS(FsckRepairRequest, 2);
MEMBERS(FsckRepairReply, 2);
MEMBERS(CanRemoveRequest, 2);
MEMBERS(AffectedFile, 5);
MEMBERS(CanRemoveReply, 4);
MEMBERS(NamesRequest, 3);
MEMBERS(NamesReply, 3);
MEMBERS(FilesRequest, 4);
MEMBERS(FilesReply, 3);
MEMBERS(ClusterEvent, 9);
MEMBERS(ReadEventsRequest, 6);
MEMBERS(ReadEventsReply, 4);
MEMBERS(PutBackupRequest, 4);
MEMBERS(PutBackupReply, 0);
MEMBERS(ListBackupsRequest, 4);
MEMBERS(ListBackupsReply, 5);
MEMBERS(GetBackupRequest, 3);
MEMBERS(GetBackupReply, 1);
MEMBERS(DeleteBackupsRequest, 3);
MEMBERS(DeleteBackupsReply, 0);
MEMBERS(LogPoint, 3);
MEMBERS(TermRun, 2);
MEMBERS(ShippedBatch, 2);
MEMBERS(AppendRequest, 14);
MEMBERS(AppendReply, 6);
MEMBERS(BeatRequest, 4);
MEMBERS(BeatReply, 2);
MEMBERS(ReplicaJoinRequest, 8);
MEMBERS(ReplicaJoinReply, 5);
MEMBERS(FetchKey, 2);
MEMBERS(FetchKeysRequest, 3);
MEMBERS(FetchKeysReply, 3);
MEMBERS(FetchPageRequest, 4);
MEMBERS(FetchPageReply, 5);
MEMBERS(LocateRequest, 3);
MEMBERS(MemberAddress, 2);
MEMBERS(LocateReply, 4);
MEMBERS(AskRequest, 2);
MEMBERS(AskReply, 5);
MEMBERS(MemberState, 12);
MEMBERS(MemberStatusRequest, 2);
MEMBERS(MemberStatusReply, 7);
MEMBERS(ChangeMembersRequest, 10);
MEMBERS(ChangeMembersReply, 3);
MEMBERS(TrustListRequest, 2);
MEMBERS(TrustReply, 1);
MEMBERS(JoinTokenInfo, 9);
MEMBERS(MakeTokenRequest, 9);
MEMBERS(MakeTokenReply, 3);
MEMBERS(ListTokensReply, 1);
MEMBERS(RevokeTokenRequest, 3);
MEMBERS(CertificateInfo, 11);
MEMBERS(ListCertificatesReply, 2);
MEMBERS(RevokeCertificateRequest, 3);
MEMBERS(RenewCertificateRequest, 3);
MEMBERS(RenewCertificateReply, 2);
MEMBERS(ListExportsReply, 1);
MEMBERS(SetExportRequest, 3);
MEMBERS(RemoveExportRequest, 4);
MEMBERS(ClientInfo, 5);
MEMBERS(ListClientsReply, 1);
MEMBERS(EvictClientRequest, 3);
MEMBERS(ReadAuditRequest, 3);
MEMBERS(ReadAuditReply, 2);
MEMBERS(ChangeAuthorityRequest, 4);
MEMBERS(AuthorityInfo, 6);
MEMBERS(ChangeAuthorityReply, 2);
MEMBERS(FollowAuthorityRequest, 8);
MEMBERS(FollowAuthorityReply, 5);
#undef MEMBERS

// All requests and replies, as arguments of X.
#define STRIA_ALL_MESSAGES(X)                                                                           \
  X(WriteRequest) X(WriteReply) X(SealRequest) X(SealReply) X(ReadRequest) X(ReadReply)                 \
  X(DeleteRequest) X(DeleteReply) X(InventoryRequest) X(InventoryReply) X(ClusterMap)                   \
  X(RegisterNodeRequest) X(RegisterNodeReply) X(HeartbeatRequest) X(HeartbeatReply)                     \
  X(ReportWorkRequest) X(CheckShardsRequest) X(CheckShardsReply) X(StatusReply) X(AdminRequest)         \
  X(AdminReply) X(FsckReply) X(Empty) X(OpenSessionRequest) X(OpenSessionReply) X(RenewRequest)         \
  X(RenewReply) X(PollRequest) X(PollReply) X(InodeRequest) X(LeaseDoneRequest) X(LockRequest) X(LockReply) X(NameRequest)          \
  X(NodeReply) X(SetAttrRequest) X(MakeNodeRequest) X(OpenRequest) X(OpenReply) X(RenameRequest)        \
  X(LinkRequest) X(ReadLinkReply) X(ReadDirRequest) X(ReadDirReply) X(XattrRequest) X(XattrReply)       \
  X(StatFsReply) X(LayoutRequest) X(LayoutReply) X(GetExtentsRequest) X(GetExtentsReply)                \
  X(AllocateRequest) X(AllocateReply) X(CommitRequest) X(CommitReply) X(ReportShardRequest)             \
  X(CloneRequest) X(CloneReply) X(PathsReply) X(ReportScrubRequest)                                    \
  X(ScrubOrder) X(ListParityRequest) X(ListParityReply) X(FsckRepairRequest) X(FsckRepairReply)         \
  X(CompareShardsRequest) X(CompareShardsReply) X(UpkeepRequest) X(UpkeepReply) X(CanRemoveRequest)     \
  X(CanRemoveReply) X(PutBackupRequest) X(PutBackupReply) X(ListBackupsRequest) X(ListBackupsReply)     \
  X(GetBackupRequest) X(GetBackupReply) X(DeleteBackupsRequest) X(DeleteBackupsReply)           \
  X(NamesRequest) X(NamesReply) X(FilesRequest) X(FilesReply) X(TrustListRequest)                       \
  X(TrustReply) X(MakeTokenRequest) X(MakeTokenReply) X(ListTokensReply) X(RevokeTokenRequest)          \
  X(ListCertificatesReply) X(RevokeCertificateRequest) X(RenewCertificateRequest)                       \
  X(RenewCertificateReply) X(ListExportsReply) X(SetExportRequest) X(RemoveExportRequest)               \
  X(ListClientsReply) X(EvictClientRequest) X(ReadAuditRequest) X(ReadAuditReply)                       \
  X(ChangeAuthorityRequest) X(ChangeAuthorityReply) X(FollowAuthorityRequest) X(FollowAuthorityReply) X(ReadEventsRequest) X(ReadEventsReply)             \
  X(AppendRequest) X(AppendReply) X(ReplicaJoinRequest) X(ReplicaJoinReply) X(FetchKeysRequest)              \
  X(FetchKeysReply) X(FetchPageRequest) X(FetchPageReply) X(LocateRequest) X(LocateReply) X(AskRequest) X(AskReply)  \
  X(MemberStatusRequest) X(MemberStatusReply) X(ChangeMembersRequest) X(ChangeMembersReply) X(BeatRequest) X(BeatReply)

template <class S>
auto Tie(S& s) {
  constexpr int n = kMembers<std::remove_const_t<S>>;
  static_assert(n >= 0, "this struct is not in the list above");
#define TIE(count, ...)                \
  else if constexpr (n == count) {     \
    auto& [__VA_ARGS__] = s;           \
    return std::tie(__VA_ARGS__);      \
  }
  if constexpr (n == 0) {
    return std::tuple<>();
  }
  TIE(1, a)
  TIE(2, a, b)
  TIE(3, a, b, c)
  TIE(4, a, b, c, d)
  TIE(5, a, b, c, d, e)
  TIE(6, a, b, c, d, e, f)
  TIE(7, a, b, c, d, e, f, g)
  TIE(8, a, b, c, d, e, f, g, h)
  TIE(9, a, b, c, d, e, f, g, h, i)
  TIE(10, a, b, c, d, e, f, g, h, i, j)
  TIE(11, a, b, c, d, e, f, g, h, i, j, k)
  TIE(12, a, b, c, d, e, f, g, h, i, j, k, l)
  TIE(13, a, b, c, d, e, f, g, h, i, j, k, l, m)
  TIE(14, a, b, c, d, e, f, g, h, i, j, k, l, m, o)
  TIE(15, a, b, c, d, e, f, g, h, i, j, k, l, m, o, p)
  TIE(16, a, b, c, d, e, f, g, h, i, j, k, l, m, o, p, q)
  TIE(17, a, b, c, d, e, f, g, h, i, j, k, l, m, o, p, q, r)
  TIE(18, a, b, c, d, e, f, g, h, i, j, k, l, m, o, p, q, r, t)
  TIE(19, a, b, c, d, e, f, g, h, i, j, k, l, m, o, p, q, r, t, u)
  TIE(20, a, b, c, d, e, f, g, h, i, j, k, l, m, o, p, q, r, t, u, w)
  TIE(21, a, b, c, d, e, f, g, h, i, j, k, l, m, o, p, q, r, t, u, w, x)
  TIE(22, a, b, c, d, e, f, g, h, i, j, k, l, m, o, p, q, r, t, u, w, x, y)
  TIE(23, a, b, c, d, e, f, g, h, i, j, k, l, m, o, p, q, r, t, u, w, x, y, z)
#undef TIE
}

// ---- Comparison ------------------------------------------------------------------------------------

template <class T>
inline constexpr bool kIsVector = false;
template <class T>
inline constexpr bool kIsVector<std::vector<T>> = true;
template <class T>
inline constexpr bool kIsOptional = false;
template <class T>
inline constexpr bool kIsOptional<std::optional<T>> = true;
template <class T>
inline constexpr bool kIsId = false;
template <class Tag, class Rep>
inline constexpr bool kIsId<StrongId<Tag, Rep>> = true;

template <class T>
inline constexpr bool kIsPeer = std::is_same_v<T, std::shared_ptr<const Peer>> || std::is_same_v<T, DiskTime>;  // not on the wire

template <class T>
bool Same(const T& a, const T& b) {
  if constexpr (kIsVector<T>) {
    return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                      [](const auto& x, const auto& y) { return Same(x, y); });
  } else if constexpr (kIsOptional<T>) {
    return a.has_value() == b.has_value() && (!a || Same(*a, *b));
  } else if constexpr (std::is_same_v<T, BufferChain>) {
    return a.Flatten().view() == b.Flatten().view();
  } else if constexpr (std::is_arithmetic_v<T> || std::is_enum_v<T> || kIsId<T> ||
                       std::is_same_v<T, std::string>) {
    return a == b;
  } else if constexpr (kIsPeer<T>) {
    return true;
  } else {
    return [&]<size_t... I>(std::index_sequence<I...>, const auto& x, const auto& y) {
      return (Same(std::get<I>(x), std::get<I>(y)) && ...);
    }(std::make_index_sequence<kMembers<T>>(), Tie(a), Tie(b));
  }
}

// ---- Generation ------------------------------------------------------------------------------------

inline std::string RandomBytes(Random& rng, size_t n) {
  std::string s(n, 0);
  for (char& c : s) c = static_cast<char>(rng.Next());
  return s;
}
inline std::string RandomName(Random& rng) {
  std::string s = RandomBytes(rng, rng.OneIn(50) ? kMaxNameBytes : rng.Between(1, 12));
  for (char& c : s) if (c == '/' || c == 0) c = 'x';
  return s;
}
// Small, large and round numbers, and the limits of T.
template <class T>
T RandomNumber(Random& rng) {
  switch (rng.Below(4)) {
    case 0:
      return static_cast<T>(rng.Below(10));
    case 1:
      return static_cast<T>(rng.Next() >> rng.Below(64));
    case 2:
      return static_cast<T>(uint64_t{1} << rng.Below(64));
    default:
      return rng.OneIn(2) ? static_cast<T>(~uint64_t{0}) : T{};
  }
}

template <class E>
inline constexpr std::pair<int, int> kEnumRange = {1, 0};
template <> inline constexpr std::pair<int, int> kEnumRange<Codec> = {0, 4};
template <> inline constexpr std::pair<int, int> kEnumRange<Domain> = {1, 3};
template <> inline constexpr std::pair<int, int> kEnumRange<Arrangement> = {1, 2};
template <> inline constexpr std::pair<int, int> kEnumRange<Place> = {1, 3};
template <> inline constexpr std::pair<int, int> kEnumRange<FileType> = {1, 7};
template <> inline constexpr std::pair<int, int> kEnumRange<LeaseMode> = {0, 3};
template <> inline constexpr std::pair<int, int> kEnumRange<SessionEvent::Kind> = {1, 7};
template <> inline constexpr std::pair<int, int> kEnumRange<LockKind> = {1, 2};
template <> inline constexpr std::pair<int, int> kEnumRange<LockType> = {0, 2};
template <> inline constexpr std::pair<int, int> kEnumRange<LockOp> = {1, 5};
template <> inline constexpr std::pair<int, int> kEnumRange<NodeState> = {1, 4};
template <> inline constexpr std::pair<int, int> kEnumRange<TargetState> = {1, 5};
template <> inline constexpr std::pair<int, int> kEnumRange<AdminVerb> = {1, 10};
template <> inline constexpr std::pair<int, int> kEnumRange<UpkeepVerb> = {1, 9};
template <> inline constexpr std::pair<int, int> kEnumRange<FilesKind> = {1, 5};
template <> inline constexpr std::pair<int, int> kEnumRange<EventSeverity> = {0, 2};
template <> inline constexpr std::pair<int, int> kEnumRange<SmartHealth> = {0, 2};
template <> inline constexpr std::pair<int, int> kEnumRange<Role> = {1, 5};
template <> inline constexpr std::pair<int, int> kEnumRange<AuthorityVerb> = {1, 3};
template <> inline constexpr std::pair<int, int> kEnumRange<AppendResult> = {1, 3};
template <> inline constexpr std::pair<int, int> kEnumRange<JoinVerdict> = {1, 4};
template <> inline constexpr std::pair<int, int> kEnumRange<MemberRole> = {0, 7};
template <> inline constexpr std::pair<int, int> kEnumRange<MemberChange> = {1, 6};
template <> inline constexpr std::pair<int, int> kEnumRange<FsError> = {0, 34};

template <class T>
void Fill(Random& rng, T& v);

// ---- Turns a random struct into a valid one --------------------------------------------------------

inline void Fix(Random& rng, OpHeader& v) { v.timeout_ns = static_cast<int64_t>(rng.Next() >> 1); }
inline void Fix(Random& rng, DataHeader& v) { v.timeout_ns = static_cast<int64_t>(rng.Next() >> 1); }
inline void Fix(Random& rng, StripeShape& v) {
  v = StripeShape();
  v.k = static_cast<uint8_t>(rng.Between(1, 8));
  v.m = static_cast<uint8_t>(rng.Below(kMaxParity + 1));
  v.groups = static_cast<uint8_t>(rng.Between(1, kMaxColumns / (v.k + v.m)));
  v.codec = DefaultCodec(v.k, v.m);
  v.unit_bytes = static_cast<uint32_t>(rng.Between(1, 64) * 4 * kKiB);
  if (rng.OneIn(4)) return;
  v.payload_bytes = rng.Between(1, kMaxStripeBytes);
  if (rng.OneIn(2)) return;
  v.payload_bytes = 0;
  for (uint32_t i = 0; i < v.data_columns(); ++i) {
    v.column_bytes.push_back(rng.Between(1, kMaxStripeBytes / kMaxColumns));
    v.payload_bytes += v.column_bytes.back();
  }
}
inline void Fix(Random& rng, StripeInfo& v) {
  v.columns.resize(v.shape.columns());
  for (Column& c : v.columns) Fill(rng, c);
}
inline void Fix(Random& rng, StripeGrant& v) {
  v.tokens.resize(v.info.columns.size());
  for (std::string& t : v.tokens) t = RandomBytes(rng, rng.Below(60));
  v.max_column_bytes = rng.Below(4) * v.info.shape.unit_bytes;
}
inline void Fix(Random& rng, Extent& v) {
  v.file_offset = rng.Below(kMaxFileBytes - kMaxStripeBytes);
  if (rng.OneIn(2)) {
    v.length = rng.Between(1, rng.OneIn(10) ? kMaxInlineBytes : 30);
    v.stripe = StripeId(0);
    v.stripe_offset = 0;
    v.inline_bytes = RandomBytes(rng, v.length);
  } else {
    v.length = rng.Between(1, kMaxStripeBytes);
    v.stripe = StripeId(rng.Between(1, UINT64_MAX - 1));
    v.stripe_offset = rng.Between(0, kMaxStripeBytes - v.length);
    v.inline_bytes.clear();
  }
}
template <class T, class Key>
void SortUnique(std::vector<T>& list, Key key) {
  std::sort(list.begin(), list.end(), [&](const T& a, const T& b) { return key(a) < key(b); });
  list.erase(std::unique(list.begin(), list.end(), [&](const T& a, const T& b) { return key(a) == key(b); }),
             list.end());
}
inline void FixExtents(Random& rng, std::vector<Extent>& list) {
  uint64_t at = rng.Below(1000);
  for (Extent& e : list) {
    e.file_offset = at;
    at = e.end() + (rng.OneIn(2) ? rng.Below(kGiB) : 0);
  }
}
inline void Fix(Random& rng, ClusterMap& v) {
  SortUnique(v.nodes, [](const NodeInfo& n) { return n.id; });
  SortUnique(v.targets, [](const TargetInfo& t) { return t.id; });
}
inline std::vector<uint32_t> RandomCrcs(Random& rng, uint64_t length) {
  std::vector<uint32_t> crcs(DivCeil(length, kChecksumBlockBytes));
  for (uint32_t& c : crcs) c = static_cast<uint32_t>(rng.Next());
  return crcs;
}
inline uint64_t RandomItemBytes(Random& rng) {
  return rng.OneIn(3) ? 0 : rng.OneIn(20) ? rng.Below(200 * kKiB) : rng.Below(2000);
}
inline BufferChain RandomPayload(Random& rng, uint64_t size) {
  BufferChain chain;
  while (size > 0) {
    const uint64_t n = rng.Between(1, size);
    chain.Append(Buffer::FromString(RandomBytes(rng, n)));
    size -= n;
  }
  return chain;
}
inline void Fix(Random& rng, ShardWrite& v) {
  v.offset = rng.Below(1000) * kChecksumBlockBytes;
  v.length = RandomItemBytes(rng);
  v.crcs = RandomCrcs(rng, v.length);
}
inline void Fix(Random& rng, WriteRequest& v) {
  uint64_t sum = 0;
  for (const auto& i : v.items) sum += i.length;
  v.payload = RandomPayload(rng, sum);
}
inline void Fix(Random& rng, ShardRead& v) {
  v.offset = rng.Below(1000) * kChecksumBlockBytes;
  v.length = rng.Between(0, kMaxPayloadBytes / 8);
  v.omit_head = rng.Below(std::min(v.length, kChecksumBlockBytes) / 2 + 1);
  v.omit_tail = rng.Below(std::min(v.length, kChecksumBlockBytes) / 2 + 1);
  if (v.omit_head + v.omit_tail >= v.length) v.omit_head = v.omit_tail = 0;
}
inline void Fix(Random& rng, ReadItem& v) {
  v.length = v.result.code == FsError::kOk ? RandomItemBytes(rng) : 0;
  v.left_out.head_bytes = v.length == 0 ? 0 : rng.Below(kChecksumBlockBytes);
  v.left_out.tail_bytes = v.length == 0 ? 0 : rng.Below(kChecksumBlockBytes);
  v.crcs = RandomCrcs(rng, v.left_out.head_bytes + v.length + v.left_out.tail_bytes);
}
inline void Fix(Random& rng, ReadReply& v) {
  uint64_t sum = 0;
  for (const auto& i : v.items) sum += i.length;
  v.payload = RandomPayload(rng, sum);
}
inline void Fix(Random& rng, PutBackupRequest& v) { v.payload = RandomPayload(rng, rng.Below(2000)); }
inline void Fix(Random& rng, GetBackupReply& v) { v.payload = RandomPayload(rng, rng.Below(2000)); }
inline void Fix(Random& rng, InventoryReply& v) {
  SortUnique(v.shards, [](const ShardStat& s) { return s.shard; });
}
inline void Fix(Random& rng, PollReply& v) {
  SortUnique(v.events, [](const SessionEvent& e) { return e.seq; });
}
inline void Fix(Random& rng, FileLock& v) {
  v.first = rng.Below(kLockToEnd);
  v.last = rng.Between(v.first, kLockToEnd);
}
inline void Fix(Random& rng, NameRequest& v) { v.name = RandomName(rng); }
inline void Fix(Random& rng, DirEntry& v) { v.name = RandomName(rng); }
inline void Fix(Random& rng, MakeNodeRequest& v) { v.name = RandomName(rng); }
inline void Fix(Random& rng, MadeFile& v) { v.name = RandomName(rng); }
inline void Fix(Random& rng, LinkRequest& v) { v.new_name = RandomName(rng); }
inline void Fix(Random& rng, RenameRequest& v) {
  v.name = RandomName(rng);
  v.new_name = RandomName(rng);
}
inline void Fix(Random& rng, XattrRequest& v) { v.name = RandomName(rng); }
inline void Fix(Random& rng, SetAttrRequest& v) {
  if (v.size) v.size = *v.size % kMaxFileBytes;
}
inline void Fix(Random& rng, GetExtentsRequest& v) { v.offset %= kMaxFileBytes; }
inline void Fix(Random& rng, GetExtentsReply& v) {
  FixExtents(rng, v.extents);
  SortUnique(v.stripes, [](const StripeGrant& g) { return g.info.id; });
}
inline void Fix(Random& rng, AllocateRequest& v) { v.payload_bytes %= kMaxStripeBytes; }
inline void Fix(Random& rng, CommitRequest& v) {
  FixExtents(rng, v.extents);
  if (v.extents.size() != 1) v.append = false;
  if (v.grow_to) v.grow_to = *v.grow_to % kMaxFileBytes;
  for (auto& [offset, length] : v.punch) {
    offset = rng.Below(kMaxFileBytes);
    length = rng.Between(0, kMaxFileBytes - offset);
  }
}
inline void Fix(Random& rng, CloneRequest& v) {
  v.from_offset %= kMaxFileBytes;
  v.to_offset %= kMaxFileBytes;
}
inline void Fix(Random& rng, RebuildWork& v) {
  const size_t columns = v.stripe.info.columns.size();
  v.column = static_cast<uint16_t>(rng.Below(columns));
  for (uint16_t& c : v.lost) c = static_cast<uint16_t>(rng.Below(columns));
}

inline void Fix(Random& rng, MakeTokenRequest& v) { v.verifier = RandomBytes(rng, kJoinVerifierBytes); }
inline void Fix(Random&, ReadAuditRequest& v) { v.limit %= kMaxAuditLines + 1; }

template <class T>
void Fill(Random& rng, T& v) {
  if constexpr (kIsVector<T>) {
    v.resize(rng.Below(5));
    for (auto& e : v) Fill(rng, e);
  } else if constexpr (kIsOptional<T>) {
    if (rng.OneIn(2)) Fill(rng, v.emplace());
  } else if constexpr (std::is_same_v<T, std::string>) {
    v = RandomBytes(rng, rng.Below(20));
  } else if constexpr (std::is_same_v<T, bool>) {
    v = rng.OneIn(2);
  } else if constexpr (std::is_same_v<T, double>) {
    v = rng.Unit() * 1e12;
  } else if constexpr (std::is_enum_v<T>) {
    const auto [lo, hi] = kEnumRange<T>;
    CHECK(lo <= hi, "no range given for an enum");
    v = static_cast<T>(rng.Between(static_cast<uint64_t>(lo), static_cast<uint64_t>(hi)));
  } else if constexpr (std::is_integral_v<T>) {
    v = RandomNumber<T>(rng);
  } else if constexpr (kIsId<T>) {
    Fill(rng, v.v);
  } else if constexpr (!std::is_same_v<T, BufferChain> && !kIsPeer<T>) {
    std::apply([&](auto&... members) { (Fill(rng, members), ...); }, Tie(v));
    if constexpr (requires { Fix(rng, v); }) Fix(rng, v);
  }
}

template <class T>
T RandomMessage(Random& rng) {
  T v;
  Fill(rng, v);
  return v;
}

}  // namespace stria::random_messages
