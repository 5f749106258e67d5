// Requests about what is root's: for each type of request all its forms that could matter. Each(world, use) calls `use` with
// every one, without a header. A type that is missing here does not compile in the test.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "api/admin_api.h"
#include "test/strangers/strangers_testing.h"

namespace stria::requests {

template <class T>
using Use = std::function<void(T)>;
using World = StrangersWorld;

inline std::vector<InodeId> Inodes(const World& w) {
  std::vector<InodeId> out = w.handles().All();
  out.push_back(w.handles().ahead);
  return out;
}
inline std::vector<std::string> Names() { return {"SECRET_file", "SECRET_dir", "SECRET_link", "SECRET_held", "new", "..", "."}; }
inline std::vector<TargetId> Targets(const World& w) {
  std::vector<TargetId> out;
  for (const Column& c : w.handles().stripes[0].columns) out.push_back(c.target);
  return out;
}

inline void Each(const World& w, const Use<OpenSessionRequest>& use) {
  for (InodeId ino : Inodes(w)) {
    for (const bool stolen : {false, true}) {
      OpenSessionRequest r;
      r.client = "a stranger";
      r.client_uuid = Uuid{77, 2};
      r.held = {{ino, LeaseMode::kExclusive, true, false, stolen ? w.handles().proof : ""}};
      r.locks = {{ino, LockKind::kPosix, 1, LockType::kWrite, 0, 9, 1}};
      use(r);
      r.held.clear();
      use(r);
    }
  }
}
inline void Each(const World&, const Use<RenewRequest>& use) { use({}); }
inline void Each(const World&, const Use<PollRequest>& use) {
  PollRequest r;
  use(r);
  r.acked_event = 1'000'000;
  use(r);
}
inline void Each(const World& w, const Use<InodeRequest>& use) {
  for (InodeId ino : Inodes(w)) use({{}, ino});
}
inline void Each(const World& w, const Use<LeaseDoneRequest>& use) {
  for (InodeId ino : Inodes(w)) {
    for (const LeaseMode mode : {LeaseMode::kNone, LeaseMode::kExclusive}) {
      for (const uint64_t event : {0, 1, 2}) use({{}, ino, mode, event});
    }
  }
}
inline void Each(const World& w, const Use<LockRequest>& use) {
  for (InodeId ino : Inodes(w)) {
    for (const LockOp op : {LockOp::kTest, LockOp::kTry, LockOp::kWait, LockOp::kUnlock, LockOp::kWithdraw}) {
      LockRequest r;
      r.op = op;
      r.ticket = w.handles().ticket;
      r.lock = {ino, LockKind::kPosix, 5, LockType::kWrite, 0, 99, 1};
      r.keep = true;
      use(r);
    }
  }
}
inline void Each(const World& w, const Use<NameRequest>& use) {
  std::vector<InodeId> parents = w.handles().dirs;
  parents.push_back(w.open_dir());
  for (InodeId parent : parents) {
    for (const std::string& name : Names()) {
      for (InodeId release : {InodeId(), w.handles().held}) use({{}, parent, name, release});
    }
  }
  use({{}, w.open_dir(), "file", InodeId()});
  use({{}, w.open_dir(), "closed", InodeId()});
}
inline void Each(const World& w, const Use<SetAttrRequest>& use) {
  for (InodeId ino : Inodes(w)) {
    const std::function<void(SetAttrRequest&)> forms[] = {
        [](SetAttrRequest& r) { r.mode = 0777; },     [](SetAttrRequest& r) { r.uid = kStranger; },
        [](SetAttrRequest& r) { r.gid = kStranger; }, [](SetAttrRequest& r) { r.size = 0; },
        [](SetAttrRequest& r) { r.size = 1'000'000; }, [](SetAttrRequest& r) { r.atime_ns = 1; },
        [](SetAttrRequest& r) { r.mtime_now = r.atime_now = true; }, [](SetAttrRequest& r) { r.kill_suid = true; },
        [](SetAttrRequest&) {}};
    for (const auto& form : forms) {
      SetAttrRequest r;
      r.ino = ino;
      form(r);
      use(r);
    }
    // Of the version that it has: it says so to anybody who asks for its attributes.
    SetAttrRequest r;
    r.ino = ino;
    r.read_ns = int64_t{1} << 62;
    r.read_version = w.VersionOf(ino);
    use(r);
  }
}
inline void Each(const World& w, const Use<MakeNodeRequest>& use) {
  std::vector<InodeId> parents = w.handles().dirs;
  parents.push_back(w.open_dir());
  std::vector<std::string> names = Names();
  names.push_back("file");
  for (InodeId parent : parents) {
    for (const std::string& name : names) {
      for (const FileType type : {FileType::kFile, FileType::kDirectory, FileType::kSymlink}) {
        for (const InodeId former : {InodeId(), w.handles().held, w.handles().ahead}) {
          MakeNodeRequest r;
          r.parent = parent;
          r.name = name;
          r.type = type;
          r.mode = 0666;
          r.former = former;
          r.target = "x";
          r.open = r.truncate = type == FileType::kFile;
          r.ahead = true;
          r.numbers = 8;
          use(r);
          r.for_read = true;
          use(r);
        }
      }
    }
  }
  // A number of root's for a file of the stranger.
  for (const InodeId former : Inodes(w)) {
    MakeNodeRequest r;
    r.parent = w.own_dir();
    r.name = "of " + std::to_string(former.v);
    r.former = former;
    r.open = true;
    use(r);
  }
}
inline void Each(const World& w, const Use<OpenRequest>& use) {
  for (InodeId ino : Inodes(w)) {
    for (int form = 0; form < 16; ++form) {
      OpenRequest r;
      r.ino = ino;
      r.for_read = (form & 1) != 0;
      r.for_write = (form & 2) != 0;
      r.truncate = (form & 4) != 0;
      r.check_access = (form & 8) != 0;
      r.map_bytes = kGiB;
      use(r);
    }
  }
}
inline void Each(const World& w, const Use<RenameRequest>& use) {
  for (InodeId from : {w.handles().dirs[0], w.open_dir(), w.own_dir()}) {
    for (InodeId to : {w.handles().dirs[0], w.handles().alone, w.open_dir(), w.own_dir()}) {
      for (const char* name : {"SECRET_file", "file", "closed", "mine"}) {
        for (const char* new_name : {"SECRET_file", "file", "taken"}) {
          RenameRequest r;
          r.parent = from;
          r.name = name;
          r.new_parent = to;
          r.new_name = new_name;
          use(r);
          r.release = w.handles().held;
          r.exchange = true;
          use(r);
        }
      }
    }
  }
}
inline void Each(const World& w, const Use<LinkRequest>& use) {
  for (InodeId ino : Inodes(w)) {
    for (InodeId to : {w.own_dir(), w.open_dir(), w.handles().dirs[0]}) use({{}, ino, to, "taken"});
  }
}
inline void Each(const World& w, const Use<ReadDirRequest>& use) {
  for (InodeId ino : Inodes(w)) {
    for (const bool attrs : {false, true}) use({{}, ino, 0, 100, attrs});
  }
}
inline void Each(const World& w, const Use<XattrRequest>& use) {
  for (InodeId ino : Inodes(w)) {
    for (const char* name : {"user.SECRET", "user.open", "security.SECRET", "trusted.SECRET", "security.capability", "system.posix_acl_access",
                             "system.posix_acl_default", "user.new"}) {
      use({{}, ino, name, "", false, false});
      use({{}, ino, name, std::string("\x02\0\0\0", 4), false, false});
    }
  }
}
inline void Each(const World& w, const Use<LayoutRequest>& use) {
  for (InodeId ino : Inodes(w)) {
    LayoutRequest r;
    r.ino = ino;
    use(r);
    r.layout.emplace();
    r.layout->k = 1;
    use(r);
  }
}
inline void Each(const World& w, const Use<GetExtentsRequest>& use) {
  for (InodeId ino : Inodes(w)) {
    for (const uint64_t length : {uint64_t{0}, uint64_t{1}, kGiB}) use({{}, ino, 0, length, length == 1});
  }
}
inline void Each(const World& w, const Use<AllocateRequest>& use) {
  for (InodeId ino : Inodes(w)) use({{}, ino, 1, 0, {}});
}
inline void Each(const World& w, const Use<CommitRequest>& use) {
  Extent bytes;
  bytes.length = 3;
  bytes.inline_bytes = "bad";
  std::vector<InodeId> inodes = Inodes(w);
  inodes.push_back(w.stranger_file());
  for (InodeId ino : inodes) {
    CommitRequest write;
    write.ino = ino;
    write.extents = {bytes};
    if (ino != w.stranger_file()) use(write);
    CommitRequest punch;
    punch.ino = ino;
    punch.punch = {{0, kGiB}};
    if (ino != w.stranger_file()) use(punch);
    CommitRequest grow;
    grow.ino = ino;
    grow.grow_to = kGiB;
    grow.mtime_ns = 1;
    if (ino != w.stranger_file()) use(grow);
    CommitRequest append = write;
    append.append = true;
    if (ino != w.stranger_file()) use(append);
    // Bytes of a stripe that another file uses; the stripe itself, once more.
    for (const StripeInfo& s : w.handles().stripes) {
      CommitRequest stolen;
      stolen.ino = ino;
      Extent e;
      e.length = kMiB;
      e.stripe = s.id;
      stolen.extents = {e};
      use(stolen);
      stolen.stripes = {s};
      use(stolen);
      CommitRequest back;
      back.give_back = {s.id};
      use(back);
    }
    for (InodeId parent : {w.handles().dirs[0], w.handles().alone, w.open_dir(), w.own_dir()}) {
      for (const char* name : {"SECRET_file", "SECRET_held", "file", "made", "SECRET_0"}) {
        CommitRequest make = write;
        make.make = MadeFile{parent, name, 0666, 0, 1, std::nullopt};
        use(make);
        make.make->set.emplace();
        make.make->set->mode = 0777;
        make.make->set->uid = kStranger;
        use(make);
      }
    }
  }
}
inline void Each(const World& w, const Use<CloneRequest>& use) {
  for (InodeId ino : Inodes(w)) {
    use({{}, ino, 0, w.stranger_file(), 0, kGiB});
    use({{}, w.stranger_file(), 0, ino, 0, kGiB});
    use({{}, ino, 0, ino, 2 * kGiB, kMiB});
  }
}
inline void Each(const World& w, const Use<ReportShardRequest>& use) {
  for (const StripeInfo& s : w.handles().stripes) {
    for (uint16_t i = 0; i < s.columns.size(); ++i) {
      ReportShardRequest r;
      r.stripe = s.id;
      r.column = i;
      r.shard = s.columns[i].shard;
      use(r);
      r.token = TokenSigner(ClusterKey{1, {}}).ProveNode(Uuid{1, 1}, "n1");
      use(r);
      r.stripe = StripeId();
      use(r);
    }
  }
}
inline void Each(const World&, const Use<RegisterNodeRequest>& use) {
  RegisterNodeRequest r;
  r.uuid = Uuid{500, 1};
  r.name = "n1";
  r.address = "elsewhere:1";
  use(r);
  r.proof = TokenSigner(ClusterKey{1, {}}).ProveNode(r.uuid, r.name);
  use(r);
  // Another node's number, or its disk.
  r.name = "n3";
  use(r);
  r.uuid = Uuid{500, 77};
  DiskHello disk;
  disk.uuid = Uuid{1001, 1};
  disk.label = "d1";
  disk.capacity_bytes = disk.free_bytes = kGiB;
  r.disks = {disk};
  use(r);
}
inline void Each(const World&, const Use<HeartbeatRequest>& use) {
  for (uint32_t node = 1; node <= 5; ++node) {
    for (uint64_t epoch = 1; epoch <= 12; ++epoch) {
      HeartbeatRequest r;
      r.node = NodeId(node);
      r.epoch = Epoch(epoch);
      r.rebuild_slots = 8;
      use(r);
    }
  }
}
inline void Each(const World& w, const Use<ReportWorkRequest>& use) {
  for (uint32_t node = 1; node <= 5; ++node) {
    for (uint64_t epoch = 1; epoch <= 12; ++epoch) {
      ReportWorkRequest r;
      r.node = NodeId(node);
      r.epoch = Epoch(epoch);
      for (const Column& c : w.handles().stripes[0].columns) r.deleted.push_back(c.shard);
      use(r);
    }
  }
}
inline void Each(const World& w, const Use<CheckShardsRequest>& use) {
  for (TargetId t : Targets(w)) {
    CheckShardsRequest r;
    r.target = t;
    for (const Column& c : w.handles().stripes[0].columns) r.shards.push_back(c.shard);
    use(r);
  }
}
inline void Each(const World& w, const Use<AdminRequest>& use) {
  for (int verb = 1; verb <= static_cast<int>(AdminVerb::kAdmit); ++verb) {
    for (const bool dry : {true, false}) {
      AdminRequest r;
      r.verb = static_cast<AdminVerb>(verb);
      r.target = Targets(w)[0];
      r.dry_run = dry;
      r.force = true;
      use(r);
      r.target = TargetId();
      r.node = NodeId(1);
      r.new_node = NodeId(2);
      use(r);
    }
  }
}
inline void Each(const World&, const Use<UpkeepRequest>& use) {
  for (int verb = 1; verb <= static_cast<int>(UpkeepVerb::kForgetUnknown); ++verb) {
    for (const bool dry : {true, false}) use({{}, static_cast<UpkeepVerb>(verb), 1, dry});
  }
}
inline void Each(const World& w, const Use<CanRemoveRequest>& use) { use({{}, Targets(w)}); }
inline void Each(const World& w, const Use<ReportScrubRequest>& use) {
  for (uint32_t node = 1; node <= 5; ++node) {
    for (uint64_t epoch = 1; epoch <= 12; ++epoch) {
      ReportScrubRequest r;
      r.node = NodeId(node);
      r.epoch = Epoch(epoch);
      ScrubProgress p;
      p.target = Targets(w)[0];
      p.damaged = 1;
      p.unfit = {w.handles().stripes[0].id};
      r.disks = {p};
      use(r);
    }
  }
}
inline void Each(const World& w, const Use<CompareShardsRequest>& use) {
  for (TargetId t : Targets(w)) use({{}, t, ShardId(), ShardId(UINT64_MAX - 1), {}});
}
inline void Each(const World& w, const Use<ListParityRequest>& use) {
  for (TargetId t : Targets(w)) use({{}, t, ShardId(), ShardId(UINT64_MAX - 1)});
}
inline void Each(const World&, const Use<FsckRepairRequest>& use) {
  for (const bool dry : {true, false}) use({{}, dry});
}
inline void Each(const World& w, const Use<NamesRequest>& use) {
  for (InodeId ino : Inodes(w)) {
    for (const std::string& after : {std::string(), InodeKey(ino), std::string("elsewhere")}) use({{}, ino, after});
  }
}
inline void Each(const World&, const Use<ReadEventsRequest>& use) {
  for (const uint64_t after : {uint64_t{0}, UINT64_MAX}) use({{}, after, 0, EventSeverity::kNote, 10, 0});
}
inline void Each(const World& w, const Use<FilesRequest>& use) {
  for (int kind = 1; kind <= static_cast<int>(FilesKind::kWouldDegrade); ++kind) {
    for (const std::string& after : {std::string(), std::string(24, '\0'), std::string("elsewhere")}) {
      use({{}, static_cast<FilesKind>(kind), Targets(w), after});
    }
  }
}

}  // namespace stria::requests
