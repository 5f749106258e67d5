#include "meta/replica/register_client.h"

#include <gtest/gtest.h>

#include "common/exec/sim_run.h"
#include "meta/replica/register_text.h"
#include "test/sim/replica/fake_coordinator.h"

namespace stria {
namespace {

ClusterKey KeyOf(uint8_t byte) {
  ClusterKey key;
  key.id = 1;
  key.secret.fill(byte);
  return key;
}

Register Sample() {
  Register r;
  r.version = 17;
  r.nonce = {5, 5};
  r.incarnation = 2;
  r.term = uint64_t{1} << 40;
  r.primary = "pc2";
  r.in_sync = {"pc1", "pc2"};
  r.min_in_sync = 2;
  r.handed = MetaLife{"pc1", 7};
  r.members = {{"pc1", {{1, 1}, "pc1:7424", "1.4", 3}}, {"pc2", {{1, 2}, "[fe80::2]:7424", "1.4 \"rc\"", 0xffffffff}}};
  return r;
}

TEST(RegisterText, ComesBackAsItWas) {
  const PurposeMac mac(KeyOf(1), kRegisterPurpose);
  Register r = Sample();
  const std::string text = EncodeRegister(r, mac);
  EXPECT_EQ(text.find('\n'), std::string::npos);
  const Result<Register> back = DecodeRegister(text, mac);
  ASSERT_TRUE(back.ok()) << back.error();
  EXPECT_EQ(*back, r);
  r.handed.reset();
  EXPECT_EQ(*DecodeRegister(EncodeRegister(r, mac), mac), r);
  EXPECT_EQ(RegisterKey({1, 2}), "/stria/00000000-0000-0001-0000-000000000002/meta");
}

TEST(RegisterText, TakesNoOneElsesWord) {
  const PurposeMac mac(KeyOf(1), kRegisterPurpose), other(KeyOf(2), kRegisterPurpose);
  const std::string text = EncodeRegister(Sample(), mac);
  EXPECT_EQ(DecodeRegister(text, other).code(), FsError::kBadToken);
  EXPECT_EQ(DecodeRegister("", mac).code(), FsError::kBadToken);
  EXPECT_EQ(DecodeRegister("{}", mac).code(), FsError::kBadToken);
  EXPECT_EQ(DecodeRegister(std::string(1 << 20, 'x'), mac).code(), FsError::kBadToken);
  for (size_t i = 0; i < text.size(); ++i) {
    std::string changed = text;
    changed[i] = static_cast<char>(changed[i] ^ 1);
    EXPECT_EQ(DecodeRegister(changed, mac).code(), FsError::kBadToken) << i;
    EXPECT_FALSE(DecodeRegister(text.substr(0, i), mac).ok()) << i;
  }
}

// As a member of another release, or one gone mad, could write it: with the right key.
TEST(RegisterText, ChecksWhatMembersWrite) {
  const PurposeMac mac(KeyOf(1), kRegisterPurpose);
  const auto sealed = [&](std::string text) {
    const size_t tail = std::string_view(",\"mac\":\"").size() + 64 + 2;
    static constexpr char kDigits[] = "0123456789abcdef";
    text.resize(text.size() - tail);
    std::string hex;
    for (const uint8_t b : mac.Of(text)) hex += {kDigits[b >> 4], kDigits[b & 15]};
    return text + ",\"mac\":\"" + hex + "\"}";
  };
  const auto with = [&](std::string_view what, std::string_view instead) {
    std::string text = EncodeRegister(Sample(), mac);
    const size_t at = text.find(what);
    EXPECT_NE(at, std::string::npos) << what;
    text.replace(at, what.size(), instead);
    return DecodeRegister(sealed(text), mac).code();
  };
  EXPECT_EQ(with("\"format\":1", "\"format\":1"), FsError::kOk);
  EXPECT_EQ(with("\"format\":1", "\"format\":1,\"later\":[1]"), FsError::kOk);
  EXPECT_EQ(with("\"format\":1", "\"format\":2"), FsError::kVersion);
  EXPECT_EQ(with("\"version\":17", "\"version\":-17"), FsError::kCorrupt);
  EXPECT_EQ(with("\"version\":17", "\"version\":\"17\""), FsError::kCorrupt);
  EXPECT_EQ(with("\"primary\":\"pc2\"", "\"primary\":\"pc9\""), FsError::kCorrupt);
  EXPECT_EQ(with("\"in_sync\":[", "\"in_sync\":[7,"), FsError::kCorrupt);
  EXPECT_EQ(with("\"in_sync\":[", "\"in_synch\":["), FsError::kCorrupt);
  EXPECT_EQ(with("\"features\":3", "\"features\":4294967296"), FsError::kCorrupt);
  EXPECT_EQ(with("{\"format\"", "[\"format\""), FsError::kCorrupt);
}

struct World {
  SimExecutor ex{1};
  PurposeMac mac{KeyOf(1), kRegisterPurpose};
  FakeCoordinator etcd{&ex, {}};
  std::unique_ptr<Coordinator> at_pc1 = etcd.For("pc1"), at_pc2 = etcd.For("pc2");
  RegisterClient pc1{at_pc1.get(), &mac}, pc2{at_pc2.get(), &mac};
};

Register Next(const Register& r, uint64_t nonce) {
  Register next = r;
  ++next.version;
  next.nonce = {6, nonce};
  return next;
}

TEST(RegisterClient, OneOfTwoSwapsIsCarriedOut) {
  World w;
  Result<std::optional<Register>> none = RunSim(w.ex, w.pc1.Read());
  ASSERT_TRUE(none.ok()) << none.error();
  EXPECT_FALSE(none->has_value());
  const Register first = Sample();
  EXPECT_EQ(*RunSim(w.ex, w.pc1.Create(first)), first);
  // Nobody founds it twice.
  EXPECT_EQ(*RunSim(w.ex, w.pc2.Create(Next(first, 9))), first);
  const RegisterSwap a{first, Next(first, 1)}, b{first, Next(first, 2)};
  EXPECT_EQ(*RunSim(w.ex, w.pc1.Swap(a)), a.value);
  EXPECT_EQ(*RunSim(w.ex, w.pc2.Swap(b)), a.value);
  EXPECT_EQ(**RunSim(w.ex, w.pc2.Read()), a.value);
  EXPECT_EQ(w.etcd.changes(), 2u);
  // The same again, as after a lost answer.
  EXPECT_EQ(*RunSim(w.ex, w.pc1.Swap(a)), a.value);
  EXPECT_EQ(w.etcd.changes(), 2u);
}

// Another release may put the fields in another order.
TEST(RegisterClient, SwapsByTheBytesThatAreThere) {
  World w;
  std::string text = EncodeRegister(Sample(), w.mac);
  // One more field, which this release does not know.
  const std::string body = text.substr(0, text.size() - 64 - 2 - std::string_view(",\"mac\":\"").size()) + ",\"later\":1";
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string hex;
  for (const uint8_t b : w.mac.Of(body)) hex += {kDigits[b >> 4], kDigits[b & 15]};
  ASSERT_TRUE(RunSim(w.ex, w.at_pc2->Swap(std::nullopt, body + ",\"mac\":\"" + hex + "\"}")).ok());
  const Register seen = **RunSim(w.ex, w.pc1.Read());
  EXPECT_EQ(seen, Sample());
  const Register next = Next(seen, 1);
  EXPECT_EQ(*RunSim(w.ex, w.pc1.Swap({seen, next})), next);
}

// Another key is taken into use: first all have it beside the former one, then it seals, then the former one goes.
TEST(RegisterClient, AnotherKeyIsTakenIntoUse) {
  SimExecutor ex(1);
  FakeCoordinator etcd(&ex, {});
  const std::unique_ptr<Coordinator> asks = etcd.For("a");
  const PurposeMac first(KeyOf(1), kRegisterPurpose), second(KeyOf(2), kRegisterPurpose);
  RegisterClient before(asks.get(), &first, {&second}), after(asks.get(), &second, {&first}), only(asks.get(), &second);
  const Register r = Sample();
  ASSERT_TRUE(RunSim(ex, before.Create(r)).ok());
  EXPECT_EQ(**RunSim(ex, before.Read()), r);
  EXPECT_FALSE(before.IsToBeSealedAnew());
  EXPECT_EQ(RunSim(ex, only.Read()).code(), FsError::kBadToken);
  EXPECT_EQ(**RunSim(ex, after.Read()), r);
  EXPECT_TRUE(after.IsToBeSealedAnew());
  Register next = r;
  ++next.version;
  next.nonce = Uuid{99, 99};
  ASSERT_EQ(RunSim(ex, after.Swap({r, next})).value(), next) << "by the bytes that are there";
  EXPECT_FALSE(after.IsToBeSealedAnew());
  EXPECT_EQ(**RunSim(ex, only.Read()), next);
  EXPECT_EQ(**RunSim(ex, before.Read()), next);
}

TEST(RegisterClient, AForgedValueIsNoRegister) {
  World w;
  ASSERT_TRUE(RunSim(w.ex, w.at_pc2->Swap(std::nullopt, "{}")).ok());
  EXPECT_EQ(RunSim(w.ex, w.pc1.Read()).code(), FsError::kBadToken);
  EXPECT_EQ(RunSim(w.ex, w.pc1.Create(Sample())).code(), FsError::kBadToken);
}

TEST(RegisterClient, AnErrorSaysNothing) {
  World w;
  const Register first = Sample();
  ASSERT_TRUE(RunSim(w.ex, w.pc1.Create(first)).ok());
  w.etcd.SetUp(false);
  EXPECT_EQ(RunSim(w.ex, w.pc1.Read()).code(), FsError::kDeadline);
  w.etcd.SetUp(true);
  w.etcd.CutFrom("pc1", true);  // the request arrives, the answer does not
  const RegisterSwap swap{first, Next(first, 1)};
  EXPECT_EQ(RunSim(w.ex, w.pc1.Swap(swap)).code(), FsError::kDeadline);
  EXPECT_EQ(**RunSim(w.ex, w.pc2.Read()), swap.value);
}

// Its asker has given up long ago.
TEST(RegisterClient, ASwapIsCarriedOutLate) {
  World w;
  const Register first = Sample();
  ASSERT_TRUE(RunSim(w.ex, w.pc1.Create(first)).ok());
  FakeCoordinatorOptions late;
  late.late_percent = 100;
  late.late_ns = 3600 * kSecond;
  w.etcd.SetOptions(late);
  const RegisterSwap swap{first, Next(first, 1)};
  EXPECT_EQ(RunSim(w.ex, w.pc1.Swap(swap)).code(), FsError::kDeadline);
  w.etcd.SetOptions({});
  EXPECT_EQ(**RunSim(w.ex, w.pc2.Read()), first);
  w.ex.RunFor(3600 * kSecond);
  EXPECT_EQ(**RunSim(w.ex, w.pc2.Read()), swap.value);
}

}  // namespace
}  // namespace stria
