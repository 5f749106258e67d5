// Files of a mount, asked about with credentials and without.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>
#include <tuple>
#include <vector>

#include "common/temp_dir.h"
#include "locality/told.h"
#include "stripe/layout_spec.h"
#include "tools/cli/cli_testing.h"

namespace stria::cli {
namespace {

class AskedFileTest : public CliTest {};

// Who has no credentials gets the same answers from the mount that holds the file, and the server is not asked.
TEST_F(AskedFileTest, AUserAsksThroughTheMount) {
  const TempDir temp;
  const std::string dir = std::filesystem::canonical(temp.path()).string(), file = dir + "/f";
  std::ofstream(file) << std::string(200, 'x');
  mounts_ = {{dir, {"live"}}};
  Layout layout = ParseLayout("raid6:4+2,arrange=gathered,unit=1M,place=node:2").value();
  const std::vector<Extent> extents = {{.file_offset = 0, .length = 5, .stripe = {}, .stripe_offset = 0, .inline_bytes = "12345"},
                                       {.file_offset = 100, .length = 100, .stripe = StripeId(9), .stripe_offset = 0}};
  meta_->onGetAttr = [&](const InodeRequest& r) -> Result<NodeReply> {
    NodeReply reply;
    struct stat st = {};
    EXPECT_EQ(stat(file.c_str(), &st), 0);
    reply.attr.ino = r.ino;
    reply.attr.type = r.ino.v == st.st_ino ? FileType::kFile : FileType::kDirectory;
    reply.attr.size = 200;
    return reply;
  };
  meta_->onGetExtents = [&](const GetExtentsRequest& r) -> Result<GetExtentsReply> {
    GetExtentsReply reply;
    reply.extents = extents;
    reply.covered_to = r.offset + r.length;
    return reply;
  };
  meta_->onGetLayout = [&](const LayoutRequest&) -> Result<LayoutReply> { return LayoutReply{layout, true}; };
  const std::vector<std::string> lines = {"where " + file, "where " + file + " --by-host", "where " + file + " --json --range 3+150",
                                          "where " + file + " --by-host --json", "layout get " + file, "layout get --json " + dir,
                                          "split " + file, "split --align file --nodes n1,n2 " + file, "run --dry-run --near " + file,
                                          "where " + file + " --range 500+1"};
  std::vector<std::string> want;
  for (const std::string& line : lines) {
    EXPECT_EQ(Run(line), 0) << line << ": " << err_.str();
    want.push_back(out_.str() + err_.str());
  }

  note_ = "there are none in /etc/stria/trust";
  *meta_ = FakeMeta();  // whoever asks it now is told that it was not expected
  size_t pages = 0;
  ask_ = [&](const std::string& path, const std::string& name) -> Result<std::string> {
    EXPECT_TRUE(path == file || path == dir) << path;
    if (name.starts_with(kToldRows)) {
      ++pages;
      const RowsWanted wanted = ParseRowsName(name).value();
      return RowsText(200, extents, {}, status_.map, wanted, wanted.from < 5 && wanted.length > 0 ? 5 : 200, kMaxXattrValueBytes);
    }
    if (name == kToldLayout) return LayoutText({LayoutToString(layout), true});
    if (name.starts_with(kToldNodes)) return NodesText(status_.map.nodes, ParseNodesName(name).value(), 60);
    return Error(FsError::kNoEnt, "no such attribute");
  };
  for (size_t i = 0; i < lines.size(); ++i) {
    EXPECT_EQ(Run(lines[i]), 0) << lines[i] << ": " << err_.str();
    EXPECT_EQ(out_.str() + err_.str(), want[i]) << lines[i];
  }
  EXPECT_GT(pages, lines.size());

  // Setting goes by the attribute for people, which has names of nodes.
  std::string set;
  tell_ = [&](const std::string&, const std::string& name, const std::string& value) -> Result<void> {
    EXPECT_EQ(name, "user.stria.layout");
    set = value;
    layout = ParseLayout("raid1:2,place=node:1").value();
    return {};
  };
  EXPECT_EQ(Run("layout set " + dir + " raid1:2 --place node:n1"), 0) << err_.str();
  EXPECT_EQ(set, "raid1:2,place=node:n1");
  EXPECT_EQ(out_.str(), "raid1:2,place=node:n1 (inherited)\n");

  // What the mount refuses is said, and is not asked for elsewhere.
  for (const auto& [code, exit, words] : {std::tuple{FsError::kAccess, int{kExitNoPermission}, "you may not read " + file},
                                          std::tuple{FsError::kNoEnt, int{kExitNo}, std::string("it is of an older version")},
                                          std::tuple{FsError::kBadRequest, int{kExitSoftware}, std::string("nonsense")}}) {
    ask_ = [c = code](const std::string&, const std::string&) -> Result<std::string> { return Error(c, "nonsense"); };
    for (const std::string verb : {"where ", "layout get ", "split "}) {
      EXPECT_EQ(Run(verb + file), exit) << verb;
      EXPECT_NE(err_.str().find(words), std::string::npos) << err_.str();
    }
  }
  // Who names a cluster or credentials means them.
  EXPECT_NE(Run("where --meta live " + file), 0);
  EXPECT_NE(err_.str().find("was not expected"), std::string::npos) << err_.str();
  env_trust_ = "/of/the/environment";
  EXPECT_NE(Run("where " + file), 0);
  EXPECT_NE(err_.str().find("was not expected"), std::string::npos) << err_.str();
}

// A user's `paths` goes by the directory that he is in, or by the mount's own if he may not read that.
TEST_F(AskedFileTest, NamesThroughTheMount) {
  mounts_ = {{"/somewhere", {"live"}}};  // where commands of this test run
  note_ = "there are none in /etc/stria/trust";
  std::vector<std::string> names(3000, "/" + std::string(60, 'x'));
  ask_ = [&](const std::string& path, const std::string& name) -> Result<std::string> {
    EXPECT_EQ(path, "/somewhere");
    const PathsWanted wanted = ParsePathsName(name).value();
    if (wanted.ino == 8) return PathsText({}, 2, false, wanted.from, kMaxXattrValueBytes);
    if (wanted.ino == 9) return Error(FsError::kStale, "stale");
    if (wanted.ino == 10) return PathsText(names, 0, true, wanted.from, kMaxXattrValueBytes);
    if (wanted.ino == 11) return Error(FsError::kNoEnt, "no such attribute");
    return PathsText({"/a\xff\n", "/b c"}, 1, false, wanted.from, kMaxXattrValueBytes);
  };
  EXPECT_EQ(Run("paths 7"), 0) << err_.str();
  EXPECT_EQ(out_.str(), "$'/a\\377\\n'\n/b c\n");
  EXPECT_EQ(err_.str(), "stria: 1 name is in a directory that you may not list\n");
  EXPECT_EQ(Run("paths 7 --null"), 0);
  EXPECT_EQ(out_.str(), std::string("/a\xff\n\0/b c\0", 10));
  EXPECT_EQ(Run("paths 8"), kExitNo);
  EXPECT_EQ(Run("paths 9"), kExitNoInput);
  EXPECT_NE(err_.str().find("there is no inode 9, or this mount has not seen it"), std::string::npos) << err_.str();
  EXPECT_EQ(Run("paths 10"), 0) << err_.str();
  const std::string listed = out_.str();
  EXPECT_EQ(static_cast<size_t>(std::count(listed.begin(), listed.end(), '\n')), names.size()) << "several parts";
  EXPECT_NE(err_.str().find("there are more names"), std::string::npos) << err_.str();
  EXPECT_EQ(Run("paths 11"), kExitNo);
  EXPECT_NE(err_.str().find("older version"), std::string::npos) << err_.str();
  // Below the mount's own directory.
  mounts_ = {{"/", {"live"}}};
  ask_ = [&](const std::string& path, const std::string&) -> Result<std::string> {
    if (path == "/somewhere") return Error(FsError::kAccess, "no");
    EXPECT_EQ(path, "/");
    return PathsText({"/a"}, 0, false, 0, kMaxXattrValueBytes);
  };
  EXPECT_EQ(Run("paths 7"), 0) << err_.str();
  EXPECT_EQ(out_.str(), "/a\n");
  // Who has credentials asks the server.
  note_.clear();
  admin_->onNames = [](const NamesRequest&) -> Result<NamesReply> { return NamesReply{{"/of the server"}, 0, ""}; };
  EXPECT_EQ(Run("paths 7"), 0) << err_.str();
  EXPECT_EQ(out_.str(), "/of the server\n");
}

}  // namespace
}  // namespace stria::cli
