#include "tools/cli/top.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tools/cli/sample_status.h"

namespace stria::cli {
namespace {

StatusReply Status(std::vector<ClientIo> clients) {
  StatusReply s = SampleStatus();
  s.sessions.clear();
  for (size_t i = 0; i < clients.size(); ++i) {
    SessionInfo c;
    c.id = SessionId(i + 1);
    c.client = "mount /data on pc" + std::to_string(i + 1);
    c.node_name = i == 0 ? "n1" : "";
    c.io = clients[i];
    s.sessions.push_back(c);
  }
  return s;
}

TEST(Top, RatesOfClients) {
  TopWindow window(10 * kSecond);
  window.Add(SampleOfClients(Status({{kMiB, 0, 0, 0, 10}, {kMiB, kMiB, kMiB, 0, 1}}), 100 * kSecond));
  window.Add(SampleOfClients(Status({{6 * kMiB, 0, 0, 5 * kKiB, 60}, {kMiB, 101 * kMiB, 21 * kMiB, 0, 6}}), 105 * kSecond));
  EXPECT_EQ(RenderTop(window.Rates(), "CLIENT", "NODE", 0),
            "fetched 21 MiB/s (local 1.0 MiB/s, remote 20 MiB/s, decoded 4.0 MiB/s), written 1.0 KiB/s, 11 operations/s; of the last 5 s\n"
            "\n"
            "CLIENT              NODE      LOCAL    REMOTE    DECODED    WRITTEN  OPS/S\n"
            "mount /data on pc2  -         0 B/s  20 MiB/s  4.0 MiB/s      0 B/s      1\n"
            "mount /data on pc1  n1    1.0 MiB/s     0 B/s      0 B/s  1.0 KiB/s     10\n");
  EXPECT_EQ(TopJson(window.Rates(), "CLIENT", "NODE"),
            Json::parse(R"({"seconds": 5.0, "clients": [
              {"client": "mount /data on pc2", "node": "", "local_bytes_per_s": 0, "network_bytes_per_s": 20971520, "reconstructed_bytes_per_s": 4194304,
               "written_bytes_per_s": 0, "operations_per_s": 1.0},
              {"client": "mount /data on pc1", "node": "n1", "local_bytes_per_s": 1048576, "network_bytes_per_s": 0, "reconstructed_bytes_per_s": 0,
               "written_bytes_per_s": 1024, "operations_per_s": 10.0}]})"));
}

TEST(Top, RowsThatDoNotFitAreCounted) {
  TopWindow window(10 * kSecond);
  window.Add(SampleOfClients(Status({{1}, {1}, {1}}), 0));
  window.Add(SampleOfClients(Status({{11}, {21}, {31}}), 10 * kSecond));
  EXPECT_EQ(RenderTop(window.Rates(), "CLIENT", "NODE", 2),
            "fetched 6 B/s (local 6 B/s, remote 0 B/s, decoded 0 B/s), written 0 B/s, 0 operations/s; of the last 10 s\n"
            "\n"
            "CLIENT              NODE  LOCAL  REMOTE  DECODED  WRITTEN  OPS/S\n"
            "mount /data on pc3  -     3 B/s   0 B/s    0 B/s    0 B/s      0\n"
            "mount /data on pc2  -     2 B/s   0 B/s    0 B/s    0 B/s      0\n"
            "and 1 more\n");
  EXPECT_EQ(RenderTop(TopRates(), "CLIENT", "NODE", 0),
            "fetched 0 B/s (local 0 B/s, remote 0 B/s, decoded 0 B/s), written 0 B/s, 0 operations/s; of the last 0 s\nnobody reads or writes\n");
}

// A metadata server that has started anew knows of nothing until clients tell it all.
TEST(Top, NoRatesWithoutSomethingToCompareWith) {
  TopWindow window(10 * kSecond);
  window.Add(SampleOfClients(Status({{1000}}), 0));
  window.Add(SampleOfClients(Status({{0}}), 5 * kSecond));
  EXPECT_EQ(window.Rates().rows[0].local, 0) << "it has fallen";
  window.Add(SampleOfClients(Status({{kGiB}, {kGiB}}), 20 * kSecond));
  for (const TopRow& r : window.Rates().rows) EXPECT_EQ(r.local, 0) << r.name;
  window.Add(SampleOfClients(Status({{kGiB + 100}, {kGiB + 200}}), 30 * kSecond));
  ASSERT_EQ(window.Rates().rows.size(), 2u);
  EXPECT_EQ(window.Rates().rows[0].local, 20);
  EXPECT_EQ(window.Rates().rows[1].local, 10);
}

TEST(Top, TheWindowMoves) {
  TopWindow window(10 * kSecond);
  for (int i = 1; i <= 20; ++i) window.Add(SampleOfClients(Status({{static_cast<uint64_t>(i) * 5000}}), i * 5 * kSecond));
  EXPECT_EQ(window.Rates().seconds, 10);
  EXPECT_EQ(window.Rates().rows[0].local, 1000);
}

TEST(Top, RatesOfJobs) {
  const auto jobs = [](uint64_t bytes) {
    return std::vector<JobShare>{{"slurm:7", {{bytes, 0, 0}, 2 * bytes, 0, 10, static_cast<int64_t>(bytes) * kSecond}, 0}, {"other", {}, 0}};
  };
  TopWindow window(2 * kSecond);
  TopSample first, second;
  first.at_ns = kSecond;
  second.at_ns = 3 * kSecond;
  AddJobs("/data", {{"other", {}, 0}}, &first);
  AddJobs("/data", jobs(6), &second);
  window.Add(first);
  window.Add(second);
  EXPECT_EQ(RenderTop(window.Rates(), "JOB", "MOUNT", 0),
            "fetched 3 B/s (local 3 B/s, remote 0 B/s, decoded 0 B/s), written 0 B/s, 5 operations/s; of the last 2 s\n"
            "\n"
            "JOB      MOUNT  LOCAL  REMOTE  DECODED   READ  WRITTEN  OPS/S  WAITING\n"
            "slurm:7  /data  3 B/s   0 B/s    0 B/s  6 B/s    0 B/s      5        3\n"
            "other    /data  0 B/s   0 B/s    0 B/s  0 B/s    0 B/s      0        0\n");
  EXPECT_EQ(TopJson(window.Rates(), "JOB", "MOUNT")["jobs"][0]["waiting"], 3.0);
}

TEST(Jobs, AsATableAndAsJson) {
  const std::vector<JobShare> jobs = {{"slurm:7", {{kGiB, 2 * kMiB, 0}, kGiB, 512, 1234, 65 * kSecond}, 3 * kSecond}, {"other", {{0, 0, 0}, 0, 0, 5, 0}, 0}};
  EXPECT_EQ(RenderJobs(jobs),
            "JOB        LOCAL   REMOTE  DECODED     READ  WRITTEN  OPERATIONS     WAITED     LAST\n"
            "slurm:7  1.0 GiB  2.0 MiB      0 B  1.0 GiB    512 B        1234  1 min 5 s  3 s ago\n"
            "other        0 B      0 B      0 B      0 B      0 B           5        0 s  0 s ago\n");
  EXPECT_EQ(JobsJson(jobs)[0]["job"], "slurm:7");
  EXPECT_EQ(JobsJson(jobs)[0]["network_bytes"], 2 * kMiB);
  EXPECT_EQ(JobsJson(jobs)[0]["waited_ns"], 65 * kSecond);
  EXPECT_EQ(JobsJson(jobs)[1]["operations"], 5);
}

}  // namespace
}  // namespace stria::cli
