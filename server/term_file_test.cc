#include "server/term_file.h"

#include <gtest/gtest.h>

#include <memory>

#include "common/exec/sim_run.h"
#include "common/io/sim_disk.h"

namespace stria {
namespace {

TEST(TermFileTest, IsKeptOverAPowerCutAndDamageIsNotBelieved) {
  SimExecutor ex(1);
  auto media = std::make_shared<SimDiskMedia>(1);
  SimDisk disk(media);
  EXPECT_EQ(RunSim(ex, ReadTerms(&disk)).value(), HeardTerms::Kept());
  const HeardTerms::Kept kept{{7, 70}, {9, 90}};
  ASSERT_TRUE(RunSim(ex, WriteTerms(&disk, {{6, 60}, {}})).ok());
  ASSERT_TRUE(RunSim(ex, WriteTerms(&disk, kept)).ok());
  Random rng(1);
  media->Crash(rng);
  EXPECT_EQ(RunSim(ex, ReadTerms(&disk)).value(), kept);
  media->FlipBit(kTermFile, 8, 1);
  EXPECT_EQ(RunSim(ex, ReadTerms(&disk)).value(), HeardTerms::Kept());
}

}  // namespace
}  // namespace stria
