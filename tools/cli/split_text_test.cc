#include "tools/cli/split_text.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <filesystem>
#include <fstream>

#include "common/printable.h"
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

// n3 is down: its data is decoded in part, and in part copied to others.
SplitPlan WithoutN3() {
  SplitPlan plan = Sample(true);
  plan.work.pop_back();
  plan.work[0].decoded_bytes = 60;
  plan.away = {{"n3", "down"}};
  return plan;
}

TEST(SplitText, EveryFormatSaysWhatItPromises) {
  const Json j = SplitJson(WithoutN3());
  EXPECT_EQ(j["local_bytes"], 300);
  EXPECT_EQ(j["remote_bytes"], 40);
  EXPECT_EQ(j["decoded_bytes"], 60);
  EXPECT_EQ(j["away"], (Json{{{"node", "n3"}, {"state", "down"}}}));
  EXPECT_EQ(j["hosts"][0]["remote_bytes"], 40);
  EXPECT_EQ(j["hosts"][0]["decoded_bytes"], 60);
  EXPECT_EQ(j["hosts"][1]["decoded_bytes"], 0);
  const std::string promise = "75 % of 400 B is local, 10 % (40 B) remote, 15 % (60 B) decoded; no work for n3 (down)";
  EXPECT_EQ(Promise(WithoutN3()), promise);
  EXPECT_EQ(Promise(Sample(true)), "75 % of 400 B is local, 25 % (100 B) remote");
  for (const auto format : {SplitFormat::kSlurm, SplitFormat::kCondor, SplitFormat::kParallel}) {
    const std::string text = RenderSplit(WithoutN3(), format, "/w");
    EXPECT_NE(text.find("# promise: " + promise + "\n"), text.npos) << text;
    EXPECT_EQ(text.find("n3.json"), text.npos) << text;
  }
  EXPECT_NE(RenderSplit(WithoutN3(), SplitFormat::kDask, "").find(
                R"(promise = {"bytes": 400, "local_bytes": 300, "remote_bytes": 40, "decoded_bytes": 60, "away": ["n3"]})"),
            std::string::npos);
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
            "promise = {\"bytes\": 400, \"local_bytes\": 300, \"remote_bytes\": 100, \"decoded_bytes\": 0, \"away\": []}\n"
            "# An idle worker steals work from the node that holds it unless distributed.scheduler.work-stealing is False.\n"
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
    EXPECT_NE(text.find("# promise: 75 % of 400 B is local, 25 % (100 B) remote\n"), text.npos) << text;
  }
  EXPECT_NE(RenderSplit(Sample(true), SplitFormat::kSlurm, "/w d").find("job 'n1' '/w d/n1.json'\n"), std::string::npos);
}

// A name that is not UTF-8, one with a line break, one that JSON writes in two parts.
SplitPlan OddNames() {
  SplitPlan plan = Sample(false);
  plan.paths = {"/data/\xff\n.root", "/data/\"😀.root"};
  return plan;
}

TEST(SplitText, NamesAreWhatTheyAreInEveryFormat) {
  const std::string json = RenderSplit(OddNames(), SplitFormat::kJson, "");
  EXPECT_NE(json.find(R"("path": "/data/\udcff\n.root")"), json.npos) << json;
  EXPECT_NE(json.find("\"path\": \"/data/\\\"😀.root\""), json.npos) << json;
  const std::string dask = RenderSplit(OddNames(), SplitFormat::kDask, "");
  EXPECT_NE(dask.find(R"(("/data/\udcff\n.root", 0, 100)"), dask.npos) << dask;
  EXPECT_NE(dask.find("(\"/data/\\\"😀.root\", 0, 50"), dask.npos) << "a pair of surrogates is two characters of Python: " << dask;
  // The others name lists, which have the names.
  const std::string list = Dump(HostWorkJson(OddNames(), OddNames().work[0]));
  EXPECT_NE(list.find(R"("path": "/data/\udcff\n.root")"), list.npos) << list;
  EXPECT_NE(list.find("\"path\": \"/data/\\\"😀.root\""), list.npos) << list;
  for (const auto format : {SplitFormat::kSlurm, SplitFormat::kCondor, SplitFormat::kParallel}) {
    EXPECT_EQ(RenderSplit(OddNames(), format, "/w"), RenderSplit(Sample(false), format, "/w")) << "names of files are in the lists alone";
  }
}

// Lists lie below the directory that the command is run in, whatever its name.
TEST(SplitText, ListsAreFoundWhateverTheirDirectoryIsCalled) {
  const std::string dir = "/it's \"so\" \xff\n";
  EXPECT_NE(RenderSplit(Sample(true), SplitFormat::kSlurm, dir).find(R"(job 'n1' $'/it\'s "so" \377\n/n1.json')"), std::string::npos);
  EXPECT_NE(RenderSplit(Sample(true), SplitFormat::kParallel, dir).find(R"(::: $'/it\'s "so" \377\n/n1.json' &)"), std::string::npos);
  EXPECT_NE(RenderSplit(Sample(true), SplitFormat::kCondor, "/it's \"so\"").find("n1, /it''s \"\"so\"\"/n1.json\n"), std::string::npos);
}

// The submitted script, with a sbatch that runs its text as the real one does.
TEST(SplitText, SlurmPassesWordsOnAsTheyAre) {
  const std::string place = testing::TempDir() + "/slurm-words";
  std::filesystem::create_directories(place);
  std::ofstream(place + "/sbatch") << "#!/bin/sh\nfor w; do case $w in --wrap=*) exec sh -c \"${w#--wrap=}\";; esac; done\n";
  std::filesystem::permissions(place + "/sbatch", std::filesystem::perms::owner_all);
  const std::string dir = "/it's \\ \"so\" $x \xff\n";
  std::ofstream(place + "/submit") << RenderSplit(Sample(true), SplitFormat::kSlurm, dir);
  const std::string odd = "a b\n'\xff\"\n";
  FILE* pipe = popen(("PATH=" + place + ":$PATH bash " + place + "/submit printf '<%s>' " + ShellQuoted(odd)).c_str(), "r");
  ASSERT_NE(pipe, nullptr);
  std::string out(4096, '\0');
  out.resize(fread(out.data(), 1, out.size(), pipe));
  EXPECT_EQ(pclose(pipe), 0);
  EXPECT_EQ(out, "<" + odd + "><" + dir + "/n1.json><" + odd + "><" + dir + "/n2.json>");
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
