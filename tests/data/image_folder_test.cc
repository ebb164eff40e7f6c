#include "data/image_folder.h"

#include <gtest/gtest.h>

#include "data/refusal.h"
#include "support/idx_files.h"
#include "support/jpeg_files.h"
#include "support/png_files.h"

namespace dptrain {
namespace {

using testing::expect_refusal;
using testing::png_file;
using Bytes = std::vector<uint8_t>;
using Names = std::vector<std::string>;

/// Three classes of 2 x 2 images. For training: cats 10, 11, 12, a dog 20, owls 30, 31. For the test: an owl 39 and
/// cats 18, 19.
class ImageFolderTest : public ::testing::Test {
 protected:
  ImageFolderTest() {
    for (const uint8_t gray : {12, 10, 11}) write_gray("train/cat", gray);
    write_gray("train/dog", 20);
    for (const uint8_t gray : {30, 31}) write_gray("train/owl", gray);
    write_gray("test/owl", 39);
    for (const uint8_t gray : {18, 19}) write_gray("test/cat", gray);
  }

  void write(const std::string& file, const std::string& bytes) const {
    std::filesystem::create_directories((folder_.path() / file).parent_path());
    folder_.write(file, bytes);
  }
  void write_gray(const std::string& folder, uint8_t gray) const {
    write(folder + "/" + std::to_string(gray) + ".png", png_file(2, 2, Bytes(4, gray)));
  }
  void write_color(const std::string& file, const Bytes& rgb) const {
    Bytes samples;
    for (int pixel = 0; pixel < 4; ++pixel) samples.insert(samples.end(), rgb.begin(), rgb.end());
    write(file, png_file(2, 2, samples, {.color = PNG_COLOR_TYPE_RGB}));
  }
  ImageDatasets read(const DatasetOptions& options = {}, int64_t channels = 1) const {
    return read_image_folder({.dir = folder_.path(), .size = size_, .channels = channels}, options);
  }
  void expect_refused(ExitCode code, const Names& words) const {
    expect_refusal(code, words, [&] { read(); });
  }

  testing::ScratchFolder folder_;
  std::optional<int64_t> size_;
};

/// The first byte of each image.
Bytes first_bytes(const ImageDataset& images) {
  Bytes all;
  for (int64_t i = 0; i < images.samples(); ++i) {
    Bytes pixels(static_cast<size_t>(images.image_shape().elements()));
    images.pixels(i, pixels);
    all.push_back(pixels[0]);
  }
  return all;
}

std::vector<int32_t> labels(const ImageDataset& images) {
  std::vector<int32_t> all;
  for (int64_t i = 0; i < images.samples(); ++i) all.push_back(images.label(i));
  return all;
}

TEST_F(ImageFolderTest, ClassesComeInTurnAndAreNumberedByName) {
  const ImageDatasets datasets = read();
  EXPECT_EQ(datasets.train->image_shape(), Shape({1, 2, 2}));
  EXPECT_EQ(datasets.train->class_names(), Names({"cat", "dog", "owl"}));
  EXPECT_EQ(first_bytes(*datasets.train), Bytes({10, 20, 30, 11, 31, 12}));
  EXPECT_EQ(labels(*datasets.train), std::vector<int32_t>({0, 1, 2, 0, 2, 0}));
  EXPECT_EQ(datasets.test->classes(), 3) << "also where no dog is tested";
  EXPECT_EQ(first_bytes(*datasets.test), Bytes({18, 39, 19}));
  EXPECT_EQ(labels(*datasets.test), std::vector<int32_t>({0, 2, 0}));
}

TEST_F(ImageFolderTest, FilesBehindALimitAreNotRead) {
  write("train/cat/99.png", "no image");
  const ImageDatasets datasets = read({.limit = 6, .test_limit = 1});
  EXPECT_EQ(datasets.train->samples(), 6);
  EXPECT_EQ(first_bytes(*datasets.test), Bytes({18}));
  expect_refused(ExitCode::bad_data, {"train/cat/99.png", "expected a PNG or JPEG image"});
}

TEST_F(ImageFolderTest, GrayIsRepeatedAmongColors) {
  write_color("train/dog/21.png", {1, 2, 3});
  const ImageDatasets datasets = read({}, 3);
  EXPECT_EQ(datasets.train->image_shape(), Shape({3, 2, 2}));
  Bytes gray(12), color(12);
  datasets.train->pixels(0, gray);
  datasets.train->pixels(4, color);
  EXPECT_EQ(gray, Bytes(12, 10));
  EXPECT_EQ(color, Bytes({1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3}));
  expect_refused(ExitCode::bad_data, {"train/dog/21.png", "[1, 2, 2]", "got [3, 2, 2]", "convert it to gray"});
}

TEST_F(ImageFolderTest, PicturesOfAnySizeAreScaledToOne) {
  size_ = 4;
  write("train/dog/21.JPG", testing::jpeg_file(9, 6, Bytes(9 * 6 * 3, 77)));
  write("train/dog/22.png", png_file(4, 4, Bytes(16, 78)));
  const ImageDatasets datasets = read({}, 3);
  EXPECT_EQ(datasets.train->image_shape(), Shape({3, 4, 4}));
  EXPECT_EQ(first_bytes(*datasets.train), Bytes({10, 20, 30, 11, 77, 31, 12, 78}));
  EXPECT_EQ(first_bytes(*datasets.test), Bytes({18, 39, 19}));
}

TEST_F(ImageFolderTest, OtherFilesAndHiddenFoldersArePassedOver) {
  write("train/labels.csv", "cat,dog");
  write("train/.thumbnails/1.png", "none");
  write("train/cat/notes.txt", "none");
  write("train/cat/._10.png", "what a Mac leaves");
  EXPECT_EQ(read().train->samples(), 6);
}

TEST_F(ImageFolderTest, TheFirstFileThatIsRefusedIsNamed) {
  for (int i = 40; i < 140; ++i) write_gray("train/cat", static_cast<uint8_t>(i));
  write("train/cat/41.png", "no image");
  write("train/cat/77.png", "no image");
  for (int attempt = 0; attempt < 20; ++attempt) expect_refused(ExitCode::bad_data, {"train/cat/41.png"});
}

TEST_F(ImageFolderTest, WhatIsNotLaidOutSoIsRefused) {
  expect_refusal(ExitCode::missing_file, {"val: expected a folder for each class", "no such folder", "test_folder"},
                 [&] { read_image_folder({.dir = folder_.path(), .test_folder = "val"}, {}); });
  expect_refusal(ExitCode::missing_file, {"nowhere/train", "train/cat/1.png"},
                 [&] { read_image_folder({.dir = folder_.path() / "nowhere"}, {}); });
  std::filesystem::create_directory(folder_.path() / "train" / "emu");
  expect_refused(ExitCode::missing_file, {"train/emu: expected PNG or JPEG files", "none"});
  write_gray("train/emu", 50);
  write_gray("test/fox", 60);
  expect_refused(ExitCode::bad_data, {"test/fox", "a class that also has training images", "got fox"});
  std::filesystem::remove_all(folder_.path() / "test" / "fox");
  write("train/emu/51.png", png_file(3, 2, Bytes(6, 51)));
  expect_refused(ExitCode::bad_data, {"train/emu/51.png", "[1, 2, 2]", "got [1, 3, 2]", "scale it to 2 x 2",
                                      "use an image_folder data set with size"});
  for (const std::string other : {"train/emu/52.WebP", "train/emu/52.pgm", "train/emu/52.jp2"}) {
    write(other, "a photograph");
    expect_refused(ExitCode::bad_data, {other, "PNG or JPEG files", "convert"});
    std::filesystem::remove(folder_.path() / other);
  }
  write("train/emu/5.jfif", "");
  expect_refused(ExitCode::bad_data, {"train/emu/5.jfif: expected a PNG or JPEG image, got an empty file"});
  std::filesystem::remove(folder_.path() / "train/emu/5.jfif");
  std::filesystem::create_symlink("/no/such/disk/53.png", folder_.path() / "train/emu/53.png");
  expect_refused(ExitCode::bad_data, {"train/emu/53.png", "a link to a missing file"});
  std::filesystem::remove_all(folder_.path() / "train/emu");
  write_gray("train/cat/more", 13);
  expect_refused(ExitCode::bad_data, {"train/cat/more", "directly in its folder", "a subfolder"});
  std::filesystem::remove_all(folder_.path() / "train/cat/more");
  write_gray("train", 14);
  expect_refused(ExitCode::bad_data, {"train/14.png", "in the folder of its class"});
  std::filesystem::remove(folder_.path() / "train/14.png");
  for (const std::string control : {"\n", "\x7f", "\xc2\x9b"}) {
    write_gray("train/a" + control + "b", 16);
    expect_refused(ExitCode::bad_data, {"can be printed", "a control character"});
    std::filesystem::remove_all(folder_.path() / ("train/a" + control + "b"));
  }
  write_gray("train/caf\xe9", 15);
  expect_refused(ExitCode::bad_data, {"UTF-8"});
}

TEST_F(ImageFolderTest, TheDigestIsOfContentAndClasses) {
  const std::string before = read().train->content_digest();
  EXPECT_EQ(read().train->content_digest(), before);
  std::filesystem::rename(folder_.path() / "train/cat/10.png", folder_.path() / "train/owl/10.png");
  EXPECT_NE(read().train->content_digest(), before);
}

}  // namespace
}  // namespace dptrain
