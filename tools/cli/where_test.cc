#include "tools/cli/where.h"

#include <gtest/gtest.h>

namespace stria::cli {
namespace {

TEST(Where, Rows) {
  EXPECT_EQ(RenderWhere({}), "the range is empty\n");
  EXPECT_EQ(RenderWhere({{0, 65536, "data", "n1", "d1", "ok", StripeId(5)},
                         {65536, 65536, "data", "n2", "d1", "down", StripeId(5)},
                         {131072, 3, "meta", "meta", "-", "ok", StripeId()},
                         {0, 131072, "parity", "n1", "d2", "ok", StripeId(5)}}),
            "RANGE           SIZE  NODE  DISK  ROLE    HEALTH\n"
            "0+65536       64 KiB  n1    d1    data    ok\n"
            "65536+65536   64 KiB  n2    d1    data    down\n"
            "131072+3         3 B  meta  -     meta    ok\n"
            "0+131072     128 KiB  n1    d2    parity  ok\n");
}

TEST(Where, Hosts) {
  EXPECT_EQ(RenderByHost({}), "the range is empty\n");
  EXPECT_EQ(RenderByHost({{"n1", 50, 0, "ok"}, {"n2", 0, 1, "ok"}}),
            "NODE  BYTES  SHARE  PARITY RANGES  HEALTH\n"
            "n1     50 B  100 %              0  ok\n"
            "n2      0 B    0 %              1  ok\n");
}

TEST(Where, Reads) {
  EXPECT_EQ(RenderReads({3 * 1024, 1024, 512}),
            "READ FROM        BYTES  SHARE\n"
            "this node      3.0 KiB   75 %\n"
            "the network    1.0 KiB   25 %\n"
            "reconstructed    512 B\n");
  EXPECT_NE(RenderReads({}).find("  0 B      -\n"), std::string::npos);
}

}  // namespace
}  // namespace stria::cli
