#include "api/protocol.h"

#include <gtest/gtest.h>

#include "api/data_api.h"
#include "api/types.h"

namespace stria {
namespace {

TEST(Protocol, TheNewestThatBothSpeakIsChosen) {
  EXPECT_EQ(CommonProtocol({3, 5}, {3, 5}).value(), 5u);
  EXPECT_EQ(CommonProtocol({3, 5}, {2, 4}).value(), 4u) << "an older caller";
  EXPECT_EQ(CommonProtocol({3, 5}, {5, 9}).value(), 5u) << "a newer one";
  EXPECT_EQ(CommonProtocol({3, 5}, {1, 3}).value(), 3u);
  EXPECT_EQ(CommonProtocol({3, 3}, {1, 9}).value(), 3u);
}

TEST(Protocol, WithoutOneTheSentenceSaysWhoIsOlder) {
  const Result<uint32_t> old = CommonProtocol({4, 5}, {2, 3});
  EXPECT_EQ(old.code(), FsError::kVersion);
  EXPECT_EQ(old.error().message,
            "this program speaks protocols 4 to 5, and its caller protocols 2 to 3: the caller's program is too old; upgrade the older one of the two");
  const Result<uint32_t> fresh = CommonProtocol({4, 4}, {6, 6});
  EXPECT_EQ(fresh.code(), FsError::kVersion);
  EXPECT_EQ(fresh.error().message,
            "this program speaks protocol 4, and its caller protocol 6: this program is too old for its caller; upgrade the older one of the two");
  EXPECT_EQ(CommonProtocol({3, 5}, {5, 4}).code(), FsError::kVersion) << "upside down";
}

TEST(Protocol, ACallerOfBeforeSaysOneVersion) {
  EXPECT_EQ(ProtocolsOf(0, 3), (ProtocolRange{3, 3}));
  EXPECT_EQ(ProtocolsOf(2, 3), (ProtocolRange{2, 3}));
  EXPECT_EQ(CommonProtocol({3, 4}, ProtocolsOf(0, 3)).value(), 3u);
  EXPECT_EQ(CommonProtocol({3, 4}, ProtocolsOf(0, 2)).code(), FsError::kVersion);
  EXPECT_EQ(CommonProtocol({3, 4}, ProtocolsOf(0, 0)).code(), FsError::kVersion);
}

template <class Header>
void AgreesOnOne() {
  Header header;
  EXPECT_TRUE(CheckProtocol(header).ok());
  header.protocol = kProtocolVersion + 7;
  ASSERT_TRUE(CheckProtocol(header).ok()) << "a newer caller that still speaks ours";
  ASSERT_TRUE(AgreeOnProtocol(&header).ok());
  EXPECT_EQ(header.protocol, kProtocolVersion);
  EXPECT_EQ(header.oldest_protocol, kProtocolVersion);
  header.protocol = header.oldest_protocol = kProtocolVersion + 1;
  EXPECT_EQ(CheckProtocol(header).code(), FsError::kVersion);
  EXPECT_EQ(AgreeOnProtocol(&header).code(), FsError::kVersion);
  EXPECT_EQ(header.protocol, kProtocolVersion + 1) << "as it was";
}

TEST(Protocol, HeadersAgreeOnOne) {
  AgreesOnOne<OpHeader>();
  AgreesOnOne<DataHeader>();
}

}  // namespace
}  // namespace stria
