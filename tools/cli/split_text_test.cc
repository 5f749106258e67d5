#include "tools/cli/split_text.h"

#include <gtest/gtest.h>

#include "tools/cli/clusters.h"

namespace stria::cli {
namespace {

SplitPlan Sample(bool entries) {
  SplitPlan plan;
  plan.paths = {"/data/a.root", "/data/it's.root"};
  plan.entries = entries;
  plan.work = {{"n1", 300, 200, {{0, 0, 100, 100, {}}, {1, 50, 250, 200, {}}}},
               {"n2", 100, 100, {{1, 0, 50, 100, {}}}},
               {"n3", 0, 0, {}}};
  return plan;
}

TEST(SplitText, Json) {
  const Json j = SplitJson(Sample(true));
  EXPECT_EQ(j["unit"], "entries");
  EXPECT_EQ(j["local_percent"], 75);
  EXPECT_EQ(j["hosts"].size(), 3u) << "idle ones too";
  EXPECT_EQ(j["hosts"][0]["work"][1], (Json{{"path", "/data/it's.root"}, {"entry_start", 50}, {"entry_stop", 250}}));
  EXPECT_EQ(SplitJson(Sample(false))["hosts"][0]["work"][1],
            (Json{{"path", "/data/it's.root"}, {"offset", 50}, {"length", 200}}));
}

TEST(SplitText, Dask) {
  EXPECT_EQ(RenderSplit(Sample(true), SplitFormat::kDask, ""),
            "# (path, entry_start, entry_stop, workers, allow_other_workers)\n"
            "work = [\n"
            "    (\"/data/a.root\", 0, 100, [\"n1\"], True),\n"
            "    (\"/data/it's.root\", 50, 250, [\"n1\"], True),\n"
            "    (\"/data/it's.root\", 0, 50, [\"n2\"], True),\n"
            "]\n");
}

TEST(SplitText, BatchSystemsGetAJobPerNodeThatHasWork) {
  for (const auto format : {SplitFormat::kSlurm, SplitFormat::kCondor, SplitFormat::kParallel}) {
    const std::string text = RenderSplit(Sample(true), format, "/w d");
    EXPECT_NE(text.find("/w d/n1.json"), text.npos) << text;
    EXPECT_NE(text.find("/w d/n2.json"), text.npos) << text;
    EXPECT_EQ(text.find("n3"), text.npos) << text;
  }
  EXPECT_NE(RenderSplit(Sample(true), SplitFormat::kSlurm, "/w d").find("job 'n1' '/w d/n1.json'\n"), std::string::npos);
}

TEST(Clusters, AreChecked) {
  const auto files = ParseClusters(R"([{"clusters": [[0, 10, [[100, 50], [150, 7]]], [10, 12, []]]}, {"clusters": []}])", 2);
  ASSERT_TRUE(files.ok());
  ASSERT_EQ(files->at(0).size(), 2u);
  EXPECT_EQ(files->at(0)[0].end, 10u);
  EXPECT_EQ(files->at(0)[0].ranges[1], (std::pair<uint64_t, uint64_t>(150, 7)));
  for (const char* bad : {"", "{}", "[]", R"([{}])", R"([{"clusters": [[0, 10]]}])", R"([{"clusters": [[5, 5, []]]}])",
                          R"([{"clusters": [[0, -1, []]]}])", R"([{"clusters": [["a", 1, []]]}])"}) {
    EXPECT_EQ(ParseClusters(bad, 1).code(), FsError::kCorrupt) << bad;
  }
}

TEST(SplitText, Formats) {
  EXPECT_EQ(*ParseSplitFormat("condor"), SplitFormat::kCondor);
  EXPECT_EQ(ParseSplitFormat("lsf").code(), FsError::kInval);
}

}  // namespace
}  // namespace stria::cli
