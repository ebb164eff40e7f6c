// Images in files equal images that are read into memory, and only requested images are read.
#include "data/stored_images.h"

#include <gtest/gtest.h>

#include "data/dataset_digest.h"
#include "data/idx_dataset.h"
#include "data/refusal.h"
#include "data/settled.h"
#include "support/idx_files.h"

namespace dptrain {
namespace {

using testing::expect_refusal;
using testing::gzip;
using testing::idx_images;
using testing::idx_labels;
using testing::ScratchFolder;

constexpr int64_t kImages = 2000, kImageBytes = 28 * 28, kLabelBytes = kImages * 4;
const char* const kTrain = "train-images-idx3-ubyte";

class StoredImagesTest : public ::testing::Test {
 protected:
  StoredImagesTest() { testing::write_idx_dataset(folder_, kImages, 5, 28); }

  std::shared_ptr<const ImageDataset> open(std::optional<int64_t> limit = {}) const {
    return read_idx_dataset(folder_.path(), {.limit = limit, .normalization = {.mean = {0.5f}}}).train;
  }
  /// The same images from gzip files, which are unpacked into memory.
  std::shared_ptr<const ImageDataset> unpacked(std::optional<int64_t> limit = {}) const {
    const ScratchFolder packed;
    testing::write_idx_dataset(packed, kImages, 5, 28);
    std::filesystem::remove(packed.path() / kTrain);
    packed.write(std::string(kTrain) + ".gz", gzip(idx_images(kImages, 28, 28)));
    return read_idx_dataset(packed.path(), {.limit = limit, .normalization = {.mean = {0.5f}}}).train;
  }
  static std::vector<uint8_t> pixels(const ImageDataset& images, int64_t begin, int64_t end) {
    std::vector<uint8_t> bytes(static_cast<size_t>((end - begin) * kImageBytes));
    images.pixels(begin, bytes);
    return bytes;
  }

  ScratchFolder folder_;
};

TEST_F(StoredImagesTest, AreThoseThatAreUnpackedIntoMemory) {
  const auto stored = open(), memory = unpacked();
  ASSERT_EQ(stored->samples(), kImages);
  EXPECT_EQ(pixels(*stored, 0, kImages), pixels(*memory, 0, kImages));
  std::vector<float> one(kImageBytes), other(kImageBytes);
  for (const int64_t index : {0, 1, 777, 1999}) {
    stored->image(index, one);
    memory->image(index, other);
    EXPECT_EQ(one, other) << index;
    EXPECT_EQ(stored->label(index), memory->label(index)) << index;
  }
  EXPECT_EQ(digest_of(*stored), digest_of(*memory));
  EXPECT_EQ(digest_of(*open(20)), digest_of(*unpacked(20)));
  EXPECT_NE(digest_of(*open(20)), digest_of(*stored));
}

TEST_F(StoredImagesTest, AreReadWhereTheyAreAskedFor) {
  const auto images = open();
  EXPECT_EQ(images->read_bytes(), kImages) << "labels";
  EXPECT_EQ(images->held_bytes(), kLabelBytes);
  images->read_ahead(500, 1000);
  const int64_t part = images->read_bytes() - kImages;
  EXPECT_GE(part, 500 * kImageBytes);
  EXPECT_LE(part, 500 * kImageBytes + 2 * StoredFile::kBlockBytes) << "its own blocks alone";
  pixels(*images, 600, 900);
  EXPECT_EQ(images->read_bytes() - kImages, part) << "what was read before";
  EXPECT_EQ(images->held_bytes(), kLabelBytes) << "images stay in the file";
}

TEST_F(StoredImagesTest, AreNotReadForADigestThatWasKept) {
  testing::wait_until_settled(folder_.path() / kTrain);
  const auto first = open();
  const std::string digest = digest_of(*first);
  EXPECT_GE(first->read_bytes(), kImages * kImageBytes);
  const auto second = open();
  EXPECT_EQ(digest_of(*second), digest);
  EXPECT_EQ(second->read_bytes(), kImages) << "labels";
  // Other content of the same size.
  std::string other = idx_images(kImages, 28, 28);
  other.back() = static_cast<char>(other.back() ^ 1);
  folder_.write(kTrain, other);
  EXPECT_NE(digest_of(*open()), digest);
  folder_.write(kTrain, idx_images(kImages, 28, 28));
  EXPECT_EQ(digest_of(*open()), digest);
}

TEST_F(StoredImagesTest, OfAFileThatChangesWhileItIsInUseAreRefused) {
  testing::wait_until_settled(folder_.path() / kTrain);
  const auto images = open(), replaced = open();
  // Renaming a file over an open one doesn't change the open one's content.
  folder_.write("new", idx_images(7, 28, 28));
  std::filesystem::rename(folder_.path() / kTrain, folder_.path() / "old");
  std::filesystem::rename(folder_.path() / "new", folder_.path() / kTrain);
  EXPECT_EQ(pixels(*replaced, 1990, 2000).size(), 10u * kImageBytes);
  for (const uint32_t count : {2000u, 100u}) {
    folder_.write("old", idx_images(count, 28, 28));
    expect_refusal(ExitCode::bad_data, {kTrain, "expected the file to stay unchanged", "start again"},
                   [&] { pixels(*images, 1990, 2000); });
  }
}

}  // namespace
}  // namespace dptrain
