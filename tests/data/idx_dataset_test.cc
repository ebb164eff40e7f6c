#include "data/idx_dataset.h"

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
using testing::write_idx_dataset;

class IdxDataset : public ::testing::Test {
 protected:
  IdxDataset() { write_idx_dataset(folder_, 25, 5); }

  void expect_bad(const std::vector<std::string>& words) {
    expect_refusal(ExitCode::bad_data, words, [&] { read_idx_dataset(folder_.path(), {}); });
  }

  ScratchFolder folder_;
};

TEST_F(IdxDataset, BothPartsAreRead) {
  const ImageDatasets datasets = read_idx_dataset(folder_.path(), {});
  EXPECT_EQ(datasets.train->samples(), 25);
  EXPECT_EQ(datasets.test->samples(), 5);
  EXPECT_EQ(datasets.train->image_shape(), Shape({1, 4, 4}));
  EXPECT_EQ(datasets.train->classes(), 10);
  EXPECT_EQ(datasets.train->label(13), 3);
  std::vector<float> image(16);
  datasets.train->image(2, image);
  EXPECT_EQ(image[1], (33 * 7 % 256) / 255.0f);
}

TEST_F(IdxDataset, GzipStandsInForAMissingPlainFile) {
  std::filesystem::remove(folder_.path() / "train-images-idx3-ubyte");
  folder_.write("train-images-idx3-ubyte.gz", gzip(idx_images(25, 4, 4)));
  EXPECT_EQ(read_idx_dataset(folder_.path(), {}).train->samples(), 25);
}

TEST_F(IdxDataset, LimitsTakeTheFirstSamples) {
  const ImageDatasets all = read_idx_dataset(folder_.path(), {});
  const ImageDatasets few = read_idx_dataset(folder_.path(), {.limit = 7, .test_limit = 100});
  ASSERT_EQ(few.train->samples(), 7);
  EXPECT_EQ(few.test->samples(), 5);
  std::vector<float> expected(16), image(16);
  all.train->image(6, expected);
  few.train->image(6, image);
  EXPECT_EQ(image, expected);
  EXPECT_EQ(few.train->label(6), 6);
}

TEST_F(IdxDataset, EachMissingFileIs66) {
  for (const std::string name :
       {"train-images-idx3-ubyte", "train-labels-idx1-ubyte", "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"}) {
    const ScratchFolder folder;
    write_idx_dataset(folder, 5, 5);
    std::filesystem::remove(folder.path() / name);
    expect_refusal(ExitCode::missing_file, {folder.path().string(), name + " or " + name + ".gz", "dir:"},
                   [&] { read_idx_dataset(folder.path(), {}); });
  }
}

TEST_F(IdxDataset, CountsThatDifferAreRefused) {
  folder_.write("train-labels-idx1-ubyte", idx_labels(24));
  expect_bad({"train-labels-idx1-ubyte: number of labels", "expected 25", "train-images-idx3-ubyte", "got 24"});
}

TEST_F(IdxDataset, LabelOutOfRangeIsRefused) {
  std::string labels = idx_labels(5);
  labels[8 + 3] = 10;
  folder_.write("t10k-labels-idx1-ubyte", labels);
  expect_bad({"t10k-labels-idx1-ubyte: label 3", "expected 0 to 9, got 10"});
}

TEST_F(IdxDataset, HasAsManyClassesAsItIsSaidTo) {
  std::string labels = idx_labels(5);
  labels[8 + 3] = 46;
  folder_.write("t10k-labels-idx1-ubyte", labels);
  const ImageDatasets datasets = read_idx_dataset(folder_.path(), {}, 47);
  EXPECT_EQ(datasets.train->classes(), 47);
  EXPECT_EQ(datasets.test->classes(), 47);
  EXPECT_EQ(datasets.test->label(3), 46);
  expect_refusal(ExitCode::bad_data, {"label 3", "expected 0 to 45, got 46", "classes to more than its largest label"},
                 [&] { read_idx_dataset(folder_.path(), {}, 46); });
}

TEST_F(IdxDataset, TestImagesOfAnotherSizeAreRefused) {
  folder_.write("t10k-images-idx3-ubyte", idx_images(5, 4, 5));
  expect_bad({"t10k-images-idx3-ubyte", "[1, 4, 4]", "got [1, 4, 5]"});
}

TEST_F(IdxDataset, FilesAreFoundByAnyOfTheirNames) {
  EXPECT_TRUE(has_idx_files(folder_.path()));
  const ScratchFolder empty;
  EXPECT_FALSE(has_idx_files(empty.path()));
  EXPECT_FALSE(has_idx_files(empty.path() / "none"));
  empty.write("t10k-labels-idx1-ubyte.gz", "");
  EXPECT_TRUE(has_idx_files(empty.path()));
}

}  // namespace
}  // namespace dptrain
