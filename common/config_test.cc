#include "common/config.h"

#include <gtest/gtest.h>

#include <fstream>

#include "common/os_random.h"
#include "common/random.h"
#include "common/temp_dir.h"
#include "common/units.h"

namespace stria {
namespace {

TEST(Quantity, Sizes) {
  EXPECT_EQ(ParseSize("0").value(), 0u);
  EXPECT_EQ(ParseSize("512").value(), 512u);
  EXPECT_EQ(ParseSize("64MiB").value(), 64 * kMiB);
  EXPECT_EQ(ParseSize("64 MiB").value(), 64 * kMiB);
  EXPECT_EQ(ParseSize("2T").value(), 2 * kTiB);
  EXPECT_EQ(ParseSize("3GB").value(), 3'000'000'000u);
  EXPECT_EQ(ParseSize("18446744073709551615").value(), UINT64_MAX);
  for (const char* bad :
       {"", "MiB", "-1", "1.5GiB", "5 parsecs", "18446744073709551616", "99999999PiB", "1MiBx"}) {
    EXPECT_EQ(ParseSize(bad).code(), FsError::kInval) << bad;
  }
  EXPECT_EQ(FormatSize(0), "0B");
  EXPECT_EQ(FormatSize(1023), "1023B");
  EXPECT_EQ(FormatSize(64 * kMiB), "64MiB");
  EXPECT_EQ(FormatSize(kGiB + 512 * kMiB), "1.5GiB");
  EXPECT_EQ(FormatSize(UINT64_MAX), "16384.0PiB");
  for (int shift = 0; shift < 60; ++shift) {
    EXPECT_EQ(ParseSize(FormatSize(uint64_t{1} << shift)).value(), uint64_t{1} << shift);
  }
}

TEST(Quantity, Durations) {
  EXPECT_EQ(ParseDuration("0").value(), 0);
  EXPECT_EQ(ParseDuration("15s").value(), 15 * kSecond);
  EXPECT_EQ(ParseDuration("1h30m").value(), 5400 * kSecond);
  EXPECT_EQ(ParseDuration("10min").value(), 600 * kSecond);  // as the documents write it
  EXPECT_EQ(ParseDuration("1h5min").value(), 3900 * kSecond);
  EXPECT_EQ(ParseDuration("2d").value(), 48 * 3600 * kSecond);
  EXPECT_EQ(ParseDuration("1s5ms3us7ns").value(), kSecond + 5 * kMillisecond + 3 * kMicrosecond + 7);
  for (const char* bad :
       {"", "15", "s", "1m1h", "1s1s", "-1s", "1 s", "1x", "300000d", "99999999999999999999s"}) {
    EXPECT_EQ(ParseDuration(bad).code(), FsError::kInval) << bad;
  }
  EXPECT_EQ(FormatDuration(0), "0s");
  EXPECT_EQ(FormatDuration(5400 * kSecond), "1h30m");
  EXPECT_EQ(FormatDuration(2500 * kMillisecond), "2s500ms");
  EXPECT_EQ(FormatDuration(86'401 * kSecond), "1d");
  EXPECT_EQ(FormatDuration(-15 * kSecond), "-15s");
  EXPECT_EQ(FormatDuration(INT64_MIN).substr(0, 7), "-106751");
}

constexpr std::string_view kFile = R"(
listen = "0.0.0.0:7400"
threads = 8
verify = false
ratio = 0.5
[cache]
size = "64MiB"
ttl = "15s"
[[disk]]
path = "/d0"
labels = ["ssd", "fast"]
[[disk]]
path = "/d1"
)";

TEST(Config, TypedValues) {
  Config c = Config::Parse(kFile, "x.toml").value();
  EXPECT_EQ(c.RequiredString("listen"), "0.0.0.0:7400");
  EXPECT_EQ(c.Int("threads", 1, 1, 64), 8);
  EXPECT_EQ(c.Int("not.there", 3, 1, 64), 3);
  EXPECT_FALSE(c.Bool("verify", true));
  EXPECT_EQ(c.Number("ratio", 1, 0, 1), 0.5);
  EXPECT_EQ(c.Size("cache.size", 0, 0, kGiB), 64 * kMiB);
  EXPECT_EQ(c.Duration("cache.ttl", 0, 0, kSecond * 60), 15 * kSecond);
  auto disks = c.Tables("disk");
  ASSERT_EQ(disks.size(), 2u);
  EXPECT_EQ(disks[0].RequiredString("path"), "/d0");
  EXPECT_EQ(disks[0].Strings("labels"), (std::vector<std::string>{"ssd", "fast"}));
  EXPECT_EQ(disks[1].RequiredString("path"), "/d1");
  EXPECT_TRUE(disks[1].Strings("labels").empty());
  EXPECT_TRUE(c.Tables("none").empty());
  EXPECT_TRUE(c.Has("cache"));
  EXPECT_FALSE(c.Has("cash"));
  EXPECT_TRUE(c.Finish().ok()) << c.Finish().error();
}

std::string ErrorOf(std::string_view text, const std::function<void(Config&)>& ask) {
  Config c = Config::Parse(text, "x.toml").value();
  ask(c);
  return c.Finish().error().message;
}

TEST(Config, ErrorsNameFileKeyAndWhatIsAllowed) {
  EXPECT_EQ(ErrorOf("threads = 100", [](Config& c) { c.Int("threads", 1, 1, 64); }),
            "key 'threads' in x.toml: must be a whole number from 1 to 64");
  EXPECT_EQ(ErrorOf("a = \"1\"", [](Config& c) { c.Int("a", 1, 1, 64); }),
            "key 'a' in x.toml: must be a whole number from 1 to 64");
  EXPECT_EQ(ErrorOf("[cache]\nsize = \"1TiB\"", [](Config& c) { c.Size("cache.size", 1, kMiB, kGiB); }),
            "key 'cache.size' in x.toml: must be a size from \"1MiB\" to \"1GiB\"");
  EXPECT_EQ(ErrorOf("t = 15", [](Config& c) { c.Duration("t", 1, kSecond, 60 * kSecond); }),
            "key 't' in x.toml: must be a duration from \"1s\" to \"1m\"");
  EXPECT_EQ(ErrorOf("l = 'loud'",
                    [](Config& c) {
                      c.OneOf("l", "info", {"info", "debug"});
                    }),
            "key 'l' in x.toml: 'loud' must be one of 'info', 'debug'");
  EXPECT_EQ(ErrorOf("", [](Config& c) { c.RequiredString("listen"); }),
            "key 'listen' in x.toml: must be set");
  EXPECT_EQ(ErrorOf("b = 1", [](Config& c) { c.Bool("b", true); }),
            "key 'b' in x.toml: must be true or false");
  EXPECT_EQ(ErrorOf("s = [1]", [](Config& c) { c.Strings("s"); }),
            "key 's' in x.toml: must be a list of strings, [\"a\", \"b\"]");
  EXPECT_EQ(ErrorOf("d = 1", [](Config& c) { c.Tables("d"); }), "key 'd' in x.toml: must be tables, [[d]]");
  EXPECT_EQ(ErrorOf("[[d]]\np = 1", [](Config& c) { c.Tables("d")[0].String("p", ""); }),
            "key 'd[0].p' in x.toml: must be a string in quotes");
}

TEST(Config, UnknownKeysAreRefused) {
  auto ask = [](Config& c) {
    c.Int("threads", 1, 1, 64);
    c.Size("cache.size", 1, 0, kGiB);
    for (Config& d : c.Tables("disk")) d.String("path", "");
  };
  EXPECT_EQ(ErrorOf("thraeds = 3", ask),
            "key 'thraeds' in x.toml: is not known; known here: cache, disk, threads");
  EXPECT_EQ(ErrorOf("[cache]\nsise = 3", ask), "key 'cache.sise' in x.toml: is not known; known here: size");
  EXPECT_EQ(ErrorOf("[[disk]]\npath = 'a'\nx = 1", ask),
            "key 'disk[0].x' in x.toml: is not known; known here: path");
  EXPECT_EQ(ErrorOf("[other]\nx = 1", ask),
            "key 'other' in x.toml: is not known; known here: cache, disk, threads");
  EXPECT_EQ(ErrorOf("[[disk]]\npath = 'a'\n[cache]\nsize = 1", ask), "");
}

TEST(Config, Files) {
  TempDir dir;
  EXPECT_EQ(Config::Load(dir.path() + "/none.toml").code(), FsError::kNoEnt);
  std::ofstream(dir.path() + "/bad.toml") << "a = 1\nb = = 2\n";
  const auto bad = Config::Load(dir.path() + "/bad.toml");
  EXPECT_EQ(bad.code(), FsError::kInval);
  EXPECT_NE(bad.error().message.find("bad.toml, line 2"), std::string::npos) << bad.error();
  std::ofstream(dir.path() + "/good.toml") << kFile;
  EXPECT_TRUE(Config::Load(dir.path() + "/good.toml").ok());
}

TEST(Config, LettersBeyondAscii) {
  Config c = Config::Parse("label = 'J\u00fclich'  # \u00e4", "x").value();
  EXPECT_EQ(c.String("label", ""), "J\u00fclich");
  EXPECT_FALSE(Config::Parse("\u00e4 = 1", "x").ok());
  EXPECT_FALSE(Config::Parse("a = \u00e4", "x").ok());
}

TEST(Config, SurvivesNoise) {
  for (uint64_t seed = 1; seed <= 3000; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Random rng(seed);
    std::string text(kFile);
    for (int i = 0; i < 5; ++i) text[rng.Below(text.size())] = static_cast<char>(rng.Below(256));
    auto c = Config::Parse(text, "x");
    if (!c.ok()) continue;
    c->Int("threads", 1, 1, 64);
    for (Config& d : c->Tables("disk")) d.Strings("labels");
    (void)c->Finish();
  }
}

TEST(OsRandom, UuidsDiffer) {
  const Uuid a = NewUuid(), b = NewUuid();
  EXPECT_NE(a, b);
  EXPECT_EQ(a.ToString()[14], '4');
  EXPECT_NE(std::string("89ab").find(a.ToString()[19]), std::string::npos);
  Uuid back;
  ASSERT_TRUE(Uuid::Parse(a.ToString(), &back));
  EXPECT_EQ(a, back);
  EXPECT_NE(OsRandom64(), OsRandom64());
}

TEST(Config, KeysThatWereRenamed) {
  Config c = Config::Parse("name = \"n3\"", "f").value();
  c.Renamed("name", "node_name");
  EXPECT_EQ(c.String("node_name", ""), "n3");
  EXPECT_TRUE(c.Finish().ok());
  Config both = Config::Parse("name = \"n3\"\nnode_name = \"n4\"", "f").value();
  both.Renamed("name", "node_name");
  EXPECT_EQ(both.String("node_name", ""), "n4");
  EXPECT_NE(both.Finish().error().message.find("former name of 'node_name'"), std::string::npos);
  Config neither = Config::Parse("", "f").value();
  neither.Renamed("name", "node_name");
  EXPECT_EQ(neither.String("node_name", "x"), "x");
  EXPECT_TRUE(neither.Finish().ok());
}

}  // namespace
}  // namespace stria
