// History, board, recordings and the rule of who may see the page.
#include <gtest/gtest.h>

#include <string>

#include "tools/cli/sample_status.h"
#include "tools/web/board.h"
#include "tools/web/history.h"
#include "tools/web/listen.h"
#include "tools/web/pages.h"
#include "tools/web/source.h"

namespace stria::web {
namespace {

constexpr int64_t kNowMs = 1'700'000'000'000;

Json Reading(uint64_t local, uint64_t network, uint64_t written) {
  return {{"clients", Json::array({{{"id", 7}, {"local_bytes", local}, {"network_bytes", network}, {"written_bytes", written}}})}};
}

Json Points(const History& h, int64_t now_ms) { return h.Points(now_ms)["points"]; }

TEST(WebHistory, ARateIsTheGrowthOfCountersOverTheTime) {
  History h;
  h.Add(SampleOf(Reading(0, 1000, 100), kNowMs, 1.5));
  h.Add(SampleOf(Reading(3000, 2000, 600), kNowMs + 2000, 4));
  const Json points = Points(h, kNowMs + 2000);
  ASSERT_EQ(points.size(), 1u);
  EXPECT_EQ(points[0]["t"], kNowMs);
  EXPECT_DOUBLE_EQ(points[0]["read"].get<double>(), 2000);
  EXPECT_DOUBLE_EQ(points[0]["written"].get<double>(), 250);
  EXPECT_DOUBLE_EQ(points[0]["answer_ms"].get<double>(), 4) << "the slowest of the slot";
  EXPECT_TRUE(points[0]["rebuilt"].is_null()) << "nobody has counted it";
}

TEST(WebHistory, OneWhoBeginsAnewOrIsNewCountsNothingAtFirst) {
  History h;
  h.Add(SampleOf(Reading(1000, 0, 0), kNowMs, -1));
  h.Add(SampleOf(Reading(400, 0, 0), kNowMs + 2000, -1));  // its mount has started again
  EXPECT_DOUBLE_EQ(Points(h, kNowMs)[0]["read"].get<double>(), 0);
  Json other = Reading(400, 0, 0);
  other["clients"].push_back({{"id", 8}, {"local_bytes", 1u << 30}});
  h.Add(SampleOf(other, kNowMs + 4000, -1));
  EXPECT_DOUBLE_EQ(Points(h, kNowMs)[0]["read"].get<double>(), 0);
  other["clients"][0]["local_bytes"] = 0;  // the metadata server has started again, and has not heard of it
  h.Add(SampleOf(other, kNowMs + 6000, -1));
  other["clients"][0]["local_bytes"] = 1u << 30;
  h.Add(SampleOf(other, kNowMs + 8000, -1));
  EXPECT_DOUBLE_EQ(Points(h, kNowMs)[0]["read"].get<double>(), 0);
}

TEST(WebHistory, AGapIsNotFilled) {
  History h;
  h.Add(SampleOf(Reading(0, 0, 0), kNowMs, 1));
  h.Add(SampleOf(Reading(1u << 30, 0, 0), kNowMs + kMaxStepMs + 1, 1));
  const Json points = Points(h, kNowMs + kMaxStepMs + 1);
  ASSERT_EQ(points.size(), 2u);
  EXPECT_TRUE(points[1]["read"].is_null());
}

TEST(WebHistory, AnHourIsKept) {
  History h;
  for (int64_t i = 0; i < 2000; ++i) h.Add(SampleOf(Reading(static_cast<uint64_t>(i + 1) * 100, 0, 0), kNowMs + i * 10'000, 1));
  const int64_t end_ms = kNowMs + 1999 * 10'000;
  const Json points = Points(h, end_ms);
  EXPECT_EQ(points.size(), kSlots);
  EXPECT_EQ(points.back()["t"], end_ms / kSlotMs * kSlotMs);
  EXPECT_DOUBLE_EQ(points.front()["read"].get<double>(), 10);
  EXPECT_EQ(Points(h, end_ms + 3'600'000).size(), 0u) << "what is older than an hour is not shown";
}

TEST(WebHistory, AClockThatIsSetBack) {
  History h;
  h.Add(SampleOf(Reading(1, 0, 0), kNowMs, 1));
  h.Add(SampleOf(Reading(100, 0, 0), kNowMs - 5, 1));
  EXPECT_EQ(Points(h, kNowMs).size(), 1u);
  h.Add(SampleOf(Reading(100, 0, 0), kNowMs - 7'200'000, 1));
  h.Add(SampleOf(Reading(300, 0, 0), kNowMs - 7'198'000, 1));
  const Json points = Points(h, kNowMs - 7'198'000);
  ASSERT_EQ(points.size(), 1u);
  EXPECT_DOUBLE_EQ(points[0]["read"].get<double>(), 100);
}

TEST(WebHistory, WhatIsNotAsItShouldBeIsLeftOut) {
  for (const char* text : {"{}", "[]", "3", R"({"clients": 1, "disks": [1, {"read_us": "x"}], "rebuilds": {}, "upkeep": []})",
                           R"({"clients": [{"id": 1, "local_bytes": -5}, {"local_bytes": 1e300}]})"}) {
    const Sample s = SampleOf(Json::parse(text), kNowMs, -1);
    for (const auto& counters : s.counters) EXPECT_TRUE(counters.empty()) << text;
    for (const auto& level : s.levels) EXPECT_FALSE(level.has_value()) << text;
  }
}

TEST(WebHistory, TimesOfDisksAndWorkInTheBackground) {
  StatusReply status = cli::SampleStatus();
  for (size_t i = 0; i < 3; ++i) status.map.targets[i].read_us = 1000 * (i + 1);
  status.repairs.push_back({TargetId(11), "n1 is out", 10, 5, 1000, 500, 10, 50, false, 0});
  Json j = cli::StatusJson(status, cli::kSampleNowNs);
  j["upkeep"] = {{"scrub", {{"disks", Json::array({{{"disk", "n1:d1"}, {"bytes_done", 700}}})}}},
                 {"rebalance", {{"bytes_done", 30}}},
                 {"folding", {{"folded", 2}, {"folded_bytes", 90}}}};
  const Sample s = SampleOf(j, kNowMs, 2);
  EXPECT_EQ(s.levels[static_cast<size_t>(Level::kDisk)], 2);
  EXPECT_EQ(s.levels[static_cast<size_t>(Level::kWorstDisk)], 3);
  EXPECT_EQ(s.counters[static_cast<size_t>(Flow::kRebuilt)].at("n1:d1"), 500u);
  EXPECT_EQ(s.counters[static_cast<size_t>(Flow::kScrubbed)].at("n1:d1"), 700u);
  EXPECT_EQ(s.counters[static_cast<size_t>(Flow::kMoved)].at(""), 30u);
  EXPECT_EQ(s.counters[static_cast<size_t>(Flow::kFolds)].at(""), 2u);
}

Json StatusOf(Board& board, int64_t now_ms) { return Json::parse(board.Status(now_ms)); }

TEST(WebBoard, StartsLivesAndGoesAway) {
  Board board("pc1:7424", "0.9.0");
  EXPECT_EQ(StatusOf(board, kNowMs)["state"], "starting");
  EXPECT_TRUE(StatusOf(board, kNowMs)["status"].is_null());

  board.Take(Json{{"state", "HEALTHY"}}, kNowMs, 1);
  EXPECT_EQ(StatusOf(board, kNowMs)["state"], "live");
  EXPECT_EQ(StatusOf(board, kNowMs)["as_of_ms"], kNowMs);

  for (int i = 1; i <= 3; ++i) board.Take(Error(FsError::kUnavailable, "no answer"), kNowMs + i * 1000, 1);
  const Json away = StatusOf(board, kNowMs + 4000);
  EXPECT_EQ(away["state"], "away");
  EXPECT_EQ(away["away_since_ms"], kNowMs + 1000) << "since the first that was missing";
  EXPECT_EQ(away["as_of_ms"], kNowMs);
  EXPECT_EQ(away["status"]["state"], "HEALTHY") << "the last known state stays";
  EXPECT_NE(away["error"].get<std::string>().find("no answer"), std::string::npos);

  board.Take(Json{{"state", "DEGRADED"}}, kNowMs + 5000, 1);
  EXPECT_EQ(StatusOf(board, kNowMs + 5000)["state"], "live");
  EXPECT_TRUE(StatusOf(board, kNowMs + 5000)["away_since_ms"].is_null());
}

TEST(WebBoard, AsksMoreOftenWhileSomebodyLooks) {
  Board board("pc1:7424", "0.9.0");
  EXPECT_EQ(board.PeriodMs(kNowMs), kPeriodMs);
  (void)board.History(kNowMs);
  EXPECT_EQ(board.PeriodMs(kNowMs), kPeriodMs);
  (void)board.Status(kNowMs);
  EXPECT_EQ(board.PeriodMs(kNowMs + 1), kWatchedPeriodMs);
  EXPECT_EQ(board.PeriodMs(kNowMs + kLookedMs), kPeriodMs);
}

TEST(WebBoard, HealthIsOfTheProgramNotOfTheCluster) {
  Board board("pc1:7424", "0.9.0");
  EXPECT_TRUE(board.Health(kNowMs).ok());
  board.Take(Error(FsError::kUnavailable, "no answer"), kNowMs, 1);
  EXPECT_TRUE(board.Health(kNowMs + 5000).ok());
  EXPECT_EQ(board.Health(kNowMs + kStuckMs + 1).code(), FsError::kUnavailable);
  Board recorded("file.json", "0.9.0", true);
  recorded.Take(Json::object(), kNowMs, 1);
  EXPECT_TRUE(recorded.Health(kNowMs + 10 * kStuckMs).ok());
}

TEST(WebBoard, EventsAreShownOnlyWhereTheClusterKeepsThem) {
  Board board("pc1:7424", "0.9.0");
  EXPECT_EQ(Json::parse(board.Events()), Json::parse(R"({"available": false, "events": []})"));
  board.TakeEvents(Json::array({{{"what", "Node n1 is down."}}}));
  EXPECT_EQ(Json::parse(board.Events())["available"], true);
  EXPECT_EQ(Json::parse(board.Events())["events"].size(), 1u);
}

TEST(WebBoard, NamesOfAnyBytes) {
  StatusReply status = cli::SampleStatus();
  status.map.nodes[0].name = "<script>\xff\x01";
  Board board("pc1:7424", "0.9.0");
  board.Take(cli::StatusJson(status, cli::kSampleNowNs), kNowMs, 1);
  const std::string body = board.Status(kNowMs);
  EXPECT_NE(body.find(R"(<script>\udcff\u0001)"), std::string::npos) << body.substr(0, 2000);
}

TEST(WebPages, EachPathHasItsContent) {
  Board board("pc1:7424", "0.9.0");
  board.Take(Json{{"state", "HEALTHY"}}, kNowMs, 1);
  EXPECT_NE(PageAt("/", &board, kNowMs).body.find("<!DOCTYPE html>"), std::string::npos);
  EXPECT_EQ(PageAt("/page.css", &board, kNowMs).type, "text/css; charset=utf-8");
  EXPECT_NE(PageAt("/page.js", &board, kNowMs).body.find("\"use strict\""), std::string::npos);
  EXPECT_NE(PageAt("/charts.js", &board, kNowMs).body.find("\"use strict\""), std::string::npos);
  EXPECT_EQ(PageAt("/icon.svg", &board, kNowMs).type, "image/svg+xml");
  for (const char* path : {"/api/status.json", "/api/history.json", "/api/events.json"}) {
    const WebReply reply = PageAt(path, &board, kNowMs);
    EXPECT_EQ(reply.code, 200) << path;
    EXPECT_TRUE(Json::accept(reply.body)) << path;
  }
  EXPECT_EQ(PageAt("/healthz", &board, kNowMs).body, "ok\n");
  EXPECT_EQ(PageAt("/healthz", &board, kNowMs + 2 * kStuckMs).code, 503);
  for (const char* path : {"", "/page", "/../etc/passwd", "/api", "/api/status.json/"}) EXPECT_EQ(PageAt(path, &board, kNowMs).code, 404) << path;
}

TEST(WebReplay, FramesAndEvents) {
  const auto replay = ParseReplay(R"({"frames": [{"age_s": 60, "status": {"state": "HEALTHY"}, "answer_ms": 2.5},
                                                 {"age_s": 4.5, "error": "no answer"}], "events": []})", "f.json");
  ASSERT_TRUE(replay.ok()) << replay.error();
  Board board("f.json", "0.9.0", true);
  TakeReplay(*replay, kNowMs, &board);
  const Json status = StatusOf(board, kNowMs);
  EXPECT_EQ(status["state"], "away");
  EXPECT_EQ(status["as_of_ms"], kNowMs - 60'000);
  EXPECT_EQ(status["away_since_ms"], kNowMs - 4'500);
  EXPECT_EQ(status["recorded"], true);
  EXPECT_EQ(Json::parse(board.Events())["available"], true);
}

TEST(WebReplay, NamesOfAnyBytesComeBackAsTheyWere) {
  StatusReply status = cli::SampleStatus();
  const std::string name = "\xff<\x80 \xc3\xa4\xf0\x9f\x98\x80\\udc80\"\xbf\xc0";
  status.map.nodes[0].name = name;
  const Json frame = {{"status", cli::StatusJson(status, cli::kSampleNowNs)}};
  const auto replay = ParseReplay(cli::Dump({{"frames", Json::array({frame})}}), "f.json");
  ASSERT_TRUE(replay.ok()) << replay.error();
  ASSERT_TRUE(replay->frames[0].status.ok());
  EXPECT_EQ((*replay->frames[0].status)["nodes"][0]["name"].get<std::string>(), name);
}

TEST(WebReplay, WhatIsNoRecordingIsRefusedWithASentence) {
  for (const char* text : {"", "[]", "{}", R"({"frames": []})", R"({"frames": [1]})", R"({"frames": [{}]})", R"({"frames": [{"status": 1}]})",
                           R"({"frames": [{"status": {}, "error": "x"}]})", R"({"frames": [{"age_s": -1, "status": {}}]})",
                           R"({"frames": [{"age_s": 1, "status": {}}, {"age_s": 2, "status": {}}]})", R"({"frames": [{"status": {}}], "events": 1})", "\"\\u", "{\"\\udc",
                           "\"\\udcff"}) {
    const auto replay = ParseReplay(text, "f.json");
    ASSERT_FALSE(replay.ok()) << text;
    EXPECT_NE(replay.error().message.find("f.json"), std::string::npos) << replay.error();
  }
  EXPECT_FALSE(ParseReplay(R"({"frames": [{"status": {"x": )" + std::string(100'000, '['), "f.json").ok());
}

TEST(WebListen, ThisMachineOnlyUnlessItIsSaid) {
  const auto usual = ParseListen("127.0.0.1", false);
  ASSERT_TRUE(usual.ok()) << usual.error();
  EXPECT_EQ(FormatListen(*usual), "127.0.0.1:7480");
  EXPECT_TRUE(usual->loopback);
  EXPECT_EQ(FormatListen(*ParseListen("[::1]:80", false)), "[::1]:80");
  EXPECT_EQ(FormatListen(*ParseListen("localhost:0", false)), "127.0.0.1:0");
  for (const char* address : {"0.0.0.0", "10.0.0.1:7480", "[::]:7480", "[::ffff:127.0.0.1]:7480"}) {
    const auto refused = ParseListen(address, false);
    ASSERT_FALSE(refused.ok()) << address;
    EXPECT_NE(refused.error().message.find("--allow-anyone"), std::string::npos) << refused.error();
    const auto allowed = ParseListen(address, true);
    ASSERT_TRUE(allowed.ok()) << allowed.error();
    EXPECT_FALSE(allowed->loopback);
  }
  for (const char* address : {"", "pc1", "127.0.0.1:x", "127.0.0.1:65536", "::1", "1.2.3", "unix:/run/x", "127.0.0.1:80,127.0.0.1:81", "127.0.0.1:80s"}) {
    EXPECT_FALSE(ParseListen(address, true).ok()) << address;
  }
}

TEST(WebListen, AskedForByANameOfThisMachine) {
  for (const char* host : {"", "localhost", "LocalHost:7480", "127.0.0.1", "127.0.0.1:7480", "127.9.9.9", "[::1]", "[::1]:7480"}) {
    EXPECT_TRUE(IsLoopbackHost(host)) << host;
  }
  for (const char* host : {"example.org", "localhost.example.org", "127.0.0.1.example.org", "10.0.0.1:7480", "[::2]", "[::1", "[::1]x", "::1", "2130706433", " "}) {
    EXPECT_FALSE(IsLoopbackHost(host)) << host;
  }
}

}  // namespace
}  // namespace stria::web
