#include "common/printable.h"

#include <gtest/gtest.h>

#include <array>
#include <cstdio>

namespace stria {
namespace {

TEST(Printable, LeavesWhatCanBeRead) {
  for (const char* name : {"", "/data/run 7.root", "/Größe/日本/😀", "it's", "a\\b", "50%"}) {
    EXPECT_EQ(Printable(name), name);
    EXPECT_EQ(PrintableName(name), name);
  }
}

TEST(Printable, Lists) {
  EXPECT_EQ(PrintableList({}), "");
  EXPECT_EQ(PrintableList({"pc1"}), "pc1");
  EXPECT_EQ(PrintableList({"pc1", "", "a\nb"}), "pc1, , a\\nb");
}

TEST(Printable, NoTerminalObeysIt) {
  EXPECT_EQ(Printable("a\033[31mb\x07\x7f"), R"(a\033[31mb\007\177)");
  EXPECT_EQ(Printable("one\ntwo\tthree\r"), R"(one\ntwo\tthree\r)");
  EXPECT_EQ(Printable("\u009b31m"), R"(\302\23331m)") << "C1: CSI in one character";
  EXPECT_EQ(Printable("gpj.\u202etxt"), R"(gpj.\342\200\256txt)") << "turns the writing";
  EXPECT_EQ(Printable("\xff\xc3"), R"(\377\303)");
  EXPECT_EQ(PrintableName("/d/\xff'\\"), R"($'/d/\377\'\\')");
  EXPECT_EQ(PrintableName("$'x'"), R"($'$\'x\'')") << "or it would be taken for the other form";
}

TEST(Printable, LinesStayLines) {
  EXPECT_EQ(PrintableLines(""), "");
  EXPECT_EQ(PrintableLines("\n\n"), "\n\n");
  EXPECT_EQ(PrintableLines("a\033[31m\r\n  b\t"), "a\\033[31m\\r\n  b\\t");
}

TEST(Printable, WhatIsNotUtf8) {
  for (const char* bad : {"\x80", "\xc0\xaf", "\xc1\x81", "\xe0\x80\x80", "\xed\xa0\x80", "\xf0\x80\x80\x80", "\xf4\x90\x80\x80",
                          "\xf5\x80\x80\x80", "\xe2\x82", "\xc3(", "\xff"}) {
    EXPECT_NE(Printable(bad), bad) << Printable(bad);
  }
}

TEST(Printable, JsonIsAsPythonDecodesNames) {
  EXPECT_EQ(JsonQuoted("a\xff\xc3(\"\\\n\033\x7f"), R"("a\udcff\udcc3(\"\\\n\u001b\u007f")");
  EXPECT_EQ(JsonQuoted("Größe 😀"), "\"Größe 😀\"");
  EXPECT_EQ(JsonQuoted("\xed\xb3\xbf"), R"("\udced\udcb3\udcbf")") << "a surrogate in the name is three bytes of it";
}

// For every byte alone, and for all together: bash, sh and Python get back the same bytes.
std::string Output(const std::string& command) {
  std::string out;
  FILE* pipe = popen(command.c_str(), "r");
  std::array<char, 4096> part;
  for (size_t n = 0; pipe != nullptr && (n = fread(part.data(), 1, part.size(), pipe)) > 0;) out.append(part.data(), n);
  if (pipe != nullptr) pclose(pipe);
  return out;
}

TEST(Printable, NoByteIsLost) {
  std::string all;
  for (int b = 1; b < 256; ++b) all += static_cast<char>(b);
  all += "ä\u202e日\xed\xa0\x80 '$(echo x)' \"`";
  EXPECT_EQ(Output("printf %s " + ShellQuoted(all)), all);
  EXPECT_EQ(Output("bash -c " + ShellQuoted("printf %s " + BashQuoted(all))), all);
  EXPECT_EQ(Output("bash -c " + ShellQuoted("printf %s " + PrintableName(all))), all);
  const std::string python = "import json, os, sys; sys.stdout.buffer.write(os.fsencode(json.loads(sys.argv[1])))";
  EXPECT_EQ(Output("PYTHONUTF8=1 python3 -c " + ShellQuoted(python) + " " + ShellQuoted(JsonQuoted(all))), all);
  const std::string literal = "import os, sys; sys.stdout.buffer.write(os.fsencode(" + JsonQuoted(all) + "))";
  EXPECT_EQ(Output("PYTHONUTF8=1 python3 -c " + ShellQuoted(literal)), all);
}

}  // namespace
}  // namespace stria
