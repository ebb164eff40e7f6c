#include "data/cifar10.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "config/config_document.h"
#include "data/dataset_folders.h"
#include "data/images_of.h"
#include "data/refusal.h"
#include "data/settled.h"
#include "data/stored_file.h"
#include "support/idx_files.h"

namespace dptrain {
namespace {

using testing::expect_refusal;
using testing::gzip;
using testing::images_of;
using testing::ScratchFolder;

/// A record: its planes are red, green and blue everywhere, except that their first pixels are 1, 2 and 3.
std::string record(int label, uint8_t red, uint8_t green, uint8_t blue) {
  std::string bytes(1, static_cast<char>(label));
  for (const uint8_t value : {red, green, blue}) bytes += std::string(1024, static_cast<char>(value));
  for (size_t plane = 0; plane < 3; ++plane) bytes[1 + 1024 * plane] = static_cast<char>(plane + 1);
  return bytes;
}

/// `count` records with labels first, first + 1, ...; the label is also the red value.
std::string records(int first, int count) {
  std::string bytes;
  for (int label = first; label < first + count; ++label) bytes += record(label, static_cast<uint8_t>(label), 100, 200);
  return bytes;
}

/// Two records in each data batch, with labels 0 1, 1 2, ... 4 5, and three in the test batch, 7 to 9.
class Cifar10 : public ::testing::Test {
 protected:
  Cifar10() {
    for (int i = 0; i < 5; ++i) folder_.write(batch(i + 1), records(i, 2));
    folder_.write("test_batch.bin", records(7, 3));
  }

  static std::string batch(int number) { return "data_batch_" + std::to_string(number) + ".bin"; }

  void expect_bad(const std::vector<std::string>& words) {
    expect_refusal(ExitCode::bad_data, words, [&] { read_cifar10_files(folder_.path(), {}); });
  }

  ScratchFolder folder_;
};

std::vector<int32_t> labels(const ImageDataset& dataset) {
  std::vector<int32_t> all;
  for (int64_t i = 0; i < dataset.samples(); ++i) all.push_back(dataset.label(i));
  return all;
}

std::vector<uint8_t> pixels(const ImageDataset& dataset) {
  std::vector<uint8_t> all(static_cast<size_t>(dataset.samples() * dataset.image_shape().elements()));
  dataset.pixels(0, all);
  return all;
}

TEST_F(Cifar10, BatchesFollowOneAnother) {
  const ImageDatasets datasets = read_cifar10_files(folder_.path(), {});
  EXPECT_EQ(labels(*datasets.train), (std::vector<int32_t>{0, 1, 1, 2, 2, 3, 3, 4, 4, 5}));
  EXPECT_EQ(labels(*datasets.test), (std::vector<int32_t>{7, 8, 9}));
  EXPECT_EQ(datasets.train->classes(), 10);
  EXPECT_EQ(datasets.train->image_shape(), Shape({3, 32, 32}));
}

TEST_F(Cifar10, PlanesAreRedGreenBlue) {
  const ImageDatasets datasets =
      read_cifar10_files(folder_.path(), {.normalization = {.mean = {0.0f, 0.5f, 0.0f}, .std = {1.0f}}});
  std::vector<float> image(3 * 32 * 32);
  datasets.test->image(2, image);
  EXPECT_EQ(image[0], 1 / 255.0f);
  EXPECT_EQ(image[1023], 9 / 255.0f);
  EXPECT_EQ(image[1024], 2 / 255.0f - 0.5f);
  EXPECT_EQ(image[2047], 100 / 255.0f - 0.5f);
  EXPECT_EQ(image[2048], 3 / 255.0f);
  EXPECT_EQ(image[3071], 200 / 255.0f);
}

TEST_F(Cifar10, GzipStandsInForAMissingPlainFile) {
  const ImageDatasets plain = read_cifar10_files(folder_.path(), {});
  std::filesystem::remove(folder_.path() / batch(2));
  folder_.write(batch(2) + ".gz", gzip(records(1, 2)));
  const ImageDatasets mixed = read_cifar10_files(folder_.path(), {});
  EXPECT_EQ(pixels(*mixed.train), pixels(*plain.train));
  EXPECT_EQ(mixed.train->content_digest(), plain.train->content_digest());
  EXPECT_EQ(labels(*mixed.train), labels(*plain.train));
}

TEST_F(Cifar10, LimitsTakeTheFirstSamples) {
  const ImageDatasets few = read_cifar10_files(folder_.path(), {.limit = 3, .test_limit = 2});
  EXPECT_EQ(labels(*few.train), (std::vector<int32_t>{0, 1, 1}));
  EXPECT_EQ(labels(*few.test), (std::vector<int32_t>{7, 8}));
  // Records that are left out are checked all the same.
  folder_.write(batch(5), record(10, 0, 0, 0));
  expect_refusal(ExitCode::bad_data, {batch(5)}, [&] { read_cifar10_files(folder_.path(), {.limit = 3}); });
}

TEST_F(Cifar10, AKeptDigestSparesReadingAFileToCheckIt) {
  for (int i = 1; i <= 5; ++i) folder_.write(batch(i), records(i - 1, 2) + records(0, 2));
  const std::filesystem::path last = folder_.path() / batch(5);
  testing::wait_until_settled(last);
  const std::string digest = read_cifar10_files(folder_.path(), {}).train->content_digest();
  const ImageDatasets again = read_cifar10_files(folder_.path(), {});
  EXPECT_EQ(again.train->content_digest(), digest);
  EXPECT_EQ(again.train->read_bytes(), 0);
  EXPECT_EQ(again.train->held_bytes(), 0);
  EXPECT_EQ(again.train->label(17), 5);
  EXPECT_EQ(again.train->read_bytes(), StoredFile::kBlockBytes);
  // Other samples have another digest, and all later records are checked.
  EXPECT_NE(read_cifar10_files(folder_.path(), {.limit = 17}).train->content_digest(), digest);
  folder_.write(batch(5), records(8, 3) + records(0, 1));
  expect_bad({batch(5) + ": record 2: expected a label from 0 to 9, got 10"});
}

TEST_F(Cifar10, EachMissingFileIs66) {
  for (const std::string& name : {batch(1), batch(2), batch(3), batch(4), batch(5), std::string("test_batch.bin")}) {
    const std::filesystem::path path = folder_.path() / name;
    std::filesystem::rename(path, path.string() + ".away");
    expect_refusal(ExitCode::missing_file,
                   {folder_.path().string(), "expected " + name + " or " + name + ".gz", "dir:"},
                   [&] { read_cifar10_files(folder_.path(), {}); });
    std::filesystem::rename(path.string() + ".away", path);
  }
}

TEST_F(Cifar10, LabelOutOfRangeIsRefused) {
  folder_.write(batch(3), records(8, 3));
  expect_bad({batch(3) + ": record 2: expected a label from 0 to 9, got 10"});
}

TEST_F(Cifar10, AFileThatIsCutAtARecordsEndShowsBesideTheOthers) {
  for (const std::string& bytes : {records(3, 1), gzip(records(3, 1))}) {
    folder_.write(batch(4), bytes);
    expect_bad({batch(4) + ": expected 2 records, as data_batch_1.bin has, got 1", "get the file again"});
  }
}

TEST_F(Cifar10, TruncationSaysWhere) {
  const std::string whole = records(0, 3);
  for (const std::string& bytes : {whole.substr(0, 2 * 3073 + 12), gzip(whole.substr(0, 2 * 3073 + 12))}) {
    folder_.write(batch(4), bytes);
    expect_bad({batch(4) + ": record 2: expected 3073 bytes, got the end of the file after 12", "get the file again"});
  }
  const std::string packed = gzip(whole);
  folder_.write(batch(4), packed.substr(0, packed.size() - 1));
  expect_bad({batch(4), "expected the end of its gzip stream"});
}

TEST_F(Cifar10, EmptyFilesAreRefused) {
  for (const std::string& bytes : {std::string(), gzip("")}) {
    folder_.write("test_batch.bin", bytes);
    expect_bad({"test_batch.bin: expected records of 3073 bytes, got none"});
  }
}

TEST_F(Cifar10, GzipFileThatUnpacksToTooMuchIsRefused) {
  folder_.write("test_batch.bin", gzip(std::string(size_t{100001} * 3073, '\0')));
  expect_refusal(ExitCode::bad_data,
                 {"test_batch.bin: expected at most 100000 records in a gzip file, got more; decompress the file"},
                 [&] { read_cifar10_files(folder_.path(), {.test_limit = 1}); });
}

TEST_F(Cifar10, FilesAreFoundByAnyOfTheirNames) {
  EXPECT_TRUE(has_cifar10_files(folder_.path()));
  const ScratchFolder other;
  other.write("data_batch_1", "");
  EXPECT_FALSE(has_cifar10_files(other.path()));
  other.write("data_batch_5.bin.gz", "");
  EXPECT_TRUE(has_cifar10_files(other.path()));
}

TEST_F(Cifar10, ConfigurationReadsItsOptions) {
  DatasetSpec spec;
  const ConfigNode root =
      parse_config("dataset: {name: cifar10, dir: " + folder_.path().string() +
                       ", limit: 4, test_limit: 1, shuffle: false, normalize: {mean: [0.25, 0, 0]}}",
                   "a.yaml");
  ConfigSession(root, [&](ConfigReader& config) { spec = read_dataset(config, {}); });
  EXPECT_EQ(spec.name, "cifar10");
  EXPECT_FALSE(spec.order.shuffle);
  const ImageDatasets datasets = images_of(spec.open());
  EXPECT_EQ(datasets.train->samples(), 4);
  EXPECT_EQ(datasets.test->samples(), 1);
  std::vector<float> image(3 * 32 * 32);
  datasets.train->image(0, image);
  EXPECT_EQ(image[5], -0.25f);
}

TEST_F(Cifar10, WithoutItsFilesItSaysHowToGetThem) {
  if (has_cifar10_files(in_dataset_roots("cifar-10-batches-bin")[0]) ||
      has_cifar10_files(in_dataset_roots("cifar10")[0]))
    GTEST_SKIP() << "CIFAR-10 is among the project's data sets here";
  DatasetSpec spec;
  const ConfigNode root = parse_config("dataset: cifar10", "a.yaml");
  ConfigSession(root, [&](ConfigReader& config) { spec = read_dataset(config, {}); });
  expect_refusal(ExitCode::missing_file,
                 {"a.yaml:1", "dataset: cifar10", "datasets/cifar-10-batches-bin", "datasets/cifar10",
                  "get cifar-10-binary.tar.gz from https://www.cs.toronto.edu/~kriz/cifar.html"},
                 [&] { spec.open(); });
}

}  // namespace
}  // namespace dptrain
