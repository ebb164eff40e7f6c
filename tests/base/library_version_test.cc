#include "base/library_version.h"

#include "support/expect_error.h"

namespace dptrain {
namespace {

TEST(LibraryVersion, AnotherMajorVersionIsRefusedWithBoth) {
  const LibraryVersion other{
      .name = "cuDNN", .built_major = 9, .built_minor = 19, .loaded_major = 8, .loaded_minor = 9};
  testing::expect_error(ExitCode::device, {"cuDNN", "9.19", "8.9"}, [&] { other.require_fit(); });
}

TEST(LibraryVersion, OneThatWasntFoundIsToldOfAsThat) {
  EXPECT_EQ((LibraryVersion{.name = "cuDNN", .built_major = 9}.text()), "cuDNN (not found)");
}

TEST(LibraryVersion, AnotherMinorVersionFits) {
  const LibraryVersion older{
      .name = "cuDNN", .built_major = 9, .built_minor = 19, .loaded_major = 9, .loaded_minor = 2};
  EXPECT_NO_THROW(older.require_fit());
  EXPECT_EQ(older.text(), "cuDNN 9.2");
}

}  // namespace
}  // namespace dptrain
