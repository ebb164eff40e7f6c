#include "base/crc32c.h"

#include <gtest/gtest.h>

#include <string>

namespace dptrain {
namespace {

/// The answers are from RFC 3720, B.4, and the check value of catalogs.
TEST(Crc32c, GivesTheKnownAnswers) {
  EXPECT_EQ(crc32c(""), 0u);
  EXPECT_EQ(crc32c("123456789"), 0xe3069283u);
  EXPECT_EQ(crc32c(std::string(32, '\0')), 0x8a9136aau);
  EXPECT_EQ(crc32c(std::string(32, '\xff')), 0x62a8ab43u);
  std::string counted;
  for (char byte = 0; byte < 32; ++byte) counted += byte;
  EXPECT_EQ(crc32c(counted), 0x46dd794eu);
}

}  // namespace
}  // namespace dptrain
