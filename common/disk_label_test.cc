#include "common/disk_label.h"

#include <gtest/gtest.h>

namespace stria {
namespace {

TEST(DiskLabel, WhatLabelsMayBe) {
  for (const std::string& fine : {std::string(), std::string("d1"), std::string("WD-1.5_TB"), std::string(kMaxDiskLabelBytes, 'x')}) {
    EXPECT_EQ(LabelFault(fine), "");
  }
  EXPECT_EQ(LabelFault("a b"), "the label 'a b' has ' ' in it: it may have letters, digits, . - _, at most 64 of them");
  EXPECT_EQ(LabelFault(std::string(65, 'x')),
            "the label '" + std::string(65, 'x') + "' has 65 characters: it may have letters, digits, . - _, at most 64 of them");
  for (const char* bad : {"n1:d1", "a/b", "d{1}", "[", "@", "`", "\\"}) EXPECT_NE(LabelFault(bad), "") << bad;
}

TEST(DiskLabel, WhatChannelsMayBe) {
  for (const std::string& fine : {std::string(), std::string("pci-0000:00:1f.2/ata1"), std::string("~!"), std::string(kMaxDiskLabelBytes, 'c')}) {
    EXPECT_EQ(ChannelFault(fine), "");
  }
  EXPECT_EQ(ChannelFault("sata 0"), "the channel 'sata 0' has ' ' in it: it may have letters, digits and punctuation, but no spaces, at most 64 of them");
  EXPECT_NE(ChannelFault(std::string(65, 'c')).find("65 characters"), std::string::npos);
}

TEST(DiskLabel, BothOfADisk) {
  EXPECT_EQ(DiskNameFault("d1", "sata0"), "");
  EXPECT_EQ(DiskNameFault("d 1", "sata 0"), LabelFault("d 1"));
  EXPECT_EQ(DiskNameFault("", "sata 0"), ChannelFault("sata 0"));
}

TEST(DiskLabel, NoFaultIsAsLongAsTheNameOrObeyedByATerminal) {
  EXPECT_EQ(LabelFault("d\n"), "the label 'd\\n' has '\\n' in it: it may have letters, digits, . - _, at most 64 of them");
  EXPECT_NE(LabelFault("d\xff").find("'\\377' in it"), std::string::npos) << LabelFault("d\xff");
  EXPECT_NE(LabelFault("gro\xc3\x9f").find("'\xc3\x9f' in it"), std::string::npos) << "a whole character";
  EXPECT_NE(ChannelFault("\x7f").find("'\\177' in it"), std::string::npos) << ChannelFault("\x7f");
  EXPECT_NE(ChannelFault(std::string("a\0b", 3)).find("\\000"), std::string::npos);
  EXPECT_LT(LabelFault(std::string(65'000, 'd')).size(), 300u);
}

}  // namespace
}  // namespace stria
