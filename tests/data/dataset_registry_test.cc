#include "data/dataset_registry.h"

#include <gtest/gtest.h>

#include "config/config_document.h"
#include "data/idx_dataset.h"
#include "data/images_of.h"
#include "data/refusal.h"
#include "support/idx_files.h"

namespace dptrain {
namespace {

using testing::expect_refusal;
using testing::images_of;
using testing::ScratchFolder;
using testing::write_idx_dataset;

struct Read {
  DatasetSpec spec;
  std::string resolved;
};

Read read(const std::string& text, uint64_t seed = 0) {
  Read result;
  const ConfigNode root = parse_config(text, "a.yaml");
  const ConfigSession session(root, [&](ConfigReader& config) { result.spec = read_dataset(config, {.seed = seed}); });
  result.resolved = session.resolved_yaml();
  return result;
}

void expect_mistake(const std::string& text, const std::vector<std::string>& words) {
  expect_refusal(ExitCode::config, words, [&] { read(text); });
}

std::vector<float> first_image(const ImageDataset& dataset) {
  std::vector<float> image(static_cast<size_t>(dataset.image_shape().elements()));
  dataset.image(0, image);
  return image;
}

TEST(DatasetRegistry, MnistIsInTheSourceTree) {
  const Read mnist = read("dataset: mnist");
  EXPECT_EQ(mnist.spec.name, "mnist");
  EXPECT_TRUE(mnist.spec.order.shuffle);
  const ImageDatasets datasets = images_of(mnist.spec.open());
  EXPECT_EQ(datasets.train->samples(), 8000);
  EXPECT_EQ(datasets.test->samples(), 2000);
}

TEST(DatasetRegistry, OptionsOfMnist) {
  const ScratchFolder folder;
  write_idx_dataset(folder, 20, 10);
  const Read mnist = read("dataset: {name: mnist, dir: " + folder.path().string() +
                          ", limit: 7, test_limit: 3, shuffle: false, normalize: {mean: 0.5, std: 0.5}}");
  EXPECT_FALSE(mnist.spec.order.shuffle);
  const ImageDatasets datasets = images_of(mnist.spec.open());
  EXPECT_EQ(datasets.train->samples(), 7);
  EXPECT_EQ(datasets.test->samples(), 3);
  EXPECT_EQ(first_image(*datasets.train)[0], -1.0f);
}

TEST(DatasetRegistry, NothingIsOpenedWhileReading) {
  const Read mnist = read("dataset: {name: mnist, dir: /no/such/folder}");
  expect_refusal(ExitCode::missing_file, {"/no/such/folder", "train-images-idx3-ubyte.gz"}, [&] { mnist.spec.open(); });
}

TEST(DatasetRegistry, AMissingFileIsReportedWhereItsFolderWasWritten) {
  ConfigNode root = parse_config("dataset: {name: mnist,\n          dir: /no/such/folder}\n", "a.yaml");
  const auto refused_at = [&](const std::string& place) {
    DatasetSpec spec;
    const ConfigSession session(root, [&](ConfigReader& config) { spec = read_dataset(config, {}); });
    expect_refusal(ExitCode::missing_file, {place}, [&] { spec.open(); });
  };
  refused_at("a.yaml:2:11: dataset.dir: /no/such/folder: ");
  override_config(root, "dataset.dir=/nor/this");
  refused_at("--set: dataset.dir: /nor/this: ");
}

TEST(DatasetRegistry, ANamedFolderIsTheOnlyOne) {
  const ScratchFolder empty;
  const Read fashion = read("dataset: {name: fashion_mnist, dir: " + empty.path().string() + "}");
  expect_refusal(ExitCode::missing_file, {empty.path().string()}, [&] { fashion.spec.open(); });
}

TEST(DatasetRegistry, FashionMnistIsFoundOrSaysHowToGetIt) {
  const Read fashion = read("dataset: {name: fashion_mnist, limit: 100}");
  if (has_idx_files("/usr/share/datasets/fashion-mnist")) {
    const ImageDatasets datasets = images_of(fashion.spec.open());
    EXPECT_EQ(datasets.train->samples(), 100);
    EXPECT_EQ(datasets.test->samples(), 10000);
  } else {
    expect_refusal(ExitCode::missing_file, {"sudo apt-get install dataset-fashion-mnist"},
                   [&] { fashion.spec.open(); });
  }
}

TEST(DatasetRegistry, SyntheticHasItsDefaults) {
  const Read synthetic = read("dataset: synthetic");
  const ImageDatasets datasets = images_of(synthetic.spec.open());
  EXPECT_EQ(datasets.train->samples(), 1000);
  EXPECT_EQ(datasets.test->samples(), 200);
  EXPECT_EQ(datasets.train->classes(), 10);
  EXPECT_EQ(datasets.train->image_shape(), Shape({1, 28, 28}));
  EXPECT_NE(first_image(*datasets.train), first_image(*datasets.test));
}

TEST(DatasetRegistry, OptionsOfSynthetic) {
  const ImageDatasets datasets = images_of(
      read("dataset: {name: synthetic, samples: 30, test_samples: 8, classes: 4, shape: [3, 8, 9], limit: 20}")
          .spec.open());
  EXPECT_EQ(datasets.train->samples(), 20);
  EXPECT_EQ(datasets.test->samples(), 8);
  EXPECT_EQ(datasets.test->classes(), 4);
  EXPECT_EQ(datasets.test->image_shape(), Shape({3, 8, 9}));
}

TEST(DatasetRegistry, SyntheticIsKeyedByTheSeed) {
  const auto image = [](uint64_t seed) {
    return first_image(*images_of(read("dataset: synthetic", seed).spec.open()).train);
  };
  EXPECT_EQ(image(3), image(3));
  EXPECT_NE(image(3), image(4));
}

TEST(DatasetRegistry, MistakesAre78) {
  expect_mistake("dataset: minst", {"a.yaml:1", "dataset", "minst", "mnist"});
  expect_mistake("seed: 1", {"dataset"});
  expect_mistake("dataset: {name: mnist, limits: 3}", {"limits", "limit"});
  expect_mistake("dataset: {name: mnist, limit: 0}", {"dataset.limit", "got 0"});
  expect_mistake("dataset: {name: synthetic, dir: x}", {"dir"});
  expect_mistake("dataset: image_folder", {"dataset.dir", "required", "dir: <a path>"});
  expect_mistake("dataset: {name: image_folder, dir: x, channels: 2}", {"dataset.channels", "1 or 3", "got 2"});
  expect_mistake("dataset: {name: synthetic, shape: [28, 28]}",
                 {"dataset.shape", "[channels, height, width]", "2 numbers"});
  expect_mistake("dataset: {name: synthetic, samples: 2000000000, shape: [3, 4000, 4000]}",
                 {"dataset.samples", "bytes of this machine", "fewer samples"});
}

TEST(DatasetRegistry, ResolvedConfigurationReadsTheSame) {
  for (const std::string text :
       {"dataset: mnist", "dataset: fashion_mnist", "dataset: cifar10", "dataset: {name: synthetic, samples: 50}",
        "dataset: {name: mnist, normalize: {mean: 0.5}}", "dataset: {name: image_folder, dir: photos, channels: 1}"}) {
    const Read first = read(text);
    const Read second = read(first.resolved);
    EXPECT_EQ(second.resolved, first.resolved);
    EXPECT_EQ(second.spec.name, first.spec.name);
  }
}

TEST(DatasetRegistry, SchemaKnowsEveryName) {
  const std::string schema = ConfigSession::schema("test", [](ConfigReader& config) { read_dataset(config, {}); });
  for (const char* word : {"mnist", "fashion_mnist", "cifar10", "image_folder", "synthetic", "test_limit", "normalize",
                           "test_samples", "test_folder"})
    EXPECT_NE(schema.find(word), std::string::npos) << word;
}

}  // namespace
}  // namespace dptrain
