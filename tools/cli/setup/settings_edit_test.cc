#include "tools/cli/setup/settings_edit.h"

#include <gtest/gtest.h>

namespace stria::cli {
namespace {

// As packages have it.
constexpr char kFile[] = R"(# Settings of stria-data.

# Its name in the cluster (default: the host's name; an example).
#node_name = "n3"

# Metadata servers: ["pc1"] (no default; an example).
#meta = ["pc1"]

# An admin's own words.
rebuilds = 4

# A table for each disk. Examples:
#[[disk]]
# Its directory (no default; an example).
#path = "/srv/d1"
)";

NodeSettings Wanted(std::vector<NewDisk> disks) { return {"n6", "pc1:7424", "", std::move(disks)}; }
EditedSettings Edit(std::string_view text, const NodeSettings& wanted) { return EditDataSettings(text, "data.toml", wanted).value(); }

TEST(SettingsEdit, AKeyComesBehindTheCommentThatShowsIt) {
  EXPECT_EQ(WithKey("a = 1\n# b\n#b = 2\n\nc = 3\n", "b", "5"), "a = 1\n# b\n#b = 2\nb = 5\n\nc = 3\n");
  EXPECT_EQ(WithKey("#bb = 1\n", "b", "5"), "#bb = 1\nb = 5\n") << "another key";
  EXPECT_EQ(WithKey("#b = 2", "b", "5"), "#b = 2\nb = 5\n");
  EXPECT_EQ(WithKey("", "b", "5"), "b = 5\n");
  EXPECT_EQ(WithKey("a = 1", "b", "5"), "a = 1\nb = 5\n");
}

TEST(SettingsEdit, AKeyOfTheTopLevelIsNotInATable) {
  EXPECT_EQ(WithKey("a = 1\n[t]\n#b = 2\n", "b", "5"), "a = 1\nb = 5\n[t]\n#b = 2\n");
  EXPECT_EQ(WithKey("#[[disk]]\n#b = 2\n", "b", "5"), "b = 5\n#[[disk]]\n#b = 2\n") << "a comment that may become one";
  EXPECT_EQ(WithKey("# [a remark]\n#b = 2\n", "b", "5"), "# [a remark]\n#b = 2\nb = 5\n");
}

TEST(SettingsEdit, StringsAreQuoted) {
  EXPECT_EQ(TomlString("a\"b\\c\n"), "\"a\\\"b\\\\c\\u000A\"");
  EXPECT_EQ(TomlStrings({"a", "b"}), "[\"a\", \"b\"]");
  EXPECT_EQ(TomlStrings({}), "[]");
}

TEST(SettingsEdit, ANodeGetsWhatItNeeds) {
  const EditedSettings out = Edit(kFile, Wanted({{"/srv/d1", "", ""}, {"/mnt/d1", "", "c0"}}));
  const DataSettings now = ReadDataSettings(out.text, "data.toml").value();
  EXPECT_EQ(now.node_name, "n6");
  EXPECT_EQ(now.meta, std::vector<std::string>{"pc1:7424"});
  EXPECT_EQ(now.disks, (std::vector<NewDisk>{{"/srv/d1", "d1", ""}, {"/mnt/d1", "d2", "c0"}}));
  EXPECT_EQ(out.disks, now.disks);
  EXPECT_NE(out.text.find("# An admin's own words.\nrebuilds = 4\n"), std::string::npos);
  EXPECT_EQ(out.changes.size(), 4u);
  const EditedSettings again = Edit(out.text, Wanted({{"/srv/d1", "", ""}, {"/mnt/d1", "", ""}}));
  EXPECT_EQ(again.text, out.text) << "again changes nothing";
  EXPECT_TRUE(again.changes.empty());
  EXPECT_EQ(again.disks, out.disks);
  const EditedSettings more = Edit(out.text, Wanted({{"/srv/d3", "", ""}}));
  EXPECT_EQ(more.disks.size(), 3u);
  EXPECT_EQ(more.changes, std::vector<std::string>{"disk d3 in /srv/d3"});
}

TEST(SettingsEdit, WhatAnAdminHasSetStays) {
  const std::string text = "node_name = \"n6\"\nmeta = [\"a\", \"b\"]\naddress = \"x:1\"\n";
  const EditedSettings out = Edit(text, Wanted({}));
  EXPECT_EQ(out.text, text);
  EXPECT_TRUE(out.disks.empty());
  EXPECT_EQ(Edit("name = \"n6\"\nmeta = [\"a\"]\n", Wanted({})).changes.size(), 0u) << "the former name of the key";
}

TEST(SettingsEdit, WhatDoesNotFitIsRefused) {
  const auto code = [](const std::string& text, const NodeSettings& wanted) { return EditDataSettings(text, "data.toml", wanted).code(); };
  EXPECT_EQ(code("node_name = \"n7\"\n", Wanted({})), FsError::kConflict);
  EXPECT_EQ(code("trust = \"off\"\n", Wanted({})), FsError::kConflict);
  EXPECT_EQ(code("[[disk]]\npath = \"/srv/d1\"\nlabel = \"a\"\n", Wanted({{"/srv/d1", "b", ""}})), FsError::kConflict);
  EXPECT_EQ(code("[[disk]]\npath = \"/srv/d1\"\n", Wanted({{"/srv/d2", "d1", ""}})), FsError::kConflict);
  EXPECT_EQ(code("", Wanted({{"/srv/d1", "", ""}, {"/srv/d1", "", ""}})), FsError::kInval);
  EXPECT_EQ(code("meta = [", Wanted({})), FsError::kInval) << "no TOML";
  EXPECT_EQ(code("[[disk]]\npath = \"/srv/d1\"\nlabel = \"a b\"\n", Wanted({})), FsError::kInval) << "stria-data would not start";
  NodeSettings other = Wanted({});
  other.address = "y:1";
  EXPECT_EQ(code("address = \"x:1\"\n", other), FsError::kConflict);
  // A line that looks as if it were a table is within a string: nothing is written that means something else.
  EXPECT_EQ(code("log_file = \"\"\"\n[t]\n\"\"\"\n", Wanted({})), FsError::kInval);
}

TEST(SettingsEdit, LabelsAreOfThePathOrMadeUp) {
  EXPECT_EQ(LabelFor("/srv/d7", {}), "d7");
  EXPECT_EQ(LabelFor("/srv/d7/", {}), "d7");
  EXPECT_EQ(LabelFor("/srv/my disk", {}), "d1");
  EXPECT_EQ(LabelFor("/srv/my disk", {{"/x", "d1", ""}}), "d2");
  EXPECT_EQ(LabelFor("/b/data", {{"/a/data", "data", ""}}), "d1");
}

TEST(SettingsEdit, DisksAreParsed) {
  EXPECT_EQ(ParseNewDisk("/srv/d1/").value(), (NewDisk{"/srv/d1", "", ""}));
  EXPECT_EQ(ParseNewDisk("/srv/d1,label=x,channel=c0").value(), (NewDisk{"/srv/d1", "x", "c0"}));
  EXPECT_EQ(ParseNewDisk("/srv/d1,channel=pci:0000/1").value().channel, "pci:0000/1") << "as stria-data takes it";
  for (const char* bad : {"", "srv/d1", "/srv/d1,x", "/srv/d1,label=", "/srv/d1,label=a b", "/srv/d1,label=a:b", "/srv/d1,channel=", "/srv/d1,channel=a b", "/srv/d1,"}) {
    EXPECT_EQ(ParseNewDisk(bad).code(), FsError::kInval) << bad;
  }
}

}  // namespace
}  // namespace stria::cli
