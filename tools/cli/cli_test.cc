// The whole command line against a metadata service that answers from canned replies.
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <functional>
#include <sstream>

#include "common/token.h"
#include "stripe/layout_spec.h"
#include "tools/cli/cli_testing.h"
#include "tools/cli/context.h"
#include "tools/cli/sample_status.h"
#include "tools/cli/upkeep.h"

namespace stria::cli {
namespace {

TEST_F(CliTest, CredentialsOfTheFlagOrTheEnvironment) {
  EXPECT_EQ(Run("status"), 0);
  EXPECT_EQ(trust_, "") << "the usual place";
  env_trust_ = "/of/the/environment";
  EXPECT_EQ(Run("status"), 0);
  EXPECT_EQ(trust_, "/of/the/environment");
  EXPECT_EQ(Run("status --trust /of/the/flag"), 0);
  EXPECT_EQ(trust_, "/of/the/flag");
  // What is wrong with them is said where nobody answers.
  note_ = "the file /x cannot be read";
  EXPECT_EQ(Run("status --meta dead --timeout 1"), kExitUnreachable);
  EXPECT_NE(err_.str().find("no credentials, which it may want: the file /x cannot be read"), std::string::npos) << err_.str();
}

TEST_F(CliTest, ScrubAndRebalance) {
  EXPECT_EQ(Run("scrub start --rate 50M"), 0);
  ASSERT_EQ(asked_.size(), 1u);
  EXPECT_EQ(asked_[0].verb, UpkeepVerb::kScrubStart);
  EXPECT_EQ(asked_[0].number, 50 * kMiB);
  EXPECT_EQ(Run("scrub start --rate 0"), 64);
  EXPECT_EQ(Run("rebalance start --dry-run"), 0);
  EXPECT_TRUE(asked_.back().dry_run);
  EXPECT_EQ(Run("rebuild start"), 0);
  EXPECT_EQ(asked_.back().verb, UpkeepVerb::kRepairStart);
  upkeep_.scrubs = {{.target = TargetId(11), .running = true, .bytes_done = 30, .bytes_total = 100, .damaged = 2}};
  EXPECT_EQ(Run("scrub status"), 0);
  EXPECT_NE(out_.str().find("n1:d1  running  30 %"), std::string::npos) << out_.str();
  EXPECT_EQ(Run("rebalance status"), 0);
  EXPECT_EQ(out_.str(), "no rebalancing goes on\n");
  EXPECT_EQ(Run("status"), 0);
  EXPECT_NE(out_.str().find("  scrub: 1 disk of 1 being read, 30 % of 100 B; 2 damaged shards found\n"), std::string::npos) << out_.str();
}

TEST_F(CliTest, ATerminalIsAsked) {
  std::vector<std::string> questions;
  bool answer = false;
  confirm_ = [&](const std::string& what) {
    questions.push_back(what);
    return answer;
  };
  int done = 0;
  meta_->onAdmin = [&](const AdminRequest& r) {
    done += !r.dry_run;
    AdminReply reply;
    reply.message = "n2 is emptied";
    return reply;
  };
  EXPECT_EQ(Run("node drain n2"), 1);
  EXPECT_EQ(questions, std::vector<std::string>{"n2 is emptied"});
  EXPECT_EQ(done, 0);
  answer = true;
  EXPECT_EQ(Run("node drain n2"), 0);
  EXPECT_EQ(done, 1);
  EXPECT_EQ(Run("node drain n2 --yes"), 0);
  EXPECT_EQ(Run("node drain n2 --dry-run"), 0);
  EXPECT_EQ(questions.size(), 2u);
  EXPECT_EQ(done, 2);
  answer = false;
  EXPECT_EQ(Run("rebalance start"), 1);
  EXPECT_EQ(asked_.size(), 1u) << "only the dry run";
  EXPECT_EQ(Run("rebalance start -y"), 0);
}

TEST_F(CliTest, CanRemove) {
  CanRemoveReply reply;
  std::vector<TargetId> targets;
  admin_->onCanRemove = [&](const CanRemoveRequest& r) {
    targets = r.targets;
    return reply;
  };
  EXPECT_EQ(Run("disk can-remove n1 n2:d2"), 0);
  EXPECT_EQ(targets, (std::vector<TargetId>{TargetId(11), TargetId(12), TargetId(22)}));
  EXPECT_EQ(Run("disk can-remove n9"), 66);
  reply.degraded_stripes = 1;
  reply.files = {{InodeId(5), "/a", 0, 100, false}};
  EXPECT_EQ(Run("disk can-remove n1:d1"), 1);
  EXPECT_NE(out_.str().find("    degraded  /a  0+100\n"), std::string::npos) << out_.str();
  reply.lost_stripes = 2;
  reply.files.insert(reply.files.begin(), {InodeId(6), "", 7, 8, true});
  EXPECT_EQ(Run("disk can-remove n1:d1"), 2);
  EXPECT_NE(out_.str().find("NO: 2 stripes would be lost"), std::string::npos) << out_.str();
  EXPECT_NE(out_.str().find("    lost      inode 6  7+8\n"), std::string::npos) << out_.str();
  reply.files.clear();
  reply.more = true;  // a user is told no names
  EXPECT_EQ(Run("disk can-remove n1:d1"), 2);
  EXPECT_NE(out_.str().find("root sees which files"), std::string::npos) << out_.str();
}

TEST_F(CliTest, FsckRepairs) {
  std::vector<bool> dry;
  FsckRepairReply reply;
  reply.done = {"counter 3 is 5 now"};
  reply.problems = {"inode 5 is odd"};
  admin_->onFsckRepair = [&](const FsckRepairRequest& r) {
    dry.push_back(r.dry_run);
    return reply;
  };
  EXPECT_EQ(Run("fsck --repair --dry-run"), 2);
  EXPECT_EQ(out_.str(), "would: counter 3 is 5 now\nproblem: inode 5 is odd\n1 repair of 1 problem\n");
  EXPECT_EQ(Run("fsck --repair"), 2);
  EXPECT_EQ(out_.str(), "counter 3 is 5 now\nleft: inode 5 is odd\n1 repair; 1 problem left\n");
  bool answer = false;
  confirm_ = [&](const std::string& what) {
    EXPECT_EQ(what, "counter 3 is 5 now");
    return answer;
  };
  EXPECT_EQ(Run("fsck --repair"), 1);
  EXPECT_EQ(dry, (std::vector<bool>{true, false, true}));
  answer = true;
  reply.problems.clear();
  EXPECT_EQ(Run("fsck --repair"), 0);
  EXPECT_EQ(dry.back(), false);
  EXPECT_EQ(Run("fsck --repair --yes --json"), 0);
  EXPECT_EQ(Json::parse(out_.str())["repairs"][0], "counter 3 is 5 now");
}

TEST_F(CliTest, BackupOfTheMetadata) {
  BackupState& b = upkeep_.backup;
  EXPECT_EQ(RenderBackupLine(upkeep_, status_.map, 1000), " backup: of the metadata: switched off\n");
  b.on = true;
  b.behind_ns = 700 * kSecond;
  EXPECT_EQ(RenderBackupLine(upkeep_, status_.map, 1000), " backup: of the metadata: being made, for 11 min 40 s\n");
  b.problem = "n1 is full";
  EXPECT_EQ(Run("status"), 1);
  EXPECT_NE(out_.str().find("  state: DEGRADED\n status: The backup of the metadata is 11 min 40 s behind. Its problem: n1 is full.\n"),
            std::string::npos) << out_.str();
  EXPECT_EQ(Run("status --json"), 1);
  EXPECT_EQ(Json::parse(out_.str())["exit_code"], 1);
  EXPECT_EQ(Json::parse(out_.str())["upkeep"]["backup"]["behind_s"], 700);
  b.complete = true;
  b.behind_ns = 5 * kSecond;
  b.nodes = {NodeId(1), NodeId(2)};
  b.checkpoint_s = 940;
  b.checkpoint_bytes = 3 * kMiB;
  b.problem.clear();
  EXPECT_EQ(RenderBackupLine(upkeep_, status_.map, 1000),
            " backup: of the metadata on n1 and n2, 5 s behind; checkpoint of 3.0 MiB, 1 min ago\n");
  EXPECT_EQ(Run("status"), 0);
  b.behind_ns = 0;
  b.nodes = {NodeId(2)};
  b.hold_until_s = 1000 + 86400;
  b.held_shards = 7;
  EXPECT_EQ(RenderBackupLine(upkeep_, status_.map, 1000),
            " backup: of the metadata on n2, up to date; checkpoint of 3.0 MiB, 1 min ago\n"
            "   held: shards that the restored metadata does not know (7 found so far) are kept for 1 d; end that:  "
            "stria meta forget-unknown\n");
  EXPECT_EQ(Run("status"), 1);
  EXPECT_NE(out_.str().find("on one node only"), std::string::npos) << out_.str();
  b.damage = "a block does not fit its checksum";
  EXPECT_EQ(Run("status"), 2);
  EXPECT_NE(out_.str().find("The metadata on its disk is damaged: a block does not fit its checksum."), std::string::npos)
      << out_.str();
  EXPECT_NE(out_.str().find("stria meta restore --from "), std::string::npos) << out_.str();
  b.damage.clear();
  EXPECT_EQ(Run("meta backup"), 0);
  EXPECT_EQ(asked_.back().verb, UpkeepVerb::kBackupNow);
  EXPECT_EQ(Run("meta forget-unknown --dry-run"), 0);
  EXPECT_EQ(asked_.back().verb, UpkeepVerb::kForgetUnknown);
  EXPECT_TRUE(asked_.back().dry_run);
  EXPECT_EQ(Run("meta restore"), 64);
}

TEST_F(CliTest, ParityThatDoesNotFitIsShown) {
  upkeep_.scrubs = {{.target = TargetId(11), .finished_s = 5, .stripes = 7, .unfit = {StripeId(3)}}};
  upkeep_.unfit = {{InodeId(5), "/a b", 4096, 100, false}};
  EXPECT_EQ(Run("scrub status"), 0);
  EXPECT_NE(out_.str().find("\n    /a b  4096+100\n"), std::string::npos) << out_.str();
  EXPECT_EQ(Run("status"), 0);
  EXPECT_NE(out_.str().find("; parity does not fit in 1 stripe:  stria scrub status\n"), std::string::npos) << out_.str();
  EXPECT_EQ(Run("scrub status --json"), 0);
  EXPECT_EQ(Json::parse(out_.str())["scrub"]["unfit"][0]["path"], "/a b");
}

TEST_F(CliTest, Adding) {
  EXPECT_EQ(Run("node add n2"), 0);
  EXPECT_NE(out_.str().find("n2 is in use: 2 disks, 200 GiB"), std::string::npos) << out_.str();
  EXPECT_EQ(Run("disk add n2:d1"), 0);
  EXPECT_EQ(Run("node add n7"), 1);
  EXPECT_NE(out_.str().find("stria-data --insecure --node-name n7 --meta live:7424"), std::string::npos) << out_.str();
  EXPECT_EQ(Run("disk add n2:d9"), 1);
  EXPECT_NE(out_.str().find("label = \"d9\""), std::string::npos) << out_.str();
}

TEST_F(CliTest, StatusCodes) {
  EXPECT_EQ(Run("status"), 0);
  EXPECT_NE(out_.str().find("state: HEALTHY"), std::string::npos);
  status_.degraded_stripes = 1;
  EXPECT_EQ(Run("status --json"), 1);
  EXPECT_EQ(Json::parse(out_.str())["degraded_stripes"], 1);
  status_.lost_stripes = 1;
  EXPECT_EQ(Run("status --watch --count 1"), 2);
  EXPECT_EQ(Run("status --all"), 2) << "a user is told no names, and is not refused";
  EXPECT_NE(out_.str().find("errors: 1 stripe cannot be read until nodes or disks are back; root sees which files\n"), std::string::npos)
      << out_.str();
}

TEST_F(CliTest, TheClusterOfThisMachinesSettings) {
  env_ = "";
  own_ways_ = {{"/etc/fstab for /data", {"live:7424"}, "/srv/trust", ""}};
  EXPECT_EQ(Run("status"), 0) << err_.str();
  EXPECT_EQ(trust_, "/srv/trust");
  EXPECT_EQ(Run("status --meta dead"), 69) << "what is said on the command line goes before";
  env_ = "dead";
  EXPECT_EQ(Run("status"), 69) << "and so does the environment";
  env_ = "";
  own_ways_.push_back({"/etc/fstab for /other", {"other:7424"}, "", ""});
  EXPECT_EQ(Run("status"), 69);
  EXPECT_NE(err_.str().find("/etc/fstab for /data names live:7424, and /etc/fstab for /other names other:7424: give --meta"), std::string::npos) << err_.str();
}

TEST_F(CliTest, WhichCluster) {
  env_ = "";
  EXPECT_EQ(Run("status"), 69);
  EXPECT_NE(err_.str().find("--meta"), std::string::npos) << err_.str();
  EXPECT_EQ(Run("status --meta dead1,dead2"), 69);
  EXPECT_NE(err_.str().find("dead1:7424, dead2:7424"), std::string::npos) << err_.str();
  EXPECT_NE(err_.str().find("connection refused"), std::string::npos) << err_.str();
  EXPECT_EQ(Run("status --meta dead,live"), 0) << "the second one answers";
  EXPECT_EQ(Run("status --meta [live"), 64);
  EXPECT_NE(err_.str().find("host:port"), std::string::npos) << err_.str();
  EXPECT_EQ(Run("status --json --meta dead"), 69);
  EXPECT_EQ(Json::parse(out_.str())["error"]["code"], "Unavailable");
}

TEST_F(CliTest, WrongUsage) {
  for (const char* line :
       {"", "frobnicate", "status --bogus", "node", "disk replace n1:d1", "rebuild limit 5x",
        "layout set / raid7", "dev up", "dev up --dir /tmp/x --nodes 0", "where"}) {
    EXPECT_EQ(Run(line), 64) << line;
    EXPECT_NE(err_.str(), "") << line;
  }
}

TEST_F(CliTest, JobsAndWhoIsAtWork) {
  std::string text = "slurm:7 local=1,network=2,reconstructed=3,read=4,written=5,operations=6,waited_ns=7,idle_ns=8\n";
  std::vector<std::string> asked;
  ask_ = [&](const std::string& path, const std::string& name) -> Result<std::string> {
    asked.push_back(path + " " + name);
    return text;
  };
  EXPECT_EQ(Run("stats /mnt/x --by job"), 0) << err_.str();
  EXPECT_NE(out_.str().find("slurm:7"), std::string::npos) << out_.str();
  EXPECT_EQ(asked, std::vector<std::string>{"/mnt/x user.stria.jobs"});
  EXPECT_EQ(Run("stats --by job --json /mnt"), 0);
  EXPECT_EQ(Json::parse(out_.str())["jobs"][0]["network_bytes"], 2);
  EXPECT_EQ(Run("stats --by moon"), kExitUsage);
  text = "nonsense";
  EXPECT_EQ(Run("stats --by job"), kExitSoftware);

  EXPECT_EQ(Run("top --by job --once --interval 1"), kExitSoftware);
  text = "slurm:7 local=1,network=2,reconstructed=3,read=4,written=5,operations=6,waited_ns=7,idle_ns=8\n";
  EXPECT_EQ(Run("top --by job --once --interval 1 --json"), 0) << err_.str();
  EXPECT_EQ(Json::parse(out_.str())["jobs"][0]["mount"], "/mnt");
  EXPECT_EQ(Run("top --once --interval 1"), 0) << err_.str();
  EXPECT_NE(out_.str().find("mount /data on pc7 (pid 123)"), std::string::npos) << out_.str();
  EXPECT_EQ(Run("top --once --meta dead --timeout 1"), kExitUnreachable);
  mounts_.clear();
  EXPECT_EQ(Run("top --by job --once"), kExitNoInput);
}

TEST_F(CliTest, EveryVerbHasHelpWithAnExample) {
  EXPECT_EQ(Run("--help"), 0);
  EXPECT_NE(out_.str().find("Exit codes"), std::string::npos);
  for (const char* verb :
       {"status",      "node ls",       "node replace",  "node drain",     "node undrain",  "node out",
        "node remove", "disk ls",       "disk replace",  "disk drain",     "disk undrain",  "disk remove",
        "rebuild ls",  "rebuild watch", "rebuild pause", "rebuild resume", "rebuild limit", "where",
        "layout get",  "layout set",    "paths",         "fsck",          "stats",         "top",           "run",           "split",         "gather",           "dev up",        "dev down",
        "token make",  "token ls",      "token revoke",  "cert ls",        "cert show",     "cert revoke",   "cert renew", "ca show",
        "ca rotate",   "ca finish",     "export ls",     "export set",     "export remove", "client ls",     "client evict",
        "audit",       "join",          "dev kill",      "dev start",     "dev add",       "dev mount",      "dev env",       "dev status"}) {
    EXPECT_EQ(Run(std::string(verb) + " --help"), 0) << verb;
    EXPECT_NE(out_.str().find(std::string("Example:\n  ")), std::string::npos) << verb;
    EXPECT_NE(out_.str().find("--json"), std::string::npos) << verb;
  }
}

TEST_F(CliTest, AdminVerbsNameWhatTheyMean) {
  AdminRequest seen;
  meta_->onAdmin = [&](const AdminRequest& r) -> Result<AdminReply> {
    seen = r;
    return AdminReply{"n2:d1 takes the place of n1:d2", 7, 3 * kMiB};
  };
  EXPECT_EQ(Run("disk replace n1:d2 n2:d1 --dry-run"), 0) << err_.str();
  EXPECT_EQ(seen.verb, AdminVerb::kReplaceTarget);
  EXPECT_EQ(seen.target, TargetId(12));
  EXPECT_EQ(seen.new_target, TargetId(21));
  EXPECT_TRUE(seen.dry_run);
  EXPECT_FALSE(seen.header.session);
  EXPECT_GT(seen.header.timeout_ns, 0);
  EXPECT_EQ(out_.str(), "would: n2:d1 takes the place of n1:d2\n");
  EXPECT_EQ(Run("node replace n1 n2"), 0);
  EXPECT_EQ(seen.verb, AdminVerb::kReplaceNode);
  EXPECT_EQ(seen.node, NodeId(1));
  EXPECT_EQ(seen.new_node, NodeId(2));
  EXPECT_NE(out_.str().find("stria rebuild watch"), std::string::npos);
  EXPECT_EQ(Run("node drain n9"), 66);
  EXPECT_NE(err_.str().find("there are: n1, n2"), std::string::npos) << err_.str();
  EXPECT_EQ(Run("rebuild limit 10M"), 0);
  EXPECT_EQ(seen.number, 10 * kMiB);
  EXPECT_EQ(Run("rebuild limit none"), 0);
  EXPECT_EQ(seen.number, 0u);
  meta_->onAdmin = [](const AdminRequest&) -> Result<AdminReply> {
    return Error(FsError::kBusy, "n1 holds the last copy of 3 stripes");
  };
  EXPECT_EQ(Run("node remove n1 --json"), 1);
  EXPECT_EQ(err_.str(), "stria: n1 holds the last copy of 3 stripes\n");
}

TEST_F(CliTest, WherePathsLayoutFsck) {
  meta_->onGetAttr = [](const InodeRequest& r) -> Result<NodeReply> {
    NodeReply reply;
    reply.attr.ino = r.ino;
    reply.attr.type = FileType::kDirectory;
    return reply;
  };
  meta_->onLookup = [](const NameRequest& r) -> Result<NodeReply> {
    if (r.name.ends_with("nothing")) return Error(FsError::kNoEnt, "no such name");
    NodeReply reply;
    reply.attr.ino = InodeId(r.parent.v + 1);
    reply.attr.size = 5;
    return reply;
  };
  meta_->onGetExtents = [](const GetExtentsRequest& r) -> Result<GetExtentsReply> {  // two bytes a time
    GetExtentsReply reply;
    reply.covered_to = std::min(r.offset + 2, r.offset + r.length);
    reply.extents.push_back(
        {.file_offset = 0, .length = 5, .stripe = {}, .stripe_offset = 0, .inline_bytes = "12345"});
    return reply;
  };
  meta_->onGetLayout = [](const LayoutRequest&) -> Result<LayoutReply> {
    return LayoutReply{Layout(), true};
  };
  meta_->onSetLayout = [](const LayoutRequest& r) -> Result<LayoutReply> {
    return LayoutReply{*r.layout, false};
  };
  EXPECT_EQ(Run("where dir/file"), 0) << err_.str();
  EXPECT_EQ(out_.str(), "RANGE  SIZE  NODE  DISK  ROLE  HEALTH\n0+5     5 B  meta  -     meta  ok\n");
  EXPECT_EQ(Run("where dir/file --json --range 1+2"), 0);
  EXPECT_EQ(Json::parse(out_.str())["ranges"][0]["length"], 2);
  EXPECT_EQ(Run("where /nothing"), 66);
  EXPECT_EQ(Run("layout get x"), 0);
  EXPECT_EQ(out_.str(), "raid5:4+1 (inherited)\n");
  EXPECT_EQ(Run("layout set x raid6:4+2,unit=1M"), 0);
  EXPECT_EQ(out_.str(), "raid6:4+2,unit=1M\n");

  admin_->onNames = [](const NamesRequest& r) -> Result<NamesReply> {  // a page each
    if (r.ino.v == 8) return NamesReply{{}, 2, ""};
    return r.after.empty() ? NamesReply{{"/a\xff\n"}, 0, "x"} : NamesReply{{"/b c"}, 1, ""};
  };
  EXPECT_EQ(Run("paths 7"), 0);
  EXPECT_EQ(out_.str(), "$'/a\\377\\n'\n/b c\n");
  EXPECT_EQ(err_.str(), "stria: 1 name is in a directory that you may not list\n");
  EXPECT_EQ(Run("paths 7 --null"), 0);
  EXPECT_EQ(out_.str(), std::string("/a\xff\n\0/b c\0", 10));
  EXPECT_EQ(Run("paths 7 --json"), 0);
  EXPECT_NE(out_.str().find(R"("/a\udcff\n")"), std::string::npos) << out_.str();
  EXPECT_EQ(Run("paths 8"), 1);
  EXPECT_EQ(Run("where /\033[2Jnothing"), 66);
  EXPECT_EQ(err_.str().find('\033'), std::string::npos) << err_.str();
  FsckReply clean{{}, 10, 2, 5};
  meta_->onFsck = [&](const InodeRequest&) -> Result<FsckReply> { return clean; };
  EXPECT_EQ(Run("fsck"), 0);
  EXPECT_EQ(out_.str(), "checked 10 inodes, 5 extents, 2 stripes: clean\n");
  clean.problems = {"stripe 4 is referenced and does not exist"};
  EXPECT_EQ(Run("fsck --json"), 2);
  EXPECT_FALSE(Json::parse(out_.str())["clean"]);
}

TEST_F(CliTest, AllFilesPageByPage) {
  status_.lost_stripes = 9;
  for (uint64_t i = 1; i <= kMaxListedFiles; ++i) status_.lost_files.push_back({InodeId(i), "/f" + std::to_string(i), 0, 1});
  admin_->onFiles = [](const FilesRequest& r) -> Result<FilesReply> {
    FilesReply page;
    const size_t from = r.after.empty() ? 0 : std::stoul(r.after);
    for (size_t i = from; i < std::min<size_t>(from + 90, 250); ++i) page.files.push_back({InodeId(i + 1), "/f" + std::to_string(i + 1), 0, 1, true});
    if (from + 90 < 250) page.next = std::to_string(from + 90);
    page.cut = r.kind == FilesKind::kLost;
    return page;
  };
  EXPECT_EQ(Run("status"), 2);
  EXPECT_NE(out_.str().find("stria status --all"), std::string::npos) << out_.str();
  EXPECT_EQ(Run("status --all"), 2);
  EXPECT_NE(out_.str().find("/f250"), std::string::npos) << out_.str();
  EXPECT_EQ(out_.str().find("--all"), std::string::npos) << out_.str();
  EXPECT_EQ(err_.str(), "stria: there are more of these files; they are listed when some of these are mended\n");
}

TEST_F(CliTest, EventsPageByPage) {
  std::vector<ReadEventsRequest> asked;
  admin_->onReadEvents = [&](const ReadEventsRequest& r) -> Result<ReadEventsReply> {
    asked.push_back(r);
    ReadEventsReply page;
    page.next = r.after + 1;
    page.more = page.next < 3;
    page.events.push_back({page.next, kSecond, "node-down", EventSeverity::kWarning, "n3", "Event " + std::to_string(page.next) + ".", "Do it.", 1, kSecond});
    return page;
  };
  EXPECT_EQ(Run("events --since 2d --severity warning"), 0) << err_.str();
  ASSERT_EQ(asked.size(), 3u);
  EXPECT_EQ(asked[2].after, 2u);
  EXPECT_EQ(asked[0].least, EventSeverity::kWarning);
  EXPECT_EQ(asked[0].wait_ns, 0);
  EXPECT_NE(out_.str().find("warning   Event 3.\n"), std::string::npos) << out_.str();
  EXPECT_EQ(Run("events --json"), 0);
  EXPECT_EQ(Json::parse(out_.str())["events"].size(), 3u);
  EXPECT_EQ(Run("events --since yesterday"), 64);
  EXPECT_EQ(Run("events --severity bad"), 64);
  EXPECT_EQ(Run("watch"), 64);
  EXPECT_NE(err_.str().find("--mail or --exec"), std::string::npos) << err_.str();
  EXPECT_EQ(Run("watch --mail -oQ/tmp"), 64);
  EXPECT_EQ(Run("watch --exec relative"), 64);
}

TEST_F(CliTest, UnknownWordsAreNamed) {
  EXPECT_EQ(Run("statsu"), 64);
  EXPECT_NE(err_.str().find("there is no 'statsu'; there are: status, "), std::string::npos) << err_.str();
  EXPECT_EQ(Run("node drian n3"), 64);
  EXPECT_NE(err_.str().find("there is no 'node drian'; there are: "), std::string::npos) << err_.str();
  EXPECT_EQ(Run("node"), 64);
  EXPECT_NE(err_.str().find("'node' needs one more word: "), std::string::npos) << err_.str();
  EXPECT_EQ(Run(""), 64);
  EXPECT_NE(err_.str().find("which command? There are: "), std::string::npos) << err_.str();
  EXPECT_EQ(Run("status --nonsense"), 64);
  EXPECT_NE(err_.str().find("--nonsense"), std::string::npos) << err_.str();
  EXPECT_EQ(Run("--help"), 0);
}

TEST_F(CliTest, NoTerminalObeysWhatIsSaid) {
  // As `stria where *` beside somebody's file of such a name.
  for (const char* line : {"status --no\033[31mx", "status \033[31mx", "nothing\033[31m", "status --timeout 1\033[31m",
                           "status --json=\033[31m", "split --format \033[31m /f", "node add \033[31m --dry-run",
                           "disk reindex /no\033[31m", "run --near /no\033[31m --dry-run"}) {
    EXPECT_NE(Run(line), 0) << line;
    EXPECT_EQ((out_.str() + err_.str()).find('\033'), std::string::npos) << line << ": " << out_.str() << err_.str();
  }
  EXPECT_EQ(Run("status --no\033[31mx"), 64);
  EXPECT_NE(err_.str().find("--no\\033[31mx"), std::string::npos) << err_.str();
  EXPECT_EQ(Run("status --help"), 0);
  EXPECT_NE(out_.str().find("\n  --json"), std::string::npos) << "lines stay lines: " << out_.str();
  // What nodes say of themselves.
  status_.map.nodes[0].name = "n1\033[31m";
  status_.map.nodes[0].address = "pc1\033[31m:7425";
  status_.map.targets[0].label = "d1\033[31m";
  for (const char* line : {"status", "node ls", "disk ls", "rebuild ls", "scrub status", "node add n1\033[31m"}) {
    (void)Run(line);
    EXPECT_EQ((out_.str() + err_.str()).find('\033'), std::string::npos) << line << ": " << out_.str() << err_.str();
  }
}

TEST_F(CliTest, RefusalsAreSentences) {
  meta_->onFsck = [](const InodeRequest&) -> Result<FsckReply> { return FsError::kPerm; };
  EXPECT_EQ(Run("fsck"), 77);
  EXPECT_EQ(err_.str(), "stria: only root, or the owner, may do that\n");
}

TEST_F(CliTest, AKeyIsMadeOnce) {
  const std::string path = testing::TempDir() + "/new.key";
  unlink(path.c_str());
  EXPECT_EQ(Run("key new " + path), 0) << err_.str();
  struct stat st;
  ASSERT_EQ(stat(path.c_str(), &st), 0);
  EXPECT_EQ(st.st_mode & 07777, 0600u);
  std::stringstream text;
  text << std::ifstream(path).rdbuf();
  EXPECT_EQ(ParseClusterKeys(text.str())->size(), 1u);
  EXPECT_EQ(Run("key new " + path), 1);
  EXPECT_NE(err_.str().find("is there already"), std::string::npos) << err_.str();
}

TEST_F(CliTest, LayoutsNameNodes) {
  meta_->onGetAttr = [](const InodeRequest& r) -> Result<NodeReply> {
    NodeReply reply;
    reply.attr.ino = r.ino;
    reply.attr.type = FileType::kDirectory;
    return reply;
  };
  Layout is = ParseLayout("raid6:4+2,arrange=gathered,place=local").value();
  meta_->onGetLayout = [&](const LayoutRequest&) -> Result<LayoutReply> { return LayoutReply{is, false}; };
  meta_->onSetLayout = [&](const LayoutRequest& r) -> Result<LayoutReply> { return LayoutReply{is = *r.layout, false}; };
  EXPECT_EQ(Run("layout set / --place node:n2"), 0) << err_.str();
  EXPECT_EQ(is.place_node, NodeId(2));
  EXPECT_EQ(out_.str(), "raid6:4+2,arrange=gathered,place=node:n2\n");
  EXPECT_EQ(Run("layout get /"), 0);
  EXPECT_EQ(out_.str(), "raid6:4+2,arrange=gathered,place=node:n2\n");
  EXPECT_EQ(Run("layout set / raid5:4+1,place=node:n1"), 0);
  EXPECT_EQ(is.place_node, NodeId(1));
  EXPECT_EQ(Run("layout set / --place spread"), 0);
  EXPECT_EQ(out_.str(), "raid5:4+1\n");
  EXPECT_EQ(Run("layout set / --place node:n9"), 66);
  EXPECT_NE(err_.str().find("there are: n1, n2"), std::string::npos) << err_.str();
  EXPECT_EQ(Run("layout set / --place nowhere"), 64);
  EXPECT_EQ(Run("layout set /"), 64);
}

TEST_F(CliTest, AServerThatStartsIsAskedAgain) {
  int asked = 0;
  meta_->onStatus = [&](const InodeRequest&) -> Result<StatusReply> {
    if (++asked < 3) return Error(FsError::kNotReady, "reading its log");
    return status_;
  };
  EXPECT_EQ(Run("status"), 0);
  EXPECT_EQ(asked, 3);
}

TEST_F(CliTest, NobodyWaitsInTheDark) {
  meta_->onStatus = [&](const InodeRequest&) -> Result<StatusReply> {
    return Error(FsError::kNotReady, "reading its log");
  };
  EXPECT_EQ(Run("status --timeout 3"), 69);
  EXPECT_NE(err_.str().find("status: waiting for live:7424, 2 s"), std::string::npos) << err_.str();
  EXPECT_NE(err_.str().find("reading its log"), std::string::npos) << err_.str();
}

TEST_F(CliTest, RebuildWatchOfAHealthyCluster) {
  EXPECT_EQ(Run("rebuild watch"), 0);
  EXPECT_EQ(out_.str(), "nothing to rebuild: every stripe has all its columns\n");
  EXPECT_EQ(Run("rebuild ls"), 0);
  status_.degraded_stripes = 2;
  EXPECT_EQ(Run("rebuild ls"), 1);
}

TEST_F(CliTest, DevWithoutACluster) {
  EXPECT_EQ(Run("dev status --dir /nonexistent/d"), 66);
  EXPECT_EQ(Run("dev down --dir /nonexistent/d"), 66);
  EXPECT_NE(err_.str().find("stria dev up"), std::string::npos) << err_.str();
}

// Daemons run elsewhere: a relative path that does not exist yet is made absolute.
TEST_F(CliTest, DevPathsAreAbsolute) {
  EXPECT_NE(Run("dev env --dir not-there/c/"), 0);
  char here[4096];
  ASSERT_NE(getcwd(here, sizeof here), nullptr);
  EXPECT_NE(err_.str().find(std::string(here) + "/not-there/c;"), std::string::npos) << err_.str();
}

}  // namespace
}  // namespace stria::cli
