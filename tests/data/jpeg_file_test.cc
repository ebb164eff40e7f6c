#include "data/jpeg_file.h"

#include <gtest/gtest.h>

#include <cmath>

#include "data/png_file.h"
#include "data/refusal.h"
#include "support/jpeg_files.h"
#include "support/png_files.h"
#include "support/process.h"

namespace dptrain {
namespace {

using testing::expect_refusal;
using testing::jpeg_file;
using Bytes = std::vector<uint8_t>;

class JpegFileTest : public ::testing::Test {
 protected:
  Picture read(const std::string& bytes) const {
    folder_.write("a.jpg", bytes);
    return read_jpeg(folder_.path() / "a.jpg");
  }
  void expect_refused(const std::string& bytes, const std::vector<std::string>& words) const {
    expect_refusal(ExitCode::bad_data, words, [&] { read(bytes); });
  }

  testing::ScratchFolder folder_;
};

/// The files have the best quality, so little is lost.
void expect_near(const Bytes& got, const Bytes& expected) {
  ASSERT_EQ(got.size(), expected.size());
  for (size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], expected[i], 2) << i;
}

Bytes waves(size_t count) {
  Bytes bytes;
  for (size_t i = 0; i < count; ++i)
    bytes.push_back(static_cast<uint8_t>(128 + 60 * std::sin(0.02 * static_cast<double>(i))));
  return bytes;
}

TEST_F(JpegFileTest, GrayHasOneChannel) {
  const Bytes samples = waves(9 * 11);
  for (const bool progressive : {false, true}) {
    const Picture picture = read(jpeg_file(9, 11, samples, {.color = JCS_GRAYSCALE, .progressive = progressive}));
    EXPECT_EQ(picture.shape, Shape({1, 9, 11}));
    expect_near(picture.pixels, samples);
  }
}

TEST_F(JpegFileTest, ColorsAreRedGreenAndBlue) {
  Bytes samples, planes;
  for (int i = 0; i < 64; ++i) samples.insert(samples.end(), {200, 100, 30});
  for (const uint8_t channel : {200, 100, 30}) planes.insert(planes.end(), 64, channel);
  const Picture picture = read(jpeg_file(8, 8, samples));
  EXPECT_EQ(picture.shape, Shape({3, 8, 8}));
  expect_near(picture.pixels, planes);
}

TEST_F(JpegFileTest, WhatIsNoWholeImageIsRefused) {
  const std::string whole = jpeg_file(64, 64, waves(64 * 64), {.color = JCS_GRAYSCALE});
  for (const size_t bytes : {size_t{2}, size_t{30}, whole.size() / 2, whole.size() - 40})
    expect_refused(whole.substr(0, bytes), {"a.jpg", "expected a whole JPEG image", "only partly copied"});
  expect_refused("\xff\xd8 no image", {"a.jpg", "expected a whole JPEG image"});
  expect_refused("", {"a.jpg", "expected a whole JPEG image"});
  EXPECT_EQ(read(whole + "what a camera appends").shape, Shape({1, 64, 64}));
  expect_refusal(ExitCode::missing_file, {"b.jpg"}, [&] { read_jpeg(folder_.path() / "b.jpg"); });
}

TEST_F(JpegFileTest, AWholeFileOfAnotherKindIsNoDamagedOne) {
  std::string lossless = jpeg_file(8, 8, Bytes(64, 1), {.color = JCS_GRAYSCALE});
  const size_t frame = lossless.find("\xff\xc0");
  ASSERT_NE(frame, std::string::npos);
  lossless[frame + 1] = '\xc3';
  expect_refused(lossless, {"a.jpg", "of a common kind", "SOF type 0xc3", "convert it to PNG"});
}

TEST_F(JpegFileTest, WhatIsTooLargeOrInPrintersColorsIsRefused) {
  expect_refused(jpeg_file(1, 4097, Bytes(4097, 1), {.color = JCS_GRAYSCALE}),
                 {"a.jpg: width", "at most 4096", "got 4097"});
  expect_refused(jpeg_file(4097, 1, Bytes(4097, 1), {.color = JCS_GRAYSCALE}), {"a.jpg: height", "got 4097"});
  expect_refused(jpeg_file(8, 8, Bytes(256, 1), {.color = JCS_CMYK}), {"a.jpg", "CMYK", "convert it to RGB"});
}

TEST_F(JpegFileTest, ScansWithoutEndAreRefused) {
  std::string file = jpeg_file(16, 16, waves(256), {.color = JCS_GRAYSCALE, .progressive = true});
  // The first scan is repeated in front of all scans.
  const size_t scan = file.find("\xff\xda"), next = file.find("\xff", scan + 12);
  ASSERT_NE(next, std::string::npos);
  const std::string again = file.substr(scan, next - scan);
  std::string scans;
  for (int i = 0; i < 600; ++i) scans += again;
  expect_refused(file.insert(scan, scans), {"a.jpg", "more than 500 scans"});
}

TEST_F(JpegFileTest, APictureIsToldByHowItBegins) {
  folder_.write("a.png", jpeg_file(8, 8, Bytes(192, 9)));
  EXPECT_EQ(read_picture(folder_.path() / "a.png").shape, Shape({3, 8, 8}));
  folder_.write("a.jpg", testing::png_file(2, 3, Bytes(6, 9)));
  EXPECT_EQ(read_picture(folder_.path() / "a.jpg").shape, Shape({1, 2, 3}));
  folder_.write("a.jpg", "neither");
  expect_refusal(ExitCode::bad_data, {"a.jpg", "expected a PNG or JPEG image"},
                 [&] { read_picture(folder_.path() / "a.jpg"); });
}

}  // namespace
}  // namespace dptrain
