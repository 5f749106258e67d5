// For tests of sessions: a metadata server and two clients with a session each.
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "meta/service/meta_testing.h"

namespace stria {

class ServiceTest : public testing::Test {
 protected:
  ServiceTest() { a.Open(), b.Open(); }
  // Runs the task and returns how long it took.
  template <class T>
  int64_t Timed(Task<T> t, T* out) {
    const int64_t start = h.ex.NowNs();
    *out = RunSim(h.ex, std::move(t));
    return h.ex.NowNs() - start;
  }
  MetaHarness h;
  TestClient a{&h, 1}, b{&h, 2};
};

}  // namespace stria
