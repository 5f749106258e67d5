#include "proto/wire.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "proto/data.pb.h"
#include "proto/meta.pb.h"
#include "proto/random_messages.h"
#include "proto/trust.pb.h"
#include "proto/validate.h"

namespace stria {
namespace {

using random_messages::RandomBytes;
using random_messages::RandomMessage;
using random_messages::Same;

std::string Flat(const WireMessage& m) { return std::string(m.Bytes().Flatten().view()); }

// The bytes, cut into pieces at random places.
WireMessage Pieces(Random& rng, const std::string& bytes) {
  WireMessage m;
  size_t at = 0;
  while (at < bytes.size()) {
    const size_t n = rng.Between(1, std::min<size_t>(bytes.size() - at, rng.OneIn(3) ? 3 : 10'000));
    Buffer b = Buffer::FromString(bytes.substr(at, n));
    if (at == 0 && rng.OneIn(2)) {
      m.header = b;
    } else {
      m.payload.Append(b);
    }
    at += n;
  }
  return m;
}

// The tests' operations on a type of message. Small templates, because there are many types.
struct MessageType {
  const char* name;
  int members;
  std::string (*sample)(Random&);      // encoded
  std::string (*round_trip)(Random&);  // "" or what went wrong
  std::string (*reread)(const WireMessage&, bool* refused);
};

template <class T>
std::string Differs(const T& sent, const WireMessage& wire) {
  const Result<T> got = Decode<T>(wire);
  if (!got.ok()) return got.error().ToString();
  return Same(sent, got.value()) ? "" : "decoded to something else";
}
template <class T>
std::string RoundTrip(Random& rng) {
  const T sent = RandomMessage<T>(rng);
  const WireMessage wire = Encode(sent);
  const std::string wrong = Differs(sent, wire);
  return wrong.empty() ? Differs(sent, Pieces(rng, Flat(wire))) : wrong;
}
template <class T>
std::string Sample(Random& rng) {
  return Flat(Encode(RandomMessage<T>(rng)));
}
template <class T>
std::string Reread(const WireMessage& wire, bool* refused) {
  const Result<T> got = Decode<T>(wire);
  *refused = !got.ok();
  if (*refused) return got.error().ok() ? "refused without an error" : "";
  return Decode<T>(Encode(got.value())).ok() ? "" : "what was accepted is not valid";
}

const std::vector<MessageType>& AllMessages() {
#define X(T) {#T, random_messages::kMembers<T>, &Sample<T>, &RoundTrip<T>, &Reread<T>},
  static const std::vector<MessageType> all = {STRIA_ALL_MESSAGES(X)};
#undef X
  return all;
}

TEST(Wire, EveryMessageRoundTrips) {
  for (const MessageType& type : AllMessages()) {
    for (uint64_t seed = 1; seed <= 40; ++seed) {
      Random rng(seed);
      ASSERT_EQ(type.round_trip(rng), "") << type.name << ", seed " << seed;
    }
  }
}

// Cuts, flips, inserts and splices.
void Mutate(Random& rng, std::string* bytes) {
  for (uint64_t n = rng.Between(1, 4); n > 0; --n) {
    const size_t at = rng.Below(bytes->size() + 1);
    switch (rng.Below(5)) {
      case 0:
        bytes->resize(at);
        break;
      case 1:
        if (at < bytes->size()) (*bytes)[at] = static_cast<char>((*bytes)[at] ^ (1 << rng.Below(8)));
        break;
      case 2:
        bytes->insert(at, RandomBytes(rng, rng.Between(1, 12)));
        break;
      case 3:
        bytes->insert(at, std::string(rng.Between(1, 10), '\xff'));
        break;
      default:
        bytes->append(bytes->substr(at, rng.Below(100)));
    }
  }
}

// The decoder answers with a message or an error.
TEST(Wire, HostileBytesNeverCrash) {
  for (const MessageType& type : AllMessages()) {
    int refusals = 0;
    for (uint64_t seed = 1; seed <= 150; ++seed) {
      Random rng(seed * 7919);
      std::string bytes = type.sample(rng);
      if (bytes.size() > 20'000) bytes.resize(20'000);
      Mutate(rng, &bytes);
      bool refused = false;
      ASSERT_EQ(type.reread(Pieces(rng, bytes), &refused), "") << type.name << ", seed " << seed;
      refusals += refused;
    }
    if (type.members > 0) EXPECT_GT(refusals, 0) << type.name;
  }
}

TEST(Wire, EveryTruncationIsHandled) {
  Random rng(5);
  WriteRequest request;
  while (request.payload.size() < 100) request = RandomMessage<WriteRequest>(rng);
  const std::string bytes = Flat(Encode(request));
  for (size_t n = 0; n + 1 < bytes.size() && n < 3000; ++n) {
    WireMessage m{Buffer(), BufferChain(Buffer::FromString(bytes.substr(0, n)))};
    if (n == 0) continue;  // no bytes are an empty message
    Result<WriteRequest> got = Decode<WriteRequest>(m);
    if (got.ok()) EXPECT_TRUE(got.value().payload.empty());
  }
}

TEST(Wire, PayloadIsSlicedNotCopied) {
  WriteRequest request;
  const Buffer bulk = Buffer::FromString(std::string(100'000, 'b'));
  ShardWrite item;
  item.length = bulk.size();
  item.crcs = {1, 2};
  request.items = {item};
  request.payload = BufferChain(bulk);
  const WireMessage wire = Encode(request);
  ASSERT_EQ(wire.payload.parts().size(), 1u);
  EXPECT_EQ(wire.payload.parts()[0].data(), bulk.data());
  Result<WriteRequest> got = Decode<WriteRequest>(wire);
  ASSERT_TRUE(got.ok()) << got.error();
  EXPECT_EQ(got.value().payload.parts()[0].data(), bulk.data());
}

TEST(Wire, AnyProtobufClientCanReadAndWriteThePayload) {
  Random rng(11);
  const WriteRequest request = RandomMessage<WriteRequest>(rng);
  v1::WriteRequest plain;
  ASSERT_TRUE(plain.ParseFromString(Flat(Encode(request))));
  EXPECT_EQ(plain.payload(), request.payload.Flatten().view());
  Result<WriteRequest> got = Decode<WriteRequest>(Pieces(rng, plain.SerializeAsString()));
  ASSERT_TRUE(got.ok()) << got.error();
  EXPECT_TRUE(Same(request, got.value()));
}

// The bytes that programs of version 3 exchange.
TEST(Wire, GoldenBytes) {
  NameRequest name;
  name.header.session = SessionId(300);
  name.header.groups = {4, 5};
  name.header.timeout_ns = 1;
  name.parent = kRootInode;
  name.name = "ab";
  EXPECT_EQ(Flat(Encode(name)),
            std::string("\x0a\x10\x08\x03\x12\x00\x18\xac\x02\x4a\x02\x04\x05\x50\x01\x90\x01\x03", 18) +
                std::string("\x10\x01\x1a\x02" "ab", 6));
  ReadReply read;
  read.items.push_back({{}, 2, {7}, {}});
  read.payload = BufferChain(Buffer::FromString("xy"));
  EXPECT_EQ(Flat(Encode(read)),
            std::string("\x0a\x0c\x0a\x00\x10\x02\x1a\x04\x07\x00\x00\x00\x22\x00\x7a\x02xy", 18));
  EXPECT_EQ(Flat(EncodeError(Error(FsError::kNoEnt, "no"))), "\x68\x02\x72\x02no");
}

TEST(Wire, ErrorsCrossExactly) {
  const Error error(FsError::kTooFewDomains, "raid6:4+2 needs 6 nodes, \xff there are 3");
  for (const Result<void>& r : {Result<void>(Decode<ReadReply>(EncodeError(error)).error()),
                                Result<void>(Decode<StatusReply>(EncodeError(error)).error()),
                                Result<void>(Decode<Empty>(EncodeError(error)).error())}) {
    EXPECT_EQ(r.code(), error.code);
    EXPECT_EQ(r.error().message, error.message);
  }
  v1::Empty newer;
  newer.set_error(60'000);
  const Result<Empty> got =
      Decode<Empty>({Buffer(), BufferChain(Buffer::FromString(newer.SerializeAsString()))});
  EXPECT_EQ(got.code(), FsError::kIo);
}

TEST(Wire, LongErrorTextIsCut) {
  const Error error = Decode<Empty>(EncodeError(Error(FsError::kIo, std::string(kMiB, 'x')))).error();
  EXPECT_EQ(error.message.size(), kMaxErrorTextBytes);
}

template <class Pb, class T = Empty>
Error Refusal(const Pb& pb) {
  return Decode<T>({Buffer::FromString(pb.SerializeAsString()), BufferChain()}).error();
}

TEST(Wire, RefusesReadsOfWhichAWholeBlockIsLeftOut) {
  const auto refused = [](uint64_t length, uint64_t head, uint64_t tail) {
    v1::ReadRequest request;
    v1::ShardRead* read = request.add_items();
    read->set_length(length);
    read->set_omit_head(head);
    read->set_omit_tail(tail);
    return Refusal<v1::ReadRequest, ReadRequest>(request).code == FsError::kBadRequest;
  };
  EXPECT_FALSE(refused(2 * kChecksumBlockBytes, kChecksumBlockBytes - 1, kChecksumBlockBytes - 1));
  EXPECT_FALSE(refused(100, 99, 0));
  EXPECT_TRUE(refused(100, 50, 50));
  EXPECT_TRUE(refused(0, 1, 0));
  EXPECT_TRUE(refused(2 * kChecksumBlockBytes, kChecksumBlockBytes, 0));
  EXPECT_TRUE(refused(2 * kChecksumBlockBytes, 0, kChecksumBlockBytes));
  EXPECT_TRUE(refused(100, UINT64_MAX, 2)) << "their sum is 1";
}

TEST(Wire, RefusesWhatNoStructMayHold) {
  v1::NameRequest name;
  name.set_name("a/b");
  EXPECT_EQ((Refusal<v1::NameRequest, NameRequest>(name)).code, FsError::kBadRequest);
  name.set_name(std::string(256, 'n'));
  EXPECT_EQ((Refusal<v1::NameRequest, NameRequest>(name)).code, FsError::kNameTooLong);
  name.set_name("fine");
  EXPECT_TRUE((Refusal<v1::NameRequest, NameRequest>(name)).ok());

  for (size_t i = 0; i < kMaxRequestSeals; ++i) name.mutable_header()->add_seals()->set_ino(i + 1);
  EXPECT_TRUE((Refusal<v1::NameRequest, NameRequest>(name)).ok());
  name.mutable_header()->add_seals();
  EXPECT_EQ((Refusal<v1::NameRequest, NameRequest>(name)).code, FsError::kBadRequest);

  v1::NodeReply node;  // type 0
  EXPECT_EQ((Refusal<v1::NodeReply, NodeReply>(node)).code, FsError::kBadRequest);
  node.mutable_attr()->set_type(static_cast<v1::FileType>(99));
  EXPECT_EQ((Refusal<v1::NodeReply, NodeReply>(node)).ToString(),
            Error(FsError::kBadRequest,
                  "malformed NodeReply: attr: type has a number that is not in its list").ToString());

  v1::CommitRequest commit;
  auto* extent = commit.add_extents();
  extent->set_file_offset(100);
  extent->set_length(3);
  extent->set_inline_bytes("abc");
  EXPECT_TRUE((Refusal<v1::CommitRequest, CommitRequest>(commit)).ok());
  *commit.add_extents() = *extent;
  EXPECT_EQ((Refusal<v1::CommitRequest, CommitRequest>(commit)).code, FsError::kBadRequest);
  commit.mutable_extents(1)->set_file_offset(UINT64_MAX);
  EXPECT_FALSE((Refusal<v1::CommitRequest, CommitRequest>(commit)).ok());

  v1::AllocateReply alloc;
  v1::StripeGrant* grant = alloc.add_stripes();
  v1::StripeShape* shape = grant->mutable_info()->mutable_shape();
  shape->set_groups(1);
  shape->set_k(1);
  shape->set_codec(static_cast<v1::Codec>(Codec::kNone));
  shape->set_unit_bytes(4096);
  grant->mutable_info()->add_columns();
  grant->add_tokens();
  grant->set_max_column_bytes(8192);
  EXPECT_TRUE((Refusal<v1::AllocateReply, AllocateReply>(alloc)).ok());
  grant->set_max_column_bytes(8191);
  EXPECT_EQ((Refusal<v1::AllocateReply, AllocateReply>(alloc)).code, FsError::kBadRequest);

  v1::ReportShardRequest report;
  report.set_column(70'000);
  EXPECT_EQ((Refusal<v1::ReportShardRequest, ReportShardRequest>(report)).code, FsError::kBadRequest);

  v1::ReadRequest read;
  for (size_t i = 0; i <= kMaxDataItems; ++i) read.add_items();
  EXPECT_EQ((Refusal<v1::ReadRequest, ReadRequest>(read)).code, FsError::kBadRequest);
  read.clear_items();
  for (int i = 0; i < 2; ++i) read.add_items()->set_length(3 * kMiB);
  EXPECT_EQ((Refusal<v1::ReadRequest, ReadRequest>(read)).code, FsError::kBadRequest);
}

TEST(Wire, RefusesWhatNobodyAsksOfTrust) {
  v1::MakeTokenRequest make;
  make.set_role(v1::ROLE_CLIENT);
  make.set_verifier(std::string(kJoinVerifierBytes, 'v'));
  EXPECT_TRUE((Refusal<v1::MakeTokenRequest, MakeTokenRequest>(make)).ok());
  make.set_verifier(std::string(kJoinVerifierBytes + 1, 'v'));
  EXPECT_EQ((Refusal<v1::MakeTokenRequest, MakeTokenRequest>(make)).code, FsError::kBadRequest);
  make.set_verifier(std::string(kJoinVerifierBytes, 'v'));
  make.set_role(v1::ROLE_UNSPECIFIED);
  EXPECT_EQ((Refusal<v1::MakeTokenRequest, MakeTokenRequest>(make)).code, FsError::kBadRequest);
  v1::RenewCertificateRequest renew;
  renew.set_request(std::string(kMaxCertificateRequestBytes, 'r'));
  EXPECT_TRUE((Refusal<v1::RenewCertificateRequest, RenewCertificateRequest>(renew)).ok());
  renew.set_request(std::string(kMaxCertificateRequestBytes + 1, 'r'));
  EXPECT_EQ((Refusal<v1::RenewCertificateRequest, RenewCertificateRequest>(renew)).code, FsError::kBadRequest);
  v1::ReadAuditRequest audit;
  audit.set_limit(kMaxAuditLines + 1);
  EXPECT_EQ((Refusal<v1::ReadAuditRequest, ReadAuditRequest>(audit)).code, FsError::kBadRequest);
}

TEST(Wire, MillionsOfTinyFieldsAreRefusedUnparsed) {
  std::string bytes;  // field 4 (extents) of CommitRequest, empty, over and over
  for (size_t i = 0; i < 2 * kMaxWireFields; ++i) bytes += std::string("\x22\x00", 2);
  const Error error = Decode<CommitRequest>({Buffer::FromString(bytes), BufferChain()}).error();
  EXPECT_EQ(error.code, FsError::kBadRequest) << error;
  EXPECT_NE(error.message.find("too many"), std::string::npos) << error;
}

TEST(Wire, OversizedMessagesAreRefused) {
  const Buffer big = Buffer::FromString(std::string(kMaxMessageBytes + 1, 0));
  EXPECT_EQ(Decode<Empty>({big, BufferChain()}).code(), FsError::kBadRequest);
}

}  // namespace
}  // namespace stria
