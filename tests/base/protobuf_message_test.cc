#include "base/protobuf_message.h"

#include <gtest/gtest.h>

namespace dptrain {
namespace {

std::string bytes(std::initializer_list<int> values) {
  std::string text;
  for (const int value : values) text += static_cast<char>(value);
  return text;
}

/// The examples of protobuf.dev/programming-guides/encoding.
TEST(ProtobufMessage, IsLaidOutAsTheGuideSays) {
  ProtobufMessage integer, text, outer;
  integer.add_integer(1, 150);
  EXPECT_EQ(integer.bytes(), bytes({0x08, 0x96, 0x01}));
  text.add_bytes(2, "testing");
  EXPECT_EQ(text.bytes(), bytes({0x12, 0x07}) + "testing");
  outer.add_message(3, integer);
  EXPECT_EQ(outer.bytes(), bytes({0x1a, 0x03, 0x08, 0x96, 0x01}));
}

TEST(ProtobufMessage, IntegersTakeSevenBitsAByte) {
  const auto of = [](int64_t value) {
    ProtobufMessage message;
    message.add_integer(1, value);
    return message.bytes().substr(1);
  };
  EXPECT_EQ(of(0), bytes({0}));
  EXPECT_EQ(of(127), bytes({0x7f}));
  EXPECT_EQ(of(128), bytes({0x80, 0x01}));
  EXPECT_EQ(of(-2), bytes({0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01}));
}

TEST(ProtobufMessage, RealNumbersHaveTheLowestByteFirst) {
  ProtobufMessage message;
  message.add_float(2, 0.25F);
  message.add_double(1, 1.5);
  EXPECT_EQ(message.bytes(), bytes({0x15, 0, 0, 0x80, 0x3e, 0x09, 0, 0, 0, 0, 0, 0, 0xf8, 0x3f}));
}

}  // namespace
}  // namespace dptrain
