#include "test/sim/wait_graph.h"

#include <gtest/gtest.h>

#include "common/random.h"

namespace stria {
namespace {

using Cycle = std::vector<std::string>;

TEST(WaitGraph, WithoutCircle) {
  WaitGraph g;
  EXPECT_TRUE(g.FindCycle().empty());
  g.Add("open", "lock");
  g.Add("close", "lock");
  g.Add("lock", "recall");
  g.Add("recall", "disk");
  g.Add("open", "disk");
  EXPECT_TRUE(g.FindCycle().empty());
  EXPECT_EQ(g.Text(), "\n  close waits for lock\n  lock waits for recall\n  open waits for disk and lock\n  recall waits for disk");
}

TEST(WaitGraph, WhatWaitsForItself) {
  WaitGraph g;
  g.Add("b", "b");
  EXPECT_EQ(g.FindCycle(), Cycle({"b"}));
}

TEST(WaitGraph, TheCircleWithoutWhatWaitsForIt) {
  WaitGraph g;
  g.Add("a program", "z");
  g.Add("z", "y");
  g.Add("y", "x");
  g.Add("x", "z");
  g.Add("y", "nothing");
  EXPECT_EQ(g.FindCycle(), Cycle({"x", "z", "y"}));
  EXPECT_EQ(WaitGraph::Text(g.FindCycle()), "\n  x waits for\n  z waits for\n  y waits for\n  x");
}

TEST(WaitGraph, WhatIsAddedLaterChangesNothingOfIt) {
  WaitGraph g;
  g.Add("m", "n");
  g.Add("n", "m");
  const Cycle before = g.FindCycle();
  g.Add("p", "m");
  g.Add("n", "q");
  g.Add("q");
  EXPECT_EQ(g.FindCycle(), before);
}

// Who waits for any of several goes on with the first of them.
TEST(WaitGraph, OneWayOutIsEnoughForWhoWaitsForAny) {
  WaitGraph g;
  g.Add("write", "room");
  g.AddAny("room", "a is stored");
  g.AddAny("room", "b is stored");
  g.Add("a is stored", "write");
  EXPECT_TRUE(g.FindCycle().empty());
  EXPECT_EQ(g.Text(), "\n  a is stored waits for write\n  room waits for a is stored or b is stored\n  write waits for room");
  g.Add("b is stored", "lock");
  EXPECT_TRUE(g.FindCycle().empty());
  g.Add("lock", "write");
  EXPECT_EQ(g.FindCycle(), Cycle({"a is stored", "write", "room"}));
  g.Add("lock", "disk");
  g.AddAny("room", "c is stored");
  EXPECT_TRUE(g.FindCycle().empty());
  g.Add("room", "write");
  EXPECT_EQ(g.FindCycle(), Cycle({"room", "write"})) << "it waits for something else as well";
}

// Against looking whether any node reaches itself.
TEST(WaitGraph, RandomOnes) {
  Random rng(1);
  for (int i = 0; i < 2000; ++i) {
    constexpr size_t kNodes = 7;
    bool reaches[kNodes][kNodes] = {};
    WaitGraph g;
    for (uint64_t edges = rng.Below(12); edges > 0; --edges) {
      const uint64_t a = rng.Below(kNodes), b = rng.Below(kNodes);
      reaches[a][b] = true;
      g.Add(std::string(1, static_cast<char>('a' + a)), std::string(1, static_cast<char>('a' + b)));
    }
    bool direct[kNodes][kNodes];
    std::copy(&reaches[0][0], &reaches[0][0] + kNodes * kNodes, &direct[0][0]);
    for (size_t k = 0; k < kNodes; ++k) {
      for (size_t a = 0; a < kNodes; ++a) {
        for (size_t b = 0; b < kNodes; ++b) reaches[a][b] = reaches[a][b] || (reaches[a][k] && reaches[k][b]);
      }
    }
    bool any = false;
    for (size_t a = 0; a < kNodes; ++a) any = any || reaches[a][a];
    const Cycle found = g.FindCycle();
    ASSERT_EQ(!found.empty(), any);
    for (size_t n = 0; n < found.size(); ++n) {
      ASSERT_TRUE(direct[found[n][0] - 'a'][found[(n + 1) % found.size()][0] - 'a']);
    }
  }
}

}  // namespace
}  // namespace stria
