#include "meta/backup/archive.h"

#include <gtest/gtest.h>

#include <string>

#include "common/random.h"
#include "meta/backup/archive_testing.h"
#include "meta/backup/batch_tape.h"
#include "meta/model/families.h"

namespace stria {
namespace {

std::string RandomText(Random& rng, size_t most) {
  std::string s(rng.Below(most + 1), '\0');
  for (char& c : s) c = static_cast<char>(rng.Next());
  return s;
}

KvBatch RandomBatch(Random& rng) {
  KvBatch b;
  for (uint64_t n = rng.Below(5); n > 0; --n) {
    const auto family = static_cast<KvFamily>(rng.Below(kFamilies));
    if (rng.OneIn(3)) b.Delete(family, RandomText(rng, 12));
    else b.Put(family, RandomText(rng, 12), RandomText(rng, 40));
  }
  return b;
}

bool Same(const KvBatch& a, const KvBatch& b) {
  if (a.ops.size() != b.ops.size()) return false;
  for (size_t i = 0; i < a.ops.size(); ++i) {
    if (a.ops[i].family != b.ops[i].family || a.ops[i].key != b.ops[i].key || a.ops[i].value != b.ops[i].value) return false;
  }
  return true;
}

ArchiveHead Head(ArchiveKind kind, uint64_t first, uint64_t last) {
  ArchiveHead h;
  h.cluster = Uuid{1, 2};
  h.name.incarnation = 3;
  h.name.term = 4;
  h.name.kind = kind;
  h.name.first = CommitSeq(first);
  h.name.last = last;
  h.wall_ns = -5;
  return h;
}

std::string FromHex(const std::string& hex) {
  std::string bytes;
  for (size_t i = 0; i < hex.size(); i += 2) bytes += static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16));
  return bytes;
}

const ArchiveSeal& Seal() {
  static const ArchiveSeal seal = [] {
    ClusterKey key;
    key.id = 9;
    key.secret.fill(0x5a);
    return ArchiveSeal({key});
  }();
  return seal;
}

TEST(ArchiveName, ReadsBackAndSortsByLife) {
  Random rng(1);
  std::vector<ArchiveName> names;
  for (int i = 0; i < 200; ++i) {
    ArchiveName n;
    n.incarnation = rng.Next() >> rng.Below(64);
    n.term = rng.Next() >> rng.Below(64);
    n.kind = static_cast<ArchiveKind>(1 + rng.Below(3));
    n.first = CommitSeq(rng.Next());
    n.walk = rng.Below(1000);
    n.last = rng.Next();
    const std::string text = n.ToString();
    EXPECT_EQ(ParseArchiveName(text), n) << text;
    EXPECT_EQ(ParseArchiveName(text.substr(0, rng.Below(text.size()))), std::nullopt);
    std::string other = text;
    other[rng.Below(other.size())] = '.';
    EXPECT_EQ(ParseArchiveName(other), std::nullopt) << other;
    EXPECT_EQ(ParseArchiveName(text + "0"), std::nullopt);
  }
  EXPECT_EQ(ParseArchiveName(""), std::nullopt);
  EXPECT_EQ(ParseArchiveName("meta"), std::nullopt);
  EXPECT_LT(Head(ArchiveKind::kComplete, 9, 9).name, [] {
    ArchiveName n = Head(ArchiveKind::kPage, 1, 1).name;
    ++n.term;
    return n;
  }());
}

TEST(Archive, GoldenBytes) {
  KvBatch b;
  b.Put(1, "k", "v");
  b.Delete(2, "d");
  const std::string segment =
      EncodeArchive(Head(ArchiveKind::kSegment, 7, 7), EncodeSegmentBody({EncodeArchivedBatch(CommitSeq(7), 8, b)}), Seal());
  std::string hex;
  for (const char c : segment) {
    hex += "0123456789abcdef"[static_cast<uint8_t>(c) >> 4];
    hex += "0123456789abcdef"[static_cast<uint8_t>(c) & 15];
  }
  EXPECT_EQ(hex,
            "73747269614d4231" "03000000" "45000000"
            "0100000000000000" "0200000000000000" "0300000000000000" "0400000000000000" "02"
            "0700000000000000" "0000000000000000" "0700000000000000" "fbffffffffffffff" "09000000"
            "3b000000"  // HKDF, HMAC and GCM by another program
            "047feb616ac03412953e21543729981f3b8d43eafe3bd1629ad436f78c5ab09a5eb50d026c9cf4d978f67a"
            "a79609569337d1290ba06ad9ed2404b2"
            "3a98e973259ebbb7dcabba5357335756513ad61b615b3758cc57c909a5dad721"
            "f79503d2dbc33e9a");
  EXPECT_EQ(Head(ArchiveKind::kSegment, 7, 7).name.ToString(),
            "meta-0000000000000003-0000000000000004-s-0000000000000007-0000000000000000-0000000000000007");
}

// As the releases before made them: they can be read, and prove nothing.
TEST(Archive, WhatIsNotSealedIsToldApart) {
  const std::string hex =
      "73747269614d4231" "01000000" "41000000"
      "0100000000000000" "0200000000000000" "0300000000000000" "0400000000000000" "02"
      "0700000000000000" "0000000000000000" "0700000000000000" "fbffffffffffffff"
      "2b000000" "01000000" "0700000000000000" "0800000000000000" "02000000"
      "0101" "010000006b" "0100000076" "0200" "0100000064"
      "ccc6f9dade1869c3";
  const std::string bytes = FromHex(hex);
  EXPECT_EQ(bytes, EncodeClearArchive(Head(ArchiveKind::kSegment, 7, 7), bytes.substr(85, 43), nullptr));
  const auto opened = OpenArchive(bytes);
  ASSERT_TRUE(opened.ok()) << opened.error();
  EXPECT_EQ(opened->head, Head(ArchiveKind::kSegment, 7, 7));
  EXPECT_EQ(DecodeSegment(*opened)->size(), 1u);
  EXPECT_EQ(opened->key_id, 0u);
  EXPECT_EQ(Unseal(*opened, Seal()).code(), FsError::kAccess);
}

// As the releases after them made them.
TEST(Archive, WhatIsSealedAndNotEncryptedIsRead) {
  const std::string hex =
      "73747269614d4231" "02000000" "45000000"
      "0100000000000000" "0200000000000000" "0300000000000000" "0400000000000000" "02"
      "0700000000000000" "0000000000000000" "0700000000000000" "fbffffffffffffff" "09000000"
      "2b000000" "01000000" "0700000000000000" "0800000000000000" "02000000"
      "0101" "010000006b" "0100000076" "0200" "0100000064"
      "bda32e748a2c1746a2479abe05096b4ea1049a2f1bd5d4338901090ba5e3b8ff"
      "d2b2202dffc99c22";
  const std::string bytes = FromHex(hex);
  EXPECT_EQ(bytes, EncodeClearArchive(Head(ArchiveKind::kSegment, 7, 7), bytes.substr(89, 43), &Seal()));
  const auto opened = OpenArchive(bytes);
  ASSERT_TRUE(opened.ok()) << opened.error();
  EXPECT_EQ(opened->head, Head(ArchiveKind::kSegment, 7, 7));
  EXPECT_EQ(opened->key_id, 9u);
  EXPECT_FALSE(opened->encrypted);
  const auto unsealed = Unseal(*opened, Seal());
  ASSERT_TRUE(unsealed.ok()) << unsealed.error();
  EXPECT_EQ(DecodeSegment(*unsealed)->size(), 1u);
  ClusterKey key;
  key.id = 9;
  EXPECT_EQ(Unseal(*opened, ArchiveSeal({key})).code(), FsError::kAccess) << "another key of that number";
  // Every byte that is sealed counts, also where nobody looks at a hash.
  for (size_t i = 0; i < opened->sealed.size(); ++i) {
    std::string other(opened->sealed);
    other[i] = static_cast<char>(other[i] ^ 1);
    EXPECT_FALSE(Seal().Check(9, other, opened->seal).ok()) << i;
  }
}

// A copy of `bytes` with another byte, whole again for who looks at its hash only.
std::string Hurt(std::string bytes, size_t at) {
  bytes[at] = static_cast<char>(bytes[at] ^ 1);
  const uint64_t hash = XXH3_64bits(bytes.data(), bytes.size() - 8);
  for (int i = 0; i < 8; ++i) bytes[bytes.size() - 8 + static_cast<size_t>(i)] = static_cast<char>(hash >> 8 * i);
  return bytes;
}

TEST(Archive, ASealIsOfItsKeyAndOfAllBytes) {
  const std::string body = EncodeComplete({1, 2, 3});
  const std::string bytes = EncodeArchive(Head(ArchiveKind::kComplete, 5, 9), body, Seal());
  const OpenedArchive opened = OpenArchive(bytes).value();
  EXPECT_EQ(opened.key_id, 9u);
  const auto unsealed = Unseal(opened, Seal());
  ASSERT_TRUE(unsealed.ok()) << unsealed.error();
  EXPECT_EQ(unsealed->body, body);
  EXPECT_EQ(DecodeComplete(*unsealed).value(), (std::vector<uint64_t>{1, 2, 3}));
  ClusterKey key;
  key.id = 9;
  EXPECT_EQ(Unseal(opened, ArchiveSeal({key})).code(), FsError::kAccess) << "another key of that number";
  key.id = 10;
  EXPECT_EQ(Unseal(opened, ArchiveSeal({key})).code(), FsError::kAccess);
  for (size_t i = 0; i + 8 < bytes.size(); ++i) {
    const std::string hurt = Hurt(bytes, i);
    const auto other = OpenArchive(hurt);
    EXPECT_FALSE(other.ok() && Unseal(*other, Seal()).ok()) << i;
  }
}

// Data servers keep the objects: names, rights, contents of small files and the keys of exports are in them.
TEST(Archive, NobodyReadsItWithoutTheKey) {
  const std::string secret = "the contents of a small file, or a key";
  KvBatch batch;
  batch.Put(1, "a name that is told to few", secret);
  PageWriter page;
  page.Add(1, "a name that is told to few", secret);
  const std::string bodies[] = {EncodeSegmentBody({EncodeArchivedBatch(CommitSeq(5), 8, batch)}), page.TakeBody()};
  const ArchiveHead heads[] = {Head(ArchiveKind::kSegment, 5, 5), Head(ArchiveKind::kPage, 5, 0)};
  for (size_t i = 0; i < 2; ++i) {
    const std::string bytes = EncodeArchive(heads[i], bodies[i], Seal());
    EXPECT_EQ(bytes.find("contents"), std::string::npos);
    EXPECT_EQ(bytes.find("a name"), std::string::npos);
    for (size_t at = 0; at + 8 <= secret.size(); ++at) EXPECT_EQ(bytes.find(secret.substr(at, 8)), std::string::npos) << at;
    const OpenedArchive opened = OpenArchive(bytes).value();
    EXPECT_TRUE(opened.encrypted);
    EXPECT_EQ(opened.body, "");
    EXPECT_FALSE(DecodeSegment(opened).ok() || DecodePage(opened).ok());
    EXPECT_EQ(Unseal(opened, Seal())->body, bodies[i]);
  }
  // Equal bodies of different objects look different, and a key is not used twice: only the very same object is made of it again.
  const std::string one = EncodeArchive(heads[1], bodies[1], Seal());
  EXPECT_EQ(one, EncodeArchive(heads[1], bodies[1], Seal()));
  ArchiveHead later = heads[1];
  ++later.wall_ns;
  const std::string two = EncodeArchive(later, bodies[1], Seal());
  const OpenedArchive a = OpenArchive(one).value(), b = OpenArchive(two).value();
  EXPECT_NE(a.seal, b.seal);
  size_t same = 0;
  for (size_t i = 0; i < a.cipher.size(); ++i) same += a.cipher[i] == b.cipher[i];
  EXPECT_LT(same, a.cipher.size() / 4);
}

// Without the key it is restored on a person's word, so what is not encrypted is sealed all the same.
TEST(Archive, IsSealedWhereItIsNotEncrypted) {
  KvBatch batch;
  batch.Put(1, "a name", "a value");
  const std::string body = EncodeSegmentBody({EncodeArchivedBatch(CommitSeq(5), 8, batch)});
  std::string bytes = EncodeArchive(Head(ArchiveKind::kSegment, 5, 5), body, Seal(), false);
  EXPECT_NE(bytes.find("a value"), std::string::npos);
  const OpenedArchive opened = OpenArchive(bytes).value();
  EXPECT_FALSE(opened.encrypted);
  EXPECT_EQ(opened.body, body);
  EXPECT_NE(opened.key_id, 0u);
  EXPECT_EQ(Unseal(opened, Seal())->body, body);
  EXPECT_EQ(DecodeSegment(opened)->size(), 1u);
}

TEST(Archive, SegmentsReadBack) {
  for (uint64_t seed = 1; seed <= 50; ++seed) {
    Random rng(seed);
    BatchTape tape;
    tape.Begin(CommitSeq(10));
    std::vector<KvBatch> batches;
    for (uint64_t n = 1 + rng.Below(20); n > 0; --n) {
      batches.push_back(RandomBatch(rng));
      tape.Add(CommitSeq(10 + batches.size()), 0, static_cast<int64_t>(batches.size()), batches.back());
    }
    EXPECT_EQ(tape.last().v, 10 + batches.size());
    uint64_t next = 11;
    const CommitSeq durable(10 + rng.Below(batches.size() + 1));
    while (const auto cut = tape.CutAt(durable, 1 + rng.Below(300))) {
      EXPECT_EQ(cut->first.v, next);
      EXPECT_LE(cut->last, durable);
      const std::string bytes = EncodeArchive(Head(ArchiveKind::kSegment, cut->first.v, cut->last.v), cut->body, Seal());
      const auto opened = OpenArchive(bytes);
      ASSERT_TRUE(opened.ok()) << opened.error();
      EXPECT_EQ(opened->head, Head(ArchiveKind::kSegment, cut->first.v, cut->last.v));
      const auto back = DecodeSegment(*Unseal(*opened, Seal()));
      ASSERT_TRUE(back.ok()) << back.error();
      for (const ArchivedBatch& b : *back) {
        EXPECT_EQ(b.seq.v, next);
        EXPECT_EQ(b.wall_ns, static_cast<int64_t>(next - 10));
        EXPECT_TRUE(Same(b.batch, batches[next - 11]));
        ++next;
      }
      tape.Drop(cut->last);
    }
    EXPECT_EQ(next, durable.v + 1);
    EXPECT_EQ(tape.after(), durable);
    EXPECT_EQ(tape.oldest_ns().has_value(), durable.v < 10 + batches.size());
    // A name that promises other batches.
    if (durable.v < 12) continue;
    BatchTape again;
    again.Begin(CommitSeq(10));
    again.Add(CommitSeq(11), 0, 1, batches[0]);
    const std::string lie = EncodeArchive(Head(ArchiveKind::kSegment, 11, 12), again.CutAt(durable, 1000)->body, Seal());
    EXPECT_EQ(DecodeSegment(*Unseal(*OpenArchive(lie), Seal())).code(), FsError::kCorrupt);
    const std::string shifted = EncodeArchive(Head(ArchiveKind::kSegment, 12, 12), again.CutAt(durable, 1000)->body, Seal());
    EXPECT_EQ(DecodeSegment(*Unseal(*OpenArchive(shifted), Seal())).code(), FsError::kCorrupt);
  }
}

TEST(Archive, OneBatchReadsBackAlone) {
  for (uint64_t seed = 1; seed <= 50; ++seed) {
    Random rng(seed);
    const KvBatch batch = RandomBatch(rng);
    const std::string bytes = EncodeArchivedBatch(CommitSeq(seed), -3, batch);
    const auto back = DecodeArchivedBatch(bytes);
    ASSERT_TRUE(back.ok()) << back.error();
    EXPECT_EQ(back->seq, CommitSeq(seed));
    EXPECT_EQ(back->wall_ns, -3);
    EXPECT_TRUE(Same(back->batch, batch));
    EXPECT_EQ(DecodeArchivedBatch(bytes + "x").code(), FsError::kCorrupt);
    EXPECT_EQ(DecodeArchivedBatch(bytes.substr(0, bytes.size() - 1)).code(), FsError::kCorrupt);
  }
  KvBatch newer;
  newer.Put(static_cast<KvFamily>(kFamilies), "k", "v");
  EXPECT_EQ(DecodeArchivedBatch(EncodeArchivedBatch(CommitSeq(1), 0, newer)).code(), FsError::kVersion);
}

TEST(BatchTape, StopsWhenItWouldHoldTooMuch) {
  BatchTape tape(1000);
  KvBatch b;
  b.Put(0, "k", std::string(400, 'x'));
  tape.Add(CommitSeq(1), 1, 0, b);
  EXPECT_FALSE(tape.recording());
  tape.Begin(CommitSeq(5));
  tape.Add(CommitSeq(6), 1, 0, b);
  tape.Add(CommitSeq(7), 2, 0, b);
  EXPECT_TRUE(tape.recording());
  tape.Drop(CommitSeq(6));
  tape.Add(CommitSeq(8), 3, 0, b);
  EXPECT_EQ(tape.oldest_ns(), 2);
  EXPECT_TRUE(tape.recording());
  tape.Add(CommitSeq(9), 4, 0, b);
  EXPECT_FALSE(tape.recording());
  EXPECT_FALSE(tape.CutAt(CommitSeq(9), 10).has_value());
  EXPECT_EQ(tape.bytes(), 0u);
  tape.Add(CommitSeq(20), 5, 0, b);  // nothing, whatever is added
  tape.Begin(CommitSeq(20));
  tape.Add(CommitSeq(21), 6, 0, b);
  EXPECT_EQ(tape.last(), CommitSeq(21));
}

// Any damage to the bytes gives an error, or what was written; never a crash.
TEST(Archive, DamagedBytesAreRefused) {
  Random rng(7);
  PageWriter page;
  for (int i = 0; i < 20; ++i) page.Add(static_cast<KvFamily>(rng.Below(kFamilies)), RandomText(rng, 9), RandomText(rng, 30));
  const std::vector<std::string> whole = {
      EncodeArchive(Head(ArchiveKind::kSegment, 5, 6),
                    EncodeSegmentBody({EncodeArchivedBatch(CommitSeq(5), 1, RandomBatch(rng)),
                                       EncodeArchivedBatch(CommitSeq(6), 2, RandomBatch(rng))}), Seal()),
      EncodeArchive(Head(ArchiveKind::kPage, 5, 0), page.TakeBody(), Seal()),
      EncodeArchive(Head(ArchiveKind::kComplete, 5, 9), EncodeComplete({1, 2, 3}), Seal()),
  };
  for (const std::string& good : whole) {
    ASSERT_TRUE(OpenArchive(good).ok());
    for (int i = 0; i < 2000; ++i) {
      std::string bytes = good;
      if (rng.OneIn(3)) bytes.resize(rng.Below(bytes.size()));
      else bytes[rng.Below(bytes.size())] ^= static_cast<char>(1 + rng.Below(255));
      EXPECT_FALSE(OpenArchive(bytes).ok());
    }
    // Bodies that are wrong although the hash is right.
    const OpenedArchive opened = *Unseal(*OpenArchive(good), Seal());
    for (int i = 0; i < 2000; ++i) {
      std::string body(opened.body);
      switch (rng.Below(3)) {
        case 0: body.resize(rng.Below(body.size())); break;
        case 1: body += RandomText(rng, 8) + "x"; break;
        default: body[rng.Below(body.size())] = static_cast<char>(rng.Next());
      }
      const std::string bytes = EncodeArchive(opened.head, body, Seal());
      const auto again = Unseal(*OpenArchive(bytes), Seal());
      ASSERT_TRUE(again.ok());
      const auto segment = DecodeSegment(*again);
      const auto entries = DecodePage(*again);
      const auto hashes = DecodeComplete(*again);
      EXPECT_LE(segment.ok() + entries.ok() + hashes.ok(), 1);
      if (segment.ok()) {
        for (const ArchivedBatch& b : *segment) {
          for (const KvOp& op : b.batch.ops) EXPECT_LT(op.family, kFamilies);
        }
      }
    }
  }
  EXPECT_FALSE(OpenArchive("").ok());
  EXPECT_FALSE(OpenArchive(std::string(kMaxArchiveBytes + 1, 'x')).ok());
}

TEST(Archive, FamiliesOfANewerReleaseAreRefused) {
  PageWriter page;
  page.Add(static_cast<KvFamily>(kFamilies), "k", "v");
  const std::string bytes = EncodeArchive(Head(ArchiveKind::kPage, 5, 0), page.TakeBody(), Seal());
  EXPECT_EQ(DecodePage(*Unseal(*OpenArchive(bytes), Seal())).code(), FsError::kVersion);
}

}  // namespace
}  // namespace stria
