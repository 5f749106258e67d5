#include "meta/exports/confined_meta.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "common/exec/sim_run.h"
#include "trust/inode_handle.h"

namespace stria {
namespace {

constexpr SessionId kConfined{5};
constexpr SessionId kFree{6};
constexpr SipKey kKey{1, 2};
constexpr SipKey kOtherKey{1, 3};
constexpr InodeId kExportRoot{100};
constexpr InodeId kDir{101};
constexpr InodeId kDir2{102};
constexpr InodeId kFile{103};
constexpr InodeId kFile2{104};
constexpr InodeId kNumber{900};   // given beforehand
constexpr InodeId kOutside{7};    // a directory above the export
constexpr InodeId kShown{200};    // of replies, and those after it

InodeSeal SealOf(InodeId ino, const SipKey& key = kKey) { return {ino, SealInode(key, ino).mac}; }

Attr AttrOf(uint64_t ino) {
  Attr a;
  a.ino = InodeId(ino);
  return a;
}

// ---- Replies of the fake that show inodes
template <class Rep>
void Shape(Rep*) {}
void Shape(NodeReply* r) {
  r->attr = AttrOf(kShown.v);
  r->parent = AttrOf(kShown.v + 1);
  r->parent2 = AttrOf(kShown.v + 2);
}
void Shape(GetExtentsReply* r) { r->attr = AttrOf(kShown.v + 3); }
void Shape(OpenReply* r) {
  Shape(&r->node);
  Shape(&r->mapping.emplace());
  r->first_number = kNumber;
  r->numbers = 4;
}
void Shape(ReadDirReply* r) {
  r->parent = InodeId(kShown.v + 9);
  for (uint64_t i = 0; i < 3; ++i) {
    DirEntry e;
    e.name = "n";
    e.ino = InodeId(kShown.v + i);
    if (i > 0) e.attr = AttrOf(e.ino.v);
    r->entries.push_back(e);
  }
}
void Shape(CommitReply* r) {
  r->attr = AttrOf(kShown.v);
  r->parent = AttrOf(kShown.v + 1);
}
void Shape(CloneReply* r) { r->attr = AttrOf(kShown.v); }
void Shape(LockReply* r) { r->conflict.emplace().ino = kFile; }
void Shape(OpenSessionReply* r) {
  r->session = kConfined;
  r->root = kExportRoot;
  r->not_taken = {{kFile, false}};
}
void Shape(PathsReply* r) { *r = {{"/atlas/x", "/secret/x", "/atlas2/x", "/atlas"}, 1, true}; }
void Shape(StatFsReply* r) { *r = {1000, 100, 10}; }
void Shape(StatusReply* r) {
  r->lost_files = r->thin_files = {{kOutside, "/secret", 0, 1}};
  r->files = r->directories = r->stripes = r->live_bytes = r->degraded_stripes = r->thin_stripes = 7;
  r->advice = {{1, "Node n1 is heard, but client wn9 cannot reach it.", ""}};
  r->sessions.resize(2);
  r->sessions[0].id = kConfined, r->sessions[1].id = kFree;
}

class FakeMeta final : public MetaService {
 public:
#define X(Rule, Name, Request, Reply) \
  Task<Result<Reply>> Name(Request r) override { return Do<Reply>(#Name, std::move(r)); }
  STRIA_CONFINED_META(X)
#undef X
  int Calls() const {
    int n = 0;
    for (const auto& [method, times] : calls) n += times;
    return n;
  }
  std::map<std::string, int> calls;
  std::string name;              // of the last NameRequest
  InodeId asked;                 // by the last InodeRequest
  std::function<void()> during;  // while a call is under way
  Error error;                   // unless it is Ok: the answer
  InodeId answer;                // of Lookup; the parent that ReadDir tells

 private:
  template <class Rep, class Req>
  Task<Result<Rep>> Do(const char* method, Req r) {
    ++calls[method];
    if constexpr (std::is_same_v<Req, NameRequest>) name = r.name;
    if constexpr (std::is_same_v<Req, InodeRequest>) asked = r.ino;
    if (during) during();
    if (!error.ok()) co_return error;
    Rep reply;
    Shape(&reply);
    if constexpr (std::is_same_v<Rep, NodeReply>) {
      if (answer) reply.attr.ino = answer;
    }
    if constexpr (std::is_same_v<Rep, ReadDirReply>) {
      if (answer) reply.parent = answer;
    }
    co_return reply;
  }
};

class FakeAdmin final : public AdminService {
 public:
#define X(Rule, Name, Request, Reply)              \
  Task<Result<Reply>> Name(Request r) override {   \
    ++calls[#Name];                                \
    Reply reply;                                   \
    Fill(r, &reply);                               \
    co_return reply;                               \
  }
  STRIA_CONFINED_ADMIN(X)
#undef X
  std::map<std::string, int> calls;
  std::vector<std::vector<std::string>> pages;

 private:
  // What to ask on with says too much.
  static std::string Next(size_t page) { return "/secret/dir" + std::to_string(page); }
  template <class Req, class Rep>
  void Fill(const Req&, Rep*) {}
  void Fill(const NamesRequest& r, NamesReply* reply) {
    size_t page = 0;
    while (page < pages.size() && !(page == 0 ? r.after.empty() : r.after == Next(page))) ++page;
    if (page == pages.size()) return;
    reply->paths = pages[page];
    reply->hidden = 1;
    if (page + 1 < pages.size()) reply->next = Next(page + 1);
  }
};

class FakeTree final : public ConfinedTree {
 public:
  bool LiesBelow(InodeId dir, InodeId root) override {
    EXPECT_EQ(root, kExportRoot);
    return !outside.contains(dir);
  }
  std::optional<std::string> PathOf(InodeId dir) override {
    EXPECT_EQ(dir, kExportRoot);
    return root_path;
  }
  std::set<InodeId> outside = {kOutside};
  std::optional<std::string> root_path = "/atlas";
};

class FakeSessions final : public ConfinedSessions {
 public:
  std::optional<Bound> BoundOf(SessionId s) const override {
    if (s != kConfined) return std::nullopt;
    return Bound{kKey, kExportRoot};
  }
  bool IsOwn(const OpHeader& h) const override { return !h.peer || h.peer->name != "thief"; }
};

class ConfinedMetaTest : public testing::Test {
 protected:
  using Seals = std::vector<InodeSeal>;
  struct Case {
    std::string name;
    std::vector<InodeId> needs;  // the inodes that must be sealed
    std::function<Error(SessionId, const Seals&)> send;
  };

  // Sends one; if it is answered, the reply has the seals of all that it shows, and no others.
  template <class Rep, class Req, class Set>
  Case Make(std::string name, Task<Result<Rep>> (MetaService::*method)(Req), std::vector<InodeId> needs, Set set) {
    return {std::move(name), std::move(needs), [this, method, set](SessionId s, const Seals& seals) {
              Req r;
              r.header.session = s;
              r.header.seals = seals;
              set(r);
              MetaService* const service = &meta;
              const Result<Rep> reply = RunSim(ex, (service->*method)(std::move(r)));
              if (!reply.ok()) return reply.error();
              CheckSeals(s, *reply);
              return Error();
            }};
  }
  template <class Rep>
  void CheckSeals(SessionId s, const Rep& reply) {
    if constexpr (requires { reply.seals; }) {
      std::set<InodeId> shown;
      ForEachInode(reply, [&](InodeId ino, InodeUse use) {
        if (ino && use == InodeUse::kNamed) shown.insert(ino);
      });
      if (s != kConfined) shown.clear();
      std::set<InodeId> sealed;
      for (const InodeSeal& seal : reply.seals) {
        EXPECT_TRUE(IsSealed(kKey, {seal.ino, seal.mac}));
        EXPECT_TRUE(sealed.insert(seal.ino).second) << "sealed twice";
      }
      EXPECT_EQ(sealed, shown);
    }
  }

#define CASE(Name, needs, ...) Make(#Name, &MetaService::Name, std::vector<InodeId> needs, [](auto& r) { __VA_ARGS__; })
  std::vector<Case> SealedCases() {
    return {
        CASE(Lookup, {kDir}, r.parent = kDir, r.name = "f", r.release = kNumber),
        CASE(GetAttr, {kFile}, r.ino = kFile),
        CASE(SetAttr, {kFile}, r.ino = kFile),
        CASE(MakeNode, {kDir}, r.parent = kDir, r.name = "f", r.former = kNumber),
        CASE(Open, {kFile}, r.ino = kFile),
        CASE(Lock, {kFile}, r.lock.ino = kFile),
        CASE(Unlink, {kDir}, r.parent = kDir, r.name = "f", r.release = kNumber),
        CASE(Rmdir, {kDir}, r.parent = kDir, r.name = "d"),
        Make("Rename", &MetaService::Rename, {kDir, kDir2},
             [](RenameRequest& r) { r.parent = kDir, r.new_parent = kDir2, r.release = kNumber; }),
        Make("Link", &MetaService::Link, {kFile, kDir}, [](LinkRequest& r) { r.ino = kFile, r.new_parent = kDir; }),
        CASE(ReadLink, {kFile}, r.ino = kFile),
        CASE(ReadDir, {kDir}, r.ino = kDir),
        CASE(Paths, {kFile}, r.ino = kFile),
        CASE(GetXattr, {kFile}, r.ino = kFile),
        CASE(ListXattr, {kFile}, r.ino = kFile),
        CASE(SetXattr, {kFile}, r.ino = kFile),
        CASE(RemoveXattr, {kFile}, r.ino = kFile),
        CASE(GetLayout, {kFile}, r.ino = kFile),
        CASE(SetLayout, {kFile}, r.ino = kFile),
        CASE(GetExtents, {kFile}, r.ino = kFile),
        CASE(Allocate, {kFile}, r.ino = kFile),
        CASE(Commit, {kFile}, r.ino = kFile),
        Make("Clone", &MetaService::Clone, {kFile, kFile2}, [](CloneRequest& r) { r.from = kFile, r.to = kFile2; }),
    };
  }
  Case CommitOfNewFile() {
    return CASE(Commit, {kDir}, r.ino = kNumber, r.make.emplace().parent = kDir);
  }
  std::vector<Case> PassingCases() {
    return {
        CASE(Renew, {}, r.seen_seq = CommitSeq(1)),
        CASE(Poll, {}, r.acked_event = 1),
        CASE(CloseSession, {}, r.ino = kFile),
        CASE(Release, {}, r.ino = kFile),
        CASE(LeaseDone, {}, r.ino = kFile),
        CASE(Sync, {}, r.ino = kFile),
        CASE(ReportShard, {}, r.column = 1),
        CASE(GetMap, {}, r.ino = kFile),
    };
  }
#undef CASE
  // Of every method with that rule.
  static std::set<std::string> Named(const std::string& rule) {
    std::set<std::string> out;
#define X(Rule, Name, Request, Reply) \
  if (rule == #Rule) out.insert(#Name);
    STRIA_CONFINED_META(X)
#undef X
    return out;
  }
  static std::set<std::string> NamesOf(const std::vector<Case>& cases) {
    std::set<std::string> out;
    for (const Case& c : cases) out.insert(c.name);
    return out;
  }
  static Seals SealsOf(const std::vector<InodeId>& inodes, const SipKey& key = kKey) {
    Seals out;
    for (const InodeId ino : inodes) out.push_back(SealOf(ino, key));
    return out;
  }

  SimExecutor ex{1};
  FakeSessions sessions;
  FakeTree tree;
  FakeMeta inner;
  FakeAdmin inner_admin;
  std::vector<std::string> denied;
  Confinement confinement{&sessions, &tree, [this](const OpHeader& by, std::string_view why) {
                            EXPECT_EQ(by.session, kConfined);
                            denied.emplace_back(why);
                          }};
  ConfinedMeta meta{&inner, &confinement};
  ConfinedAdmin admin{&inner_admin, &confinement};
};

TEST_F(ConfinedMetaTest, TheCasesBelowAreAllMethods) {
  std::set<std::string> sealed = Named("Sealed");
  sealed.merge(std::set<std::string>{"Lookup", "Paths", "ReadDir"});
  EXPECT_EQ(NamesOf(SealedCases()), sealed);
  EXPECT_EQ(NamesOf(PassingCases()), Named("Passes"));
  EXPECT_EQ(Named("Own"), (std::set<std::string>{"OpenSession", "Lookup", "Paths", "ReadDir", "StatFs", "Status"}));
}

TEST_F(ConfinedMetaTest, TakesSealedInodesOnly) {
  std::vector<Case> cases = SealedCases();
  cases.push_back(CommitOfNewFile());
  for (const Case& c : cases) {
    SCOPED_TRACE(c.name);
    std::vector<Seals> bad = {{}, SealsOf(c.needs, kOtherKey)};
    for (size_t i = 0; i < c.needs.size(); ++i) {
      Seals without = SealsOf(c.needs);
      without.erase(without.begin() + static_cast<ptrdiff_t>(i));
      bad.push_back(without);
      Seals false_mac = SealsOf(c.needs);
      false_mac[i].mac ^= 1;
      bad.push_back(false_mac);
      Seals of_another = SealsOf(c.needs);
      of_another[i].mac = SealOf(kShown).mac;  // that it has, too
      bad.push_back(of_another);
    }
    inner.calls.clear();
    for (const Seals& seals : bad) {
      const uint64_t before = confinement.denials();
      const Error e = c.send(kConfined, seals);
      EXPECT_EQ(e.code, FsError::kStale) << e;
      EXPECT_TRUE(std::none_of(e.message.begin(), e.message.end(), [](unsigned char ch) { return std::isdigit(ch); })) << e;
      EXPECT_EQ(confinement.denials(), before + 1);
    }
    EXPECT_EQ(inner.Calls(), 0);
    EXPECT_TRUE(c.send(kConfined, SealsOf(c.needs)).ok());
    EXPECT_EQ(inner.calls[c.name], 1);
    // Others too, in another order.
    Seals many = SealsOf({kShown, kDir, kDir2, kFile, kFile2});
    EXPECT_TRUE(c.send(kConfined, many).ok());
  }
  EXPECT_EQ(denied.size(), confinement.denials());
}

TEST_F(ConfinedMetaTest, WhatNamesNoInodeOrOnlyGivesUpPasses) {
  for (const Case& c : PassingCases()) {
    EXPECT_TRUE(c.send(kConfined, {}).ok()) << c.name;
    EXPECT_EQ(inner.calls[c.name], 1) << c.name;
  }
  EXPECT_EQ(confinement.denials(), 0u);
}

TEST_F(ConfinedMetaTest, RefusesCallsAboutTheCluster) {
  std::set<std::string> refused;
#define TRY_Passes(service, Name, Request)
#define TRY_Sealed(service, Name, Request)
#define TRY_Own(service, Name, Request)
#define TRY_Refused(service, Name, Request)                                                    \
  {                                                                                            \
    Request r;                                                                                 \
    r.header.session = kConfined;                                                              \
    EXPECT_EQ(RunSim(ex, service.Name(r)).code(), FsError::kPerm) << #Name;                    \
    refused.insert(#Name);                                                                     \
    r.header.session = SessionId();                                                            \
    EXPECT_TRUE(RunSim(ex, service.Name(r)).ok()) << #Name << " of a data server or an admin"; \
  }
#define X(Rule, Name, Request, Reply) TRY_##Rule(meta, Name, Request)
  STRIA_CONFINED_META(X)
#undef X
  EXPECT_EQ(refused, Named("Refused"));
  for (const std::string& name : refused) EXPECT_EQ(inner.calls[name], 1) << name;
  EXPECT_EQ(confinement.denials(), refused.size());
#define X(Rule, Name, Request, Reply) TRY_##Rule(admin, Name, Request)
  STRIA_CONFINED_ADMIN(X)
#undef X
  EXPECT_EQ(inner_admin.calls["Names"], 0);
  EXPECT_EQ(inner_admin.calls["Files"], 1);
#undef TRY_Refused
#undef TRY_Own
#undef TRY_Sealed
#undef TRY_Passes
}

TEST_F(ConfinedMetaTest, OthersPassAsTheyAre) {
  tree.outside = {kDir, kDir2};
  std::vector<Case> cases = SealedCases();
  for (Case& c : PassingCases()) cases.push_back(std::move(c));
  for (const Case& c : cases) {
    for (const SessionId s : {kFree, SessionId()}) EXPECT_TRUE(c.send(s, {}).ok()) << c.name;
    EXPECT_EQ(inner.calls[c.name], 2) << c.name;
  }
  InodeRequest status;
  status.header.session = kFree;
  EXPECT_EQ(RunSim(ex, meta.Status(status)).value().lost_files.size(), 1u);
  NameRequest up;
  up.header.session = kFree;
  up.parent = kExportRoot;
  up.name = "..";
  EXPECT_TRUE(RunSim(ex, meta.Lookup(up)).ok());
  EXPECT_EQ(inner.name, "..");
}

TEST_F(ConfinedMetaTest, TheParentOfTheRootIsTheRoot) {
  ReadDirRequest list;
  list.header.session = kConfined;
  list.header.seals = {SealOf(kExportRoot)};
  list.ino = kExportRoot;
  inner.answer = kOutside;
  const ReadDirReply reply = RunSim(ex, meta.ReadDir(list)).value();
  EXPECT_EQ(reply.parent, kExportRoot);
  CheckSeals(kConfined, reply);
  NameRequest up;
  up.header = list.header;
  up.parent = kExportRoot;
  up.name = "..";
  inner.answer = kExportRoot;
  EXPECT_TRUE(RunSim(ex, meta.Lookup(up)).ok());
  EXPECT_EQ(inner.name, ".");
  // Of others it is what it is.
  list.header.seals = {SealOf(kDir)};
  list.ino = kDir;
  inner.answer = kDir2;
  EXPECT_EQ(RunSim(ex, meta.ReadDir(list)).value().parent, kDir2);
  up.header = list.header;
  up.parent = kDir;
  EXPECT_EQ(RunSim(ex, meta.Lookup(up)).value().attr.ino, kDir2);
  EXPECT_EQ(inner.name, "..");
}

TEST_F(ConfinedMetaTest, GivesNoSealOfWhatLiesAbove) {
  ReadDirRequest list;
  list.header.session = kConfined;
  list.header.seals = {SealOf(kDir)};
  list.ino = kDir;
  inner.answer = kOutside;  // a directory that was removed, after it was moved
  const ReadDirReply reply = RunSim(ex, meta.ReadDir(list)).value();
  EXPECT_EQ(reply.parent, kExportRoot);
  CheckSeals(kConfined, reply);
  NameRequest up;
  up.header = list.header;
  up.parent = kDir;
  up.name = "..";
  EXPECT_EQ(RunSim(ex, meta.Lookup(up)).code(), FsError::kStale);
}

TEST_F(ConfinedMetaTest, ADirectoryThatWasMovedOutIsNoDoor) {
  const std::set<std::string> in_directories = {"Lookup", "MakeNode", "Unlink", "Rmdir", "Rename", "Link", "ReadDir"};
  std::vector<Case> cases = SealedCases();
  cases.push_back(CommitOfNewFile());
  for (const InodeId moved : {kDir, kDir2}) {
    tree.outside = {moved};
    for (const Case& c : cases) {
      SCOPED_TRACE(c.name);
      const bool uses = std::count(c.needs.begin(), c.needs.end(), moved) > 0;
      if (uses) EXPECT_TRUE(in_directories.contains(c.name) || c.name == "Commit");
      inner.calls.clear();
      EXPECT_EQ(c.send(kConfined, SealsOf(c.needs)).code, uses ? FsError::kStale : FsError::kOk);
      EXPECT_EQ(inner.Calls(), uses ? 0 : 1);
    }
  }
  EXPECT_EQ(confinement.denials(), 0u) << "it was shown once: no attack";
  // Its attributes can be asked for still, as those of a file that was moved out.
  InodeRequest get;
  get.header.session = kConfined;
  get.header.seals = {SealOf(kDir2)};
  get.ino = kDir2;
  EXPECT_TRUE(RunSim(ex, meta.GetAttr(get)).ok());
}

// He is refused by who answers the call, as if nothing bound the session: seals are not tried for another's.
TEST_F(ConfinedMetaTest, NothingIsToldOfAnothersSession) {
  Peer thief;
  thief.name = "thief";
  inner.error = Error::Denial("session 5 is not one of client thief");
  InodeRequest get;
  get.header.session = kConfined;
  get.header.peer = std::make_shared<const Peer>(thief);
  get.ino = kDir;
  for (const InodeSeal& seal : {SealOf(kDir), SealOf(kDir, kOtherKey)}) {
    get.header.seals = {seal};
    const auto refused = RunSim(ex, meta.GetAttr(get));
    EXPECT_EQ(refused.code(), FsError::kAccess);
    EXPECT_TRUE(refused.error().denies);
  }
  EXPECT_EQ(inner.Calls(), 2);
  EXPECT_EQ(confinement.denials(), 0u);
}

TEST_F(ConfinedMetaTest, NothingIsToldOfADirectoryThatIsMovedOutMeanwhile) {
  inner.during = [&] { tree.outside.insert(kDir); };
  NameRequest look;
  look.header.session = kConfined;
  look.header.seals = {SealOf(kDir)};
  look.parent = kDir;
  look.name = "f";
  EXPECT_EQ(RunSim(ex, meta.Lookup(look)).code(), FsError::kStale);
  tree.outside.clear();
  inner.error = Error(FsError::kNoEnt);
  EXPECT_EQ(RunSim(ex, meta.Lookup(look)).code(), FsError::kStale) << "not even which names there are not";
  tree.outside.clear();
  ReadDirRequest list;
  list.header = look.header;
  list.ino = kDir;
  EXPECT_EQ(RunSim(ex, meta.ReadDir(list)).code(), FsError::kStale);
  inner.during = nullptr;
  tree.outside.clear();
  EXPECT_EQ(RunSim(ex, meta.Lookup(look)).code(), FsError::kNoEnt) << "the inner service's own answer";
}

TEST_F(ConfinedMetaTest, AnOpenedSessionIsGivenItsRoot) {
  OpenSessionRequest r;  // claims are proved otherwise
  r.held = {{kFile, LeaseMode::kRead, false, false, "proof"}};
  const OpenSessionReply reply = RunSim(ex, meta.OpenSession(r)).value();
  ASSERT_EQ(reply.seals.size(), 1u);
  EXPECT_EQ(reply.seals[0], SealOf(kExportRoot));
  r.header.session = kConfined;
  EXPECT_EQ(RunSim(ex, meta.OpenSession(r)).value().seals, reply.seals) << "a reclaim";
  inner.error = Error(FsError::kFenced);
  EXPECT_EQ(RunSim(ex, meta.OpenSession(r)).code(), FsError::kFenced);
}

TEST_F(ConfinedMetaTest, SpaceIsToldByTheExportAndNoNumberOfFiles) {
  InodeRequest r;
  r.header.session = kConfined;
  r.ino = kRootInode;
  const auto told = [&] {
    const StatFsReply reply = RunSim(ex, meta.StatFs(r)).value();
    return std::vector<uint64_t>{inner.asked.v, reply.total_bytes, reply.free_bytes, reply.files};
  };
  EXPECT_EQ(told(), (std::vector<uint64_t>{kExportRoot.v, 1000, 100, 0}));
  EXPECT_EQ(confinement.denials(), 0u);
  r.header.session = kFree;
  EXPECT_EQ(told(), (std::vector<uint64_t>{kRootInode.v, 1000, 100, 10}));
  r.header.session = kConfined;
  inner.error = Error(FsError::kFenced);
  EXPECT_EQ(RunSim(ex, meta.StatFs(r)).code(), FsError::kFenced);
}

TEST_F(ConfinedMetaTest, StatusTellsOfItselfOnly) {
  InodeRequest r;
  r.header.session = kConfined;
  const StatusReply reply = RunSim(ex, meta.Status(r)).value();
  EXPECT_TRUE(reply.lost_files.empty() && reply.thin_files.empty() && reply.advice.empty());
  EXPECT_EQ(reply.files + reply.directories + reply.stripes + reply.live_bytes + reply.degraded_stripes + reply.thin_stripes, 0u);
  ASSERT_EQ(reply.sessions.size(), 1u);
  EXPECT_EQ(reply.sessions[0].id, kConfined);
}

TEST_F(ConfinedMetaTest, PathsBeginAtTheRootAndOthersAreHidden) {
  InodeRequest r;
  r.header.session = kConfined;
  r.header.seals = {SealOf(kFile)};
  r.ino = kFile;
  PathsReply reply = RunSim(ex, meta.Paths(r)).value();
  EXPECT_EQ(reply.paths, (std::vector<std::string>{"/x", "/"}));
  EXPECT_EQ(reply.hidden, 3u) << "two, and one that the inner service hides";
  EXPECT_TRUE(reply.more);
  tree.root_path.reset();
  reply = RunSim(ex, meta.Paths(r)).value();
  EXPECT_TRUE(reply.paths.empty());
  EXPECT_EQ(reply.hidden, 5u);
  r.header.session = kFree;
  EXPECT_EQ(RunSim(ex, meta.Paths(r)).value().hidden, 1u);
}

TEST_F(ConfinedMetaTest, NamesBeginAtTheRootAndOthersAreHidden) {
  inner_admin.pages = {{"/atlas/x", "/secret/x", "/atlas2/x", "/atlas"}, {"/other/y"}, {"/atlas/d/z"}};
  NamesRequest r;
  r.header.session = kConfined;
  r.ino = kFile;
  EXPECT_EQ(RunSim(ex, admin.Names(r)).code(), FsError::kStale);
  EXPECT_EQ(confinement.denials(), 1u);
  r.header.seals = {SealOf(kFile)};
  NamesReply page = RunSim(ex, admin.Names(r)).value();
  EXPECT_EQ(page.paths, (std::vector<std::string>{"/x", "/"}));
  EXPECT_EQ(page.hidden, 3u) << "two, and one that the inner service hides";
  r.after = page.next;
  EXPECT_EQ(r.after, "1");
  page = RunSim(ex, admin.Names(r)).value();
  EXPECT_TRUE(page.paths.empty());
  EXPECT_EQ(page.hidden, 2u);
  r.after = page.next;
  page = RunSim(ex, admin.Names(r)).value();
  EXPECT_EQ(page.paths, std::vector<std::string>{"/d/z"});
  EXPECT_EQ(page.next, "");
  r.after = "7";  // behind the end
  page = RunSim(ex, admin.Names(r)).value();
  EXPECT_TRUE(page.paths.empty());
  EXPECT_EQ(page.next, "");
  for (const std::string after : {"/secret/dir1", "-1", "1x", "64", "99999999999999999999999"}) {
    r.after = after;
    EXPECT_EQ(RunSim(ex, admin.Names(r)).code(), FsError::kBadRequest) << after;
  }
  r.after.clear();
  tree.root_path.reset();  // the export's directory was removed
  EXPECT_TRUE(RunSim(ex, admin.Names(r)).value().paths.empty());
  tree.root_path = "/";
  EXPECT_EQ(RunSim(ex, admin.Names(r)).value().paths, inner_admin.pages[0]);
  r.header.session = kFree;
  EXPECT_EQ(RunSim(ex, admin.Names(r)).value().next, "/secret/dir1");
}

}  // namespace
}  // namespace stria
