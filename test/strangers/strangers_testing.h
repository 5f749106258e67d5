// A cluster with files of root that nobody else may touch, and a stranger: a caller of uid 65534 with a session of its own. He has all of
// the tree; or one directory by an export, and then all else is out of his sight, too.
#pragma once

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "api/inodes_of.h"
#include "api/trust_api.h"
#include "meta/model/families.h"
#include "meta/service/meta_testing.h"
#include "proto/wire.h"
#include "trust/inode_handle.h"

namespace stria {

inline constexpr uint32_t kStranger = 65534;
inline constexpr char kOwnPath[] = "/own";
// In everything that is told to root alone: names in closed directories, bytes, attributes, targets of symlinks.
inline constexpr std::string_view kSecret = "SECRET";

// What is root's, and what of it a stranger might know or guess.
struct Handles {
  std::vector<InodeId> files;  // 0600
  std::vector<InodeId> dirs;   // 0700
  std::vector<InodeId> links;  // symlinks in these
  InodeId held;                // of the files: root has it open for writing, buffers writes, and has locked it
  InodeId gone;                // likewise, and it has no name any more
  InodeId alone;               // of the directories: root's session has it to itself
  InodeId ahead;               // a number for a file in it
  std::string proof;           // of root's session, for `held`
  std::vector<StripeInfo> stripes;
  SessionId session;
  uint64_t ticket = 0;

  std::vector<InodeId> All() const {
    std::vector<InodeId> out = files;
    out.insert(out.end(), dirs.begin(), dirs.end());
    out.insert(out.end(), links.begin(), links.end());
    return out;
  }
};

class StrangersWorld {
 public:
  // `stranger`: whom his connection proves; null: nobody, as at a server without certificates. `exported`: the line by which he is
  // given kOwnPath, and nothing else; "": he mounts "/" as everybody may.
  explicit StrangersWorld(std::shared_ptr<const Peer> stranger = nullptr, std::string exported = "", MetaServerOptions options = {})
      : h_(1, std::move(options)), caller_(std::move(stranger)), exported_(std::move(exported)) {
    if (caller_ && caller_->role == Role::kClient) stranger_.peer = caller_;
    for (uint64_t n = 1; n <= 5; ++n) {
      nodes_.push_back(std::make_unique<TestNode>(&h_, n));
      nodes_.back()->Start();
    }
    root_.Open();
    if (exported_.empty()) stranger_.Open();
    h_.ex.RunFor(5 * kSecond);
    Fill();
  }
  ~StrangersWorld() {
    nodes_.clear();
    root_.Stop();
    stranger_.Stop();
    other_.Stop();
  }

  MetaHarness& h() { return h_; }
  TestClient& root() { return root_; }
  TestClient& stranger() { return stranger_; }
  const std::shared_ptr<const Peer>& caller() const { return caller_; }
  const Handles& handles() const { return handles_; }
  InodeId own_dir() const { return own_dir_; }    // where everybody may make files; what the stranger's export shows
  InodeId open_dir() const { return open_dir_; }  // root's, which everybody may list

  // The metadata server restarts; the stranger has not ended its replays. `squash`: root of clients is nobody from now on.
  void Restart(bool squash) {
    h_.options.root_squash = squash;
    restarted_ = true;
    squash_ = squash;
    EXPECT_TRUE(root_.Run(h_.server->Sync(root_.Ino(InodeId()))).ok());
    for (auto& n : nodes_) n->Stop();
    root_.Stop();
    stranger_.Stop();
    h_.Crash(false);
    for (auto& n : nodes_) n->Start();
    stranger_.replay_next = 1;
    EXPECT_TRUE(root_.Reclaim({{handles_.held, LeaseMode::kExclusive, true}, {handles_.gone, LeaseMode::kExclusive, true}},
                              {Lock()}));
    EXPECT_TRUE(stranger_.Reclaim());
    // Root's has none, and lets others go on.
    EXPECT_TRUE(root_.Run(h_.server->Sync(root_.Ino(InodeId()))).ok());
  }
  // Another session, if one of its requests ended the former.
  void Renew() {
    if (h_.server->sessions().Exists(stranger_.session)) return;
    stranger_.Stop();
    stranger_.Open();
  }
  // And after a restart another one, if its time for replays is over.
  void Refresh() {
    Renew();
    if (restarted_ && !h_.server->sessions().replays().MayRepeat(stranger_.session, UINT64_MAX, h_.ex.NowNs())) Restart(squash_);
  }

  // Of what the stranger was shown.
  std::vector<InodeSeal> Seals() const { return SealsOf(stranger_.session, {own_dir_, stranger_file_}); }
  // Of all that is root's, as a client of another export was shown it.
  std::vector<InodeSeal> SealsOfOthers() const { return SealsOf(other_.session, handles_.All()); }
  // "" unless he is told of an inode that his export does not show.
  template <class Rep>
  std::string Outside(const Rep& reply) const {
    std::string out;
    if constexpr (requires { ForEachInode(reply, [](InodeId, InodeUse) {}); }) {
      ForEachInode(reply, [&](InodeId ino, InodeUse use) {
        if (!exported_.empty() && ino && use == InodeUse::kNamed && ino != own_dir_ && ino != stranger_file_) out = "inode " + std::to_string(ino.v);
      });
    }
    return out;
  }

  // A file of the stranger, with bytes.
  InodeId stranger_file() const { return stranger_file_; }
  uint64_t VersionOf(InodeId ino) const { return versions_.contains(ino) ? versions_.at(ino) : 0; }
  // What there is of the cluster that is not of node `except`.
  std::map<std::string, std::string> DumpCluster(const std::string& except) {
    std::map<std::string, std::string> out;
    const ClusterMap map = h_.server->cluster().Map();
    for (const NodeInfo& n : map.nodes) {
      if (n.name == except) continue;
      out["node " + n.name] = n.uuid.ToString() + " at " + n.address + " state " + std::to_string(static_cast<int>(n.state));
    }
    for (const TargetInfo& t : map.targets) {
      if (map.FindNode(t.node) != nullptr && map.FindNode(t.node)->name == except) continue;
      out["target " + std::to_string(t.id.v)] = "of node " + std::to_string(t.node.v) + " " + t.disk_uuid.ToString() + " state " +
                                                std::to_string(static_cast<int>(t.state)) + (t.given_up ? " given up " : " ") + t.problem;
    }
    for (const Family family : {Family::kStripes, Family::kTargetStripes, Family::kGarbage, Family::kRepairs}) {
      const auto rows = h_.server->store()->kv().Scan(static_cast<KvFamily>(family), "", std::string(64, '\xff'), 10'000);
      EXPECT_TRUE(rows.ok());
      for (const KvEntry& e : *rows) out[std::to_string(static_cast<int>(family)) + " " + Hex(e.first)] = Hex(e.second);
    }
    return out;
  }
  // Everything that is root's, as it is; and what a stranger has by an export for reading only.
  std::map<std::string, std::string> Dump() {
    std::map<std::string, std::string> out;
    for (KvFamily family = 0; family < kFamilies; ++family) {
      std::string from;
      while (true) {
        const auto page = h_.server->store()->kv().Scan(family, from, std::string(64, '\xff'), 1000);
        EXPECT_TRUE(page.ok());
        for (const KvEntry& e : *page) {
          if (IsRoots(static_cast<Family>(family), e.first)) out[std::to_string(family) + " " + Hex(e.first)] = Hex(e.second);
        }
        if (page->size() < 1000) break;
        from = page->back().first + '\0';
      }
    }
    const LeaseTable& leases = h_.server->leases();
    for (InodeId ino : handles_.All()) {
      out["lease " + std::to_string(ino.v)] = std::to_string(static_cast<int>(leases.ModeOf(root_.session, ino))) +
                                              (leases.IsWriter(root_.session, ino) ? " writes" : "");
      out["open " + std::to_string(ino.v)] = leases.IsOpenBy(stranger_.session, ino) ? "by the stranger" : "";
    }
    FileLock probe = Lock();
    probe.owner = 77;
    out["lock"] = h_.server->locks().Test(SessionId(UINT64_MAX), probe).conflict ? "root's" : "free";
    out["session"] = h_.server->sessions().Exists(root_.session) ? "lives" : "gone";
    return out;
  }
  // What of root's an answer tells; "" if nothing.
  std::string Leak(const std::string& answer) const {
    if (answer.find(kSecret) != answer.npos) return "a secret";
    for (const StripeInfo& s : handles_.stripes) {
      for (const Column& c : s.columns) {
        if (c.digest == 0) continue;
        const std::string digest(reinterpret_cast<const char*>(&c.digest), sizeof c.digest);
        if (answer.find(digest) != answer.npos) return "where the bytes are";
      }
    }
    return "";
  }

 private:
  static std::string Hex(std::string_view bytes) {
    std::string out;
    for (const char c : bytes) {
      out += "0123456789abcdef"[static_cast<uint8_t>(c) >> 4];
      out += "0123456789abcdef"[static_cast<uint8_t>(c) & 15];
    }
    return out;
  }
  static uint64_t Number(std::string_view key) {
    uint64_t n = 0;
    for (size_t i = 0; i < 8 && i < key.size(); ++i) n = n << 8 | static_cast<uint8_t>(key[i]);
    return n;
  }
  bool IsRoots(Family family, std::string_view key) const {
    switch (family) {
      case Family::kInodes:
      case Family::kDentries:
      case Family::kParents:
      case Family::kExtents:
      case Family::kOrphans:
      case Family::kXattrs:
      case Family::kIntents: {
        std::vector<InodeId> all = handles_.All();
        if (!exported_.empty() && family != Family::kInodes) all.insert(all.end(), {own_dir_, stranger_file_});
        return std::find(all.begin(), all.end(), InodeId(Number(key))) != all.end();
      }
      case Family::kStripes:
      case Family::kRefBytes:
        return std::any_of(handles_.stripes.begin(), handles_.stripes.end(),
                           [&](const StripeInfo& s) { return s.id.v == Number(key); });
      case Family::kRepairs: return true;
      default: return false;
    }
  }
  FileLock Lock() const { return {handles_.held, LockKind::kPosix, 5, LockType::kWrite, 0, 99, 1}; }

  InodeId Make(InodeId parent, const std::string& name, FileType type, uint32_t mode, bool open = false) {
    MakeNodeRequest r;
    r.header = root_.Mutation();
    r.parent = parent;
    r.name = name;
    r.type = type;
    r.mode = mode;
    r.open = open;
    if (type == FileType::kSymlink) r.target = std::string(kSecret) + "/target";
    const auto made = root_.Run(h_.server->MakeNode(r));
    EXPECT_TRUE(made.ok()) << made.error();
    handles_.proof = made->proof;
    return made->node.attr.ino;
  }
  void SetXattr(InodeId ino, const std::string& name, const std::string& value) {
    XattrRequest r;
    r.header = root_.Mutation();
    r.ino = ino;
    r.name = name;
    r.value = value;
    const auto set = root_.Run(h_.server->SetXattr(r));
    EXPECT_TRUE(set.ok()) << set.error();
  }
  std::vector<InodeSeal> SealsOf(SessionId session, const std::vector<InodeId>& inodes) const {
    const auto bound = h_.server->confined()->BoundOf(session);
    std::vector<InodeSeal> out;
    for (const InodeId ino : inodes) {
      if (bound) out.push_back({ino, SealInode(bound->key, ino).mac});
    }
    return out;
  }
  // The stranger has his export alone, and another client one of root's directory.
  void MakeExports() {
    OpHeader admin;
    admin.cluster = h_.cluster;
    admin.peer = TestPeer(Role::kAdmin, "pc1");
    TrustService& service = *h_.server->trust().service();
    for (const std::string& line : {exported_, std::string("path=/open clients=wn9 access=ro")}) {
      const auto set = RunSim(h_.ex, service.SetExport({admin, line, false}));
      ASSERT_TRUE(set.ok()) << set.error();
    }
    const auto removed = RunSim(h_.ex, service.RemoveExport({admin, "/", "", false}));
    ASSERT_TRUE(removed.ok()) << removed.error();
    stranger_.path = kOwnPath;
    stranger_.Open();
    ASSERT_EQ(stranger_.root, own_dir_);
    other_.peer = TestPeer(Role::kClient, "wn9");
    other_.path = "/open";
    other_.Open();
    ASSERT_EQ(Seals().size(), 2u);
    ASSERT_EQ(SealsOfOthers().size(), handles_.All().size());
  }
  // Inline bytes and a stripe, with digests that nobody can mistake.
  void Write(InodeId ino) {
    EXPECT_TRUE(root_.Run(h_.server->Commit(root_.InlineCommit(ino, 0, std::string(kSecret) + " bytes"))).ok());
    const StripeInfo stripe = WriteStripe(ino);
    handles_.stripes.push_back(stripe);
  }
  StripeInfo WriteStripe(InodeId ino) {
    const auto alloc = root_.Allocate(ino);
    EXPECT_TRUE(alloc.ok()) << alloc.error();
    CommitRequest c;
    c.header = root_.Mutation();
    c.ino = ino;
    c.stripes = {TestClient::Sealed(alloc->stripes[0].info, kMiB)};
    for (Column& column : c.stripes[0].columns) {
      if (column.shard) column.digest = 0x5ec2e70000000000 + column.shard.v * 0x01010101;
    }
    Extent e;
    e.file_offset = kMiB;
    e.length = kMiB;
    e.stripe = c.stripes[0].id;
    c.extents = {e};
    const auto committed = root_.Run(h_.server->Commit(c));
    EXPECT_TRUE(committed.ok()) << committed.error();
    return c.stripes[0];
  }
  void Fill() {
    open_dir_ = Make(kRootInode, "open", FileType::kDirectory, 0755);
    own_dir_ = Make(kRootInode, "own", FileType::kDirectory, 0777);
    handles_.files = {Make(open_dir_, "file", FileType::kFile, 0600)};
    const InodeId closed = Make(open_dir_, "closed", FileType::kDirectory, 0700);
    handles_.alone = Make(closed, "SECRET_alone", FileType::kDirectory, 0700);
    handles_.dirs = {closed, handles_.alone, Make(closed, "SECRET_dir", FileType::kDirectory, 0700)};
    handles_.links = {Make(closed, "SECRET_link", FileType::kSymlink, 0777)};
    handles_.files.push_back(Make(closed, "SECRET_file", FileType::kFile, 0600));
    handles_.gone = Make(closed, "SECRET_gone", FileType::kFile, 0600, true);
    handles_.files.push_back(handles_.gone);
    for (int i = 0; i < 2; ++i) {  // the second one brings the directory
      MakeNodeRequest r;
      r.header = root_.Mutation();
      r.parent = handles_.alone;
      r.name = "SECRET_" + std::to_string(i);
      r.mode = 0600;
      r.open = r.exclusive = true;
      r.ahead = i == 1;
      r.numbers = 4;
      const auto made = root_.Run(h_.server->MakeNode(r));
      ASSERT_TRUE(made.ok()) << made.error();
      handles_.files.push_back(made->node.attr.ino);
      if (i == 1) ASSERT_TRUE(made->alone);
      handles_.ahead = made->first_number;
    }
    handles_.held = Make(closed, "SECRET_held", FileType::kFile, 0600, true);
    handles_.files.push_back(handles_.held);
    for (InodeId ino : {handles_.files[0], handles_.files[1], handles_.held}) Write(ino);
    NameRequest unlink = root_.Name(closed, "SECRET_gone", true);
    ASSERT_TRUE(root_.Run(h_.server->Unlink(unlink)).ok());
    // Names of attributes are for all who can come to a file by its path (listxattr(2)), as they can to the first one.
    for (InodeId ino : handles_.files) {
      SetXattr(ino, ino == handles_.files[0] ? "user.open" : "user.SECRET", std::string(kSecret));
    }
    // Who can come to it by its path may read this one; here nobody can.
    SetXattr(handles_.files[1], "security.SECRET", std::string(kSecret));
    LockRequest lock;
    lock.header = root_.Mutation();
    lock.header.term = h_.server->term();
    lock.op = LockOp::kTry;
    lock.lock = Lock();
    EXPECT_TRUE(root_.Run(h_.server->Lock(lock))->granted);
    lock.header = root_.Mutation();
    lock.header.term = h_.server->term();
    lock.op = LockOp::kWait;
    lock.ticket = handles_.ticket = 3;
    lock.lock.owner = 6;
    EXPECT_FALSE(root_.Run(h_.server->Lock(lock))->granted);
    handles_.session = root_.session;
    // Who may only read has it from somebody else.
    TestClient& maker = exported_.empty() ? stranger_ : root_;
    MakeNodeRequest own;
    own.header = maker.Mutation();
    own.header.uid = own.header.gid = kStranger;
    own.parent = own_dir_;
    own.name = "mine";
    own.mode = 0644;
    const auto made = maker.Run(h_.server->MakeNode(own));
    ASSERT_TRUE(made.ok()) << made.error();
    stranger_file_ = made->node.attr.ino;
    CommitRequest bytes = maker.InlineCommit(stranger_file_, 0, "mine");
    bytes.header.uid = bytes.header.gid = kStranger;
    ASSERT_TRUE(maker.Run(h_.server->Commit(bytes)).ok());
    if (!exported_.empty()) {
      WriteStripe(stranger_file_);
      MakeExports();
    }
    h_.ex.RunFor(5 * kSecond);
    for (InodeId ino : handles_.All()) {
      if (const auto attr = stranger_.GetAttr(ino); attr.ok()) versions_[ino] = attr->attr.version;
    }
  }

  MetaHarness h_;
  TestClient root_{&h_, 1};
  TestClient stranger_{&h_, 2};
  TestClient other_{&h_, 3};  // of another export
  const std::shared_ptr<const Peer> caller_;  // of any role; the stranger's session is a client's, or one of who proves nothing
  const std::string exported_;
  std::vector<std::unique_ptr<TestNode>> nodes_;
  Handles handles_;
  InodeId own_dir_, open_dir_, stranger_file_;
  std::map<InodeId, uint64_t> versions_;
  bool restarted_ = false, squash_ = false;
};

}  // namespace stria
