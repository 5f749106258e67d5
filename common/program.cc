#include "common/program.h"

#include <cstring>
#include <iostream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "common/printable.h"
#include "common/version_number.h"

namespace stria {

// tools/stamp finds it by how it begins. Not const: the compiler must not know what it says.
extern char g_build_stamp[64];
char g_build_stamp[64] = "stria-build-stamp:unknown";

namespace {

using Json = nlohmann::ordered_json;

constexpr char kStampBegin[] = "stria-build-stamp:";

Json DescribeOption(const CLI::Option& option) {
  Json names = Json::array();
  for (const std::string& name : option.get_snames()) names.push_back("-" + name);
  for (const std::string& name : option.get_lnames()) names.push_back("--" + name);
  return {{"names", names},
          {"about", option.get_description()},
          {"takes_value", option.get_items_expected_max() > 0},
          {"type", option.get_type_name()}};
}

Json DescribeArgument(const CLI::Option& option) {
  return {{"name", option.get_name(true)},
          {"about", option.get_description()},
          {"required", option.get_required()},
          {"many", option.get_expected_max() > 1}};
}

Json Describe(const CLI::App& app) {
  Json options = Json::array(), arguments = Json::array(), verbs = Json::array();
  for (const CLI::Option* option : app.get_options()) {
    if (option->get_group().empty()) continue;
    if (option->get_positional()) arguments.push_back(DescribeArgument(*option));
    else options.push_back(DescribeOption(*option));
  }
  for (const CLI::App* verb : app.get_subcommands([](const CLI::App*) { return true; })) {
    if (!verb->get_group().empty()) verbs.push_back(Describe(*verb));
  }
  return {{"name", app.get_name()},  {"about", app.get_description()}, {"footer", app.get_footer()},
          {"options", options},      {"arguments", arguments},         {"verbs", verbs}};
}

}  // namespace

std::string Version() {
  return std::string(STRIA_VERSION " (commit ") + (g_build_stamp + strlen(kStampBegin)) + ")";
}

std::string DescribeProgram(const CLI::App& app) {
  Json out = Describe(app);
  out["version"] = Version();
  return out.dump(1, ' ', false, Json::error_handler_t::replace);
}

std::optional<int> ParseArguments(CLI::App& app, int argc, const char* const* argv) {
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    return SayParsed(app, e, std::cout, std::cerr);
  }
  return std::nullopt;
}

int SayParsed(const CLI::App& app, const CLI::ParseError& e, std::ostream& out, std::ostream& err) {
  std::ostringstream said, wrong;
  const int code = app.exit(e, said, wrong);
  out << PrintableLines(said.str());
  err << PrintableLines(wrong.str());
  return code;
}

void AddSelfDescription(CLI::App& app) {
  app.set_version_flag("--version", app.get_name() + " " + Version(), "Say which version this is, and of which commit");
  app.add_flag_callback("--describe", [&app] { throw CLI::CallForVersion(DescribeProgram(app), 0); }, "")->group("");
}

}  // namespace stria
