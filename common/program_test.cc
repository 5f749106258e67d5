#include "common/program.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>

namespace stria {
namespace {

// What the program prints for these words, and that it ends well.
std::string Said(CLI::App& app, const std::string& words) {
  std::ostringstream out;
  try {
    app.parse(words);
  } catch (const CLI::ParseError& e) {
    EXPECT_EQ(SayParsed(app, e, out, out), 0) << out.str();
  }
  return out.str();
}

class Program : public testing::Test {
 protected:
  Program() {
    app_.require_subcommand(1);
    CLI::App* disk = app_.add_subcommand("disk", "Disks");
    disk->require_subcommand(1);
    CLI::App* drain = disk->add_subcommand("drain", "Empty one");
    drain->add_option("DISK", name_, "Its name")->required();
    drain->add_flag("--dry-run,-n", flag_, "Only say it");
    drain->add_option("--wait", wait_, "Seconds");
    drain->add_flag("--secret", flag_, "For tests")->group("");
    AddSelfDescription(app_);
  }
  CLI::App app_{"About it", "prog"};
  std::string name_, wait_;
  bool flag_ = false;
};

TEST_F(Program, SaysItsVersionWithoutWhatItNeedsElse) {
  EXPECT_EQ(Said(app_, "--version"), "prog " + Version() + "\n");
  // What no tool has stamped.
  EXPECT_NE(Version().find("(commit unknown)"), std::string::npos) << Version();
  EXPECT_EQ(Version().find('\n'), std::string::npos);
}

TEST_F(Program, NoTerminalObeysMistakes) {
  const char* const words[] = {"prog", "disk", "drain", "d", "--no\033[31mx"};
  testing::internal::CaptureStderr();
  EXPECT_NE(ParseArguments(app_, 5, words).value_or(0), 0);
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_NE(said.find("--no\\033[31mx\n"), std::string::npos) << said;
  EXPECT_EQ(said.find('\033'), std::string::npos) << said;
  EXPECT_FALSE(ParseArguments(app_, 4, words));
}

TEST_F(Program, DescribesItsVerbsAndOptions) {
  const auto tree = nlohmann::json::parse(Said(app_, "--describe"));
  EXPECT_EQ(tree["name"], "prog");
  EXPECT_EQ(tree["version"], Version());
  const auto& drain = tree["verbs"][0]["verbs"][0];
  EXPECT_EQ(drain["name"], "drain");
  EXPECT_EQ(drain["about"], "Empty one");
  EXPECT_EQ(drain["arguments"].size(), 1u);
  EXPECT_EQ(drain["arguments"][0]["name"], "DISK");
  EXPECT_EQ(drain["arguments"][0]["required"], true);
  std::map<std::string, bool> takes_value;
  for (const auto& option : drain["options"]) {
    for (const auto& name : option["names"]) takes_value[name] = option["takes_value"];
  }
  EXPECT_EQ(takes_value, (std::map<std::string, bool>{
                             {"-h", false}, {"--help", false}, {"-n", false}, {"--dry-run", false}, {"--wait", true}}));
}

}  // namespace
}  // namespace stria
