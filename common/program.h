// What every program says of itself: --version, and, for man pages and completion, the tree of its verbs and options (--describe).
#pragma once

#include <CLI/CLI.hpp>
#include <optional>
#include <ostream>
#include <string>

namespace stria {

// "0.9.0 (commit 0123456789ab)". The commit is "unknown" in what a build makes: tools/stamp writes it into the finished program, so
// that a commit does not link everything anew.
std::string Version();

// Adds --version and, hidden, --describe to a program that has all of its options and verbs.
void AddSelfDescription(CLI::App& app);

// Reads the words of the command line. Returns an exit code if the program is to end: the help that was asked for, or the mistake, is
// printed by then.
std::optional<int> ParseArguments(CLI::App& app, int argc, const char* const* argv);

// What the parser says of that end, on `out` or, of mistakes, on `err`; its exit code. No terminal obeys the words that it repeats.
int SayParsed(const CLI::App& app, const CLI::ParseError& e, std::ostream& out, std::ostream& err);

// JSON: name, about, footer, version, options, arguments, verbs (the same again). Hidden ones are left out.
std::string DescribeProgram(const CLI::App& app);

}  // namespace stria
