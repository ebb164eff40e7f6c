#include "data/image_files.h"

#include <gtest/gtest.h>

#include "data/refusal.h"
#include "support/idx_files.h"
#include "support/jpeg_files.h"
#include "support/png_files.h"

namespace dptrain {
namespace {

using testing::expect_refusal;
using testing::idx_images;
using testing::png_file;
using Bytes = std::vector<uint8_t>;

class ImageFilesTest : public ::testing::Test {
 protected:
  static Bytes read(const ImageFiles& images, int64_t index, const Shape& shape) {
    Bytes pixels(static_cast<size_t>(shape.elements()));
    images.read(index, {.shape = shape}, pixels);
    return pixels;
  }
  std::filesystem::path path(const std::string& name) const { return folder_.path() / name; }

  testing::ScratchFolder folder_;
};

TEST_F(ImageFilesTest, AnIdxFileHasAllItsImages) {
  const std::string bytes = idx_images(3, 2, 2);
  for (const auto& file : {folder_.write("plain", bytes), folder_.write("packed", testing::gzip(bytes))}) {
    const ImageFiles images(file);
    ASSERT_EQ(images.count(), 3);
    EXPECT_EQ(images.file_of(2), file);
    EXPECT_EQ(read(images, 2, {1, 2, 2}), Bytes(bytes.end() - 4, bytes.end()));
  }
}

TEST_F(ImageFilesTest, APngFileIsToldByItsBytesOrItsName) {
  const std::string bytes = png_file(1, 2, {5, 6});
  for (const char* name : {"a", "a.png", "a.PNG"}) {
    const ImageFiles images(folder_.write(name, bytes));
    ASSERT_EQ(images.count(), 1) << name;
    EXPECT_EQ(read(images, 0, {1, 1, 2}), Bytes({5, 6}));
  }
  const ImageFiles other(folder_.write("b.png", "none"));
  expect_refusal(ExitCode::bad_data, {"b.png: expected a PNG or JPEG image"}, [&] { read(other, 0, {1, 1, 2}); });
}

TEST_F(ImageFilesTest, JpegFilesAreToldByTheirNameOrBytes) {
  const std::string bytes = testing::jpeg_file(8, 8, Bytes(192, 90));
  for (const char* name : {"a", "a.jpg", "a.JPEG"}) {
    const ImageFiles images(folder_.write(name, bytes));
    ASSERT_EQ(images.count(), 1) << name;
    EXPECT_EQ(read(images, 0, {3, 8, 8}), Bytes(192, 90));
  }
}

TEST_F(ImageFilesTest, AFoldersFoldersAreLookedIntoOnce) {
  namespace fs = std::filesystem;
  for (const char* name : {"all/b.png", "all/rose/2.png", "all/rose/1.png", "all/a/deep/x.png", "all/.hidden/y.png"}) {
    fs::create_directories(path(name).parent_path());
    folder_.write(name, png_file(1, 1, {7}));
  }
  fs::create_directory_symlink(path("all"), path("all/rose/back"));
  fs::create_directories(path("elsewhere"));
  folder_.write("elsewhere/z.png", png_file(1, 1, {7}));
  fs::create_directory_symlink(path("elsewhere"), path("all/link"));
  const ImageFiles images(path("all"));
  std::vector<std::string> names;
  for (int64_t i = 0; i < images.count(); ++i)
    names.push_back(images.file_of(i).lexically_relative(path("all")).string());
  EXPECT_EQ(names, (std::vector<std::string>{"a/deep/x.png", "b.png", "link/z.png", "rose/1.png", "rose/2.png"}));
  fs::create_directories(path("empty/within"));
  expect_refusal(ExitCode::missing_file, {"empty", "expected PNG or JPEG files in this folder, got none"},
                 [&] { ImageFiles(path("empty")); });
  folder_.write("empty/within/a.bmp", "");
  expect_refusal(ExitCode::bad_data, {"within/a.bmp"}, [&] { ImageFiles(path("empty")); });
}

TEST_F(ImageFilesTest, AFoldersPicturesAreInTheOrderOfTheirNames) {
  for (const auto& [name, value] : {std::pair{"b.png", 2}, std::pair{"a.PNG", 1}, std::pair{"c.png", 3}})
    folder_.write(name, png_file(1, 1, {static_cast<uint8_t>(value)}));
  folder_.write("README.md", "no image");
  std::filesystem::create_directory(path("d.png"));
  const ImageFiles images(folder_.path());
  ASSERT_EQ(images.count(), 3);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(read(images, i, {1, 1, 1}), Bytes({static_cast<uint8_t>(i + 1)}));
  EXPECT_EQ(images.file_of(0), path("a.PNG"));
}

TEST_F(ImageFilesTest, WhatHoldsNoImagesIsRefused) {
  expect_refusal(ExitCode::missing_file, {"/no/such", "no such file or folder"}, [] { ImageFiles("/no/such"); });
  expect_refusal(ExitCode::missing_file, {folder_.path(), "expected PNG or JPEG files", "none"},
                 [&] { ImageFiles(folder_.path()); });
  expect_refusal(ExitCode::bad_data, {"labels: magic number", "IDX images"},
                 [&] { ImageFiles(folder_.write("labels", testing::idx_labels(3))); });
  expect_refusal(ExitCode::bad_data, {"a.gif: expected a PNG or JPEG file, or an IDX file", "got neither", "convert"},
                 [&] { ImageFiles(folder_.write("a.gif", "GIF89a")); });
  expect_refusal(ExitCode::bad_data, {"short: magic number", "the end of the file after 1"},
                 [&] { ImageFiles(folder_.write("short", "x")); });
  expect_refusal(ExitCode::bad_data, {"/dev/null", "regular file or a folder"}, [] { ImageFiles("/dev/null"); });
}

TEST_F(ImageFilesTest, GrayIsRepeatedForThreeChannels) {
  EXPECT_EQ(read(ImageFiles(folder_.write("a.png", png_file(1, 2, {5, 6}))), 0, {3, 1, 2}), Bytes({5, 6, 5, 6, 5, 6}));
  EXPECT_EQ(read(ImageFiles(folder_.write("a", idx_images(1, 1, 2))), 0, {3, 1, 2}), Bytes({0, 7, 0, 7, 0, 7}));
}

TEST_F(ImageFilesTest, AnotherShapeIsRefused) {
  const ImageFiles color(folder_.write("a.png", png_file(1, 2, Bytes(6), {.color = PNG_COLOR_TYPE_RGB})));
  expect_refusal(ExitCode::bad_data, {"a.png: expected an image of [1, 1, 2], got [3, 1, 2]", "convert it to gray"},
                 [&] {
                   read(color, 0, {1, 1, 2});
                 });
  expect_refusal(ExitCode::bad_data, {"a.png: expected an image of [3, 4, 5], got [3, 1, 2]", "scale it to 5 x 4"},
                 [&] {
                   read(color, 0, {3, 4, 5});
                 });
  const ImageFiles gray(folder_.write("a", idx_images(1, 2, 2)));
  expect_refusal(ExitCode::bad_data, {"a: expected an image of [1, 2, 3], got [1, 2, 2]", "3 x 2 pixels"}, [&] {
    read(gray, 0, {1, 2, 3});
  });
  expect_refusal(ExitCode::bad_data, {"expected an image of [2, 2, 2]", "the 2 channels of the data set"}, [&] {
    read(gray, 0, {2, 2, 2});
  });
}

}  // namespace
}  // namespace dptrain
