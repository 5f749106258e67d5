#include "meta/meta_flags.h"

#include <gtest/gtest.h>

#include <string>

namespace stria {
namespace {

class SeveralFlagsTest : public testing::Test {
 protected:
  // "": they fit.
  std::string Why() const {
    const Result<void> fit = CheckSeveralFlags(flags_, config_);
    EXPECT_TRUE(fit.ok() || fit.code() == FsError::kInval) << fit.error();
    return fit.ok() ? "" : fit.error().message;
  }
  bool Names(const std::string& what) const { return Why().find(what) != std::string::npos; }
  MetaFlags flags_;
  MetaConfig config_;
};

TEST_F(SeveralFlagsTest, AloneNeedsNoneOfThem) {
  flags_.format.format = true;
  EXPECT_EQ(Why(), "");
  flags_.several.init = true;
  EXPECT_TRUE(Names("[ha]")) << Why();
  flags_.several = {};
  flags_.several.cluster = "x";
  EXPECT_TRUE(Names("--cluster")) << Why();
}

TEST_F(SeveralFlagsTest, OneOfSeveral) {
  config_.ha = HaConfig();
  EXPECT_EQ(Why(), "");
  flags_.format.format = true;
  EXPECT_TRUE(Names("--ha-init")) << Why();
  flags_.several.init = true;
  EXPECT_EQ(Why(), "") << "a new cluster that has several at once";
  flags_.several.leave = true;
  EXPECT_TRUE(Names("exclude each other")) << Why();
  flags_.several = {};
  flags_.several.join = true;
  EXPECT_TRUE(Names("--format")) << Why();
  flags_.format = {};
  EXPECT_EQ(Why(), "");
  flags_.several.cluster = "no uuid";
  EXPECT_TRUE(Names("--cluster")) << Why();
  flags_.several.cluster = "01234567-89ab-cdef-0123-456789abcdef";
  EXPECT_EQ(Why(), "");
  flags_.several = {};
  flags_.restore.from = {"pc1:7425"};
  EXPECT_TRUE(Names("--restore-from")) << Why();
}

}  // namespace
}  // namespace stria
