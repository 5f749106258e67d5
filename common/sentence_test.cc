#include "common/sentence.h"

#include <gtest/gtest.h>

namespace stria {
namespace {

// For an error without a sentence of its own people read a sentence too, and not a name out of the code.
TEST(Sentence, IsASentenceForPeople) {
  for (uint16_t n = 1; n < 256; ++n) {
    if (!IsKnownFsError(n)) continue;
    const Error e{static_cast<FsError>(n)};
    const std::string sentence = SentenceOf(e);
    EXPECT_EQ(sentence.find(FsErrorName(e.code)), std::string::npos) << sentence;
    EXPECT_NE(sentence.find(' '), std::string::npos) << FsErrorName(e.code) << ": " << sentence;
    if (n >= static_cast<uint16_t>(FsError::kFenced)) EXPECT_NE(sentence, SentenceOf(Error(FsError::kIo))) << FsErrorName(e.code);
  }
  EXPECT_EQ(SentenceOf(Error(FsError::kPerm, "only root checks")), "only root checks");
}

}  // namespace
}  // namespace stria
