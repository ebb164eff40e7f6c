#include "data/idx_file.h"

#include <gtest/gtest.h>

#include "data/refusal.h"
#include "support/idx_files.h"

namespace dptrain {
namespace {

using testing::expect_refusal;
using testing::gzip;
using testing::idx_header;
using testing::idx_images;
using testing::idx_labels;
using testing::ScratchFolder;

/// Reads `bytes` as an image file called images.
IdxImages images_of(const std::string& bytes) {
  const ScratchFolder folder;
  return read_idx_images(folder.write("images", bytes));
}

void expect_bad_images(const std::string& bytes, const std::vector<std::string>& words) {
  expect_refusal(ExitCode::bad_data, words, [&] { images_of(bytes); });
}

TEST(IdxFile, ImagesPlainAndGzipAreTheSame) {
  const std::string bytes = idx_images(3, 5, 7);
  const IdxImages plain = images_of(bytes);
  EXPECT_EQ(plain.count, 3);
  EXPECT_EQ(plain.height, 5);
  EXPECT_EQ(plain.width, 7);
  EXPECT_EQ(plain.pixels, std::vector<uint8_t>(bytes.begin() + 16, bytes.end()));
  EXPECT_EQ(images_of(gzip(bytes)).pixels, plain.pixels);
}

TEST(IdxFile, LabelsPlainAndGzipAreTheSame) {
  const ScratchFolder folder;
  const std::vector<uint8_t> expected = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 0, 1};
  EXPECT_EQ(read_idx_labels(folder.write("labels", idx_labels(12))), expected);
  EXPECT_EQ(read_idx_labels(folder.write("labels.gz", gzip(idx_labels(12)))), expected);
}

TEST(IdxFile, GzipIsToldByItsBytesNotByItsName) {
  const ScratchFolder folder;
  EXPECT_EQ(read_idx_labels(folder.write("plain.gz", idx_labels(3))).size(), 3u);
  EXPECT_EQ(read_idx_labels(folder.write("packed", gzip(idx_labels(3)))).size(), 3u);
}

TEST(IdxFile, ReadsMoreThanOneStep) {
  const std::string bytes = idx_images(300, 28, 28);
  const std::vector<uint8_t> expected(bytes.begin() + 16, bytes.end());
  EXPECT_EQ(images_of(bytes).pixels, expected);
  EXPECT_EQ(images_of(gzip(bytes)).pixels, expected);
}

TEST(IdxFile, MissingFileIs66) {
  expect_refusal(ExitCode::missing_file, {"/no/such/file", "no such file"}, [] { read_idx_images("/no/such/file"); });
}

TEST(IdxFile, FolderIsRefused) {
  const ScratchFolder folder;
  expect_refusal(ExitCode::bad_data, {"expected a regular file, got a folder; put the file in its place"},
                 [&] { read_idx_images(folder.path()); });
}

TEST(IdxFile, WrongMagicIsRefused) {
  expect_bad_images("\x89PNG\r\n\x1a\n", {"images: magic number", "0x00000803 (IDX images)", "0x89504e47", "IDX file"});
}

TEST(IdxFile, SwappedFilesAreNamed) {
  expect_bad_images(idx_labels(9), {"magic number", "got 0x00000801 (IDX labels)", "swapped"});
  const ScratchFolder folder;
  expect_refusal(ExitCode::bad_data, {"0x00000801 (IDX labels)", "got 0x00000803 (IDX images)", "swapped"},
                 [&] { read_idx_labels(folder.write("labels", idx_images(1, 1, 1))); });
}

TEST(IdxFile, EveryTruncationIsRefused) {
  const std::string plain = idx_images(2, 3, 3);
  for (size_t bytes = 0; bytes < plain.size(); ++bytes) expect_bad_images(plain.substr(0, bytes), {"images: "});
  const std::string packed = gzip(plain);
  for (size_t bytes = 0; bytes < packed.size(); ++bytes) expect_bad_images(packed.substr(0, bytes), {"images: "});
}

TEST(IdxFile, TruncationSaysWhere) {
  const std::string plain = idx_images(2, 3, 3);
  expect_bad_images(plain.substr(0, 33),
                    {"images: pixels", "expected 18 bytes, as the header says, got 17", "get the file"});
  expect_bad_images(plain.substr(0, 10), {"images: rows", "the end of the file after 2"});
  const std::string packed = gzip(plain);
  expect_bad_images(packed.substr(0, packed.size() - 1),
                    {"expected the end of its gzip stream, got the end of the file"});
  expect_bad_images(gzip(plain.substr(0, 33)), {"images: pixels", "expected 18 bytes", "got 17"});
}

TEST(IdxFile, TrailingBytesAreRefused) {
  expect_bad_images(idx_images(2, 3, 3) + "x", {"images: pixels", "expected 18 bytes", "got 19"});
  expect_bad_images(gzip(idx_images(2, 3, 3) + "x"), {"images: pixels", "expected 18 bytes", "got more"});
}

TEST(IdxFile, BadChecksumIsRefused) {
  std::string packed = gzip(idx_images(2, 3, 3));
  packed[packed.size() - 8] ^= 1;
  expect_bad_images(packed, {"expected a gzip stream that decompresses", "incorrect data check", "get the file"});
}

TEST(IdxFile, BadGzipLengthIsRefused) {
  std::string packed = gzip(idx_images(2, 3, 3));
  packed[packed.size() - 4] ^= 1;
  expect_bad_images(packed, {"incorrect length check"});
}

TEST(IdxFile, NoFlippedBitOfGzipChangesThePixels) {
  const std::string whole = gzip(idx_images(2, 3, 3));
  const std::vector<uint8_t> pixels = images_of(whole).pixels;
  for (size_t bit = 0; bit < 8 * whole.size(); ++bit) {
    std::string packed = whole;
    packed[bit / 8] = static_cast<char>(packed[bit / 8] ^ (1 << bit % 8));
    try {
      // The time and the system in gzip's own header may have any value.
      EXPECT_EQ(images_of(packed).pixels, pixels) << "bit " << bit;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::bad_data) << "bit " << bit << ": " << error.what();
    }
  }
}

TEST(IdxFile, SecondGzipMemberIsRefused) {
  const std::string packed = gzip(idx_images(2, 3, 3));
  expect_bad_images(packed + packed, {"expected one gzip member, got a second one"});
  expect_bad_images(packed + gzip(""), {"expected one gzip member, got a second one"});
  expect_bad_images(packed + std::string(3, '\0'), {"expected one gzip member, got other bytes after it"});
}

TEST(IdxFile, ZeroImagesAreRefused) {
  expect_bad_images(idx_images(0, 3, 3), {"images: number of images", "expected 1 to 2147483647, got 0"});
  expect_bad_images(idx_images(1, 0, 3), {"images: rows", "got 0"});
  expect_bad_images(idx_images(1, 3, 0), {"images: columns", "got 0"});
}

TEST(IdxFile, AbsurdDimensionsAreRefused) {
  expect_bad_images(idx_header({0x803, 1, 0x80000000u, 28}), {"images: rows", "expected 1 to 65535, got 2147483648"});
  expect_bad_images(idx_header({0x803, 0x80000000u, 28, 28}), {"images: number of images", "got 2147483648"});
  // A little less than 2^31 * 2^16 * 2^16: the largest size within the limits doesn't overflow.
  expect_bad_images(idx_header({0x803, 0x7fffffffu, 65535, 65535}),
                    {"images: pixels", "expected 9223090559730712575 bytes"});
}

}  // namespace
}  // namespace dptrain
