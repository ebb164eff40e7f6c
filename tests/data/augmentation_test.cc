// What `augment:` means and what is refused. An image is augmented alike however it is loaded.
#include "data/augmentation.h"

#include <gtest/gtest.h>

#include <map>

#include "config/config_document.h"
#include "data/batch_loader.h"
#include "data/byte_images.h"
#include "data/refusal.h"
#include "data/synthetic.h"

namespace dptrain {
namespace {

using ops::AugmentationKind;
using testing::expect_refusal;

ops::Augmentations read_augmentation(const std::string& text, const DatasetSpec& dataset = {.name = "synthetic"}) {
  ops::Augmentations augmentations;
  const ConfigSession session(parse_config(text, "a.yaml"),
                              [&](ConfigReader& config) { augmentations = read_augmentations(config, dataset, 5); });
  return augmentations;
}

TEST(Augment, IsNothingByDefault) {
  for (const char* text : {"{}", "augment: []", "augment:"}) EXPECT_TRUE(read_augmentation(text).empty()) << text;
}

TEST(Augment, IsReadInItsOrderWithItsOptions) {
  const ops::Augmentations defaults = read_augmentation("augment: [cutout, random_crop, flip]");
  EXPECT_EQ(defaults.seed, 5u);
  ASSERT_EQ(defaults.count, 3u);
  EXPECT_EQ(defaults.list[0].kind, AugmentationKind::cutout);
  EXPECT_EQ(defaults.list[0].pixels, 0);
  EXPECT_EQ(defaults.list[1].kind, AugmentationKind::random_crop);
  EXPECT_EQ(defaults.list[1].pixels, 4);
  EXPECT_EQ(defaults.list[2].kind, AugmentationKind::flip);
  for (const char* text :
       {"augment: [random_crop: {padding: 2}, cutout: {size: 8}]", "augment: [random_crop: 2, cutout: 8]"}) {
    const ops::Augmentations given = read_augmentation(text);
    ASSERT_EQ(given.count, 2u);
    EXPECT_EQ(given.list[0].pixels, 2);
    EXPECT_EQ(given.list[1].pixels, 8);
  }
}

TEST(Augment, AResizedCropIsToldInFractions) {
  const ops::CropRange defaults = read_augmentation("augment: [random_resized_crop]").list[0].window;
  EXPECT_EQ(defaults.least_area, 5243u);  // 0.08 of 65536, 3/4, and twice log2(4/3)
  EXPECT_EQ(defaults.most_area, 65536u);
  EXPECT_EQ(defaults.least_ratio, 49152u);
  EXPECT_EQ(defaults.doublings, 54400u);
  const ops::CropRange given =
      read_augmentation("augment: [random_resized_crop: {scale: [0.25, 0.5], ratio: [1, 1]}]").list[0].window;
  EXPECT_EQ(given.least_area, 16384u);
  EXPECT_EQ(given.most_area, 32768u);
  EXPECT_EQ(given.least_ratio, 65536u);
  EXPECT_EQ(given.doublings, 0u);
}

TEST(Augment, MistakesAre78) {
  const auto refused = [](const std::string& text, const std::vector<std::string>& words) {
    SCOPED_TRACE(text);
    expect_refusal(ExitCode::config, words, [&] { read_augmentation(text); });
  };
  refused("augment: flip", {"a.yaml:1:1: augment: expected a list of augmentations", "got 'flip'"});
  refused("augment: [flop]", {"a.yaml:1:11: augment[0]: expected a known name", "'flop'", "did you mean 'flip'"});
  refused("augment:\n  - flip\n  - {name: cutout, size: 8}", {"a.yaml:3", "augment[1]", "write cutout: {size: 8}"});
  refused("augment: [random_crop: {padding: 0}]", {"augment[0].random_crop.padding", "from 1 to 4096", "got 0"});
  refused("augment: [cutout: {padding: 3}]", {"augment[0].cutout.padding", "unknown key"});
  refused("augment: [random_resized_crop: {scale: [0.5, 0.25]}]",
          {"augment[0].random_resized_crop.scale", "the smaller one first", "got [0.5, 0.25]", "[0.08, 1]"});
  refused("augment: [random_resized_crop: {scale: 0.5}]", {"two numbers", "got [0.5]"});
  refused("augment: [random_resized_crop: {scale: [0.5, 2]}]", {"scale[1]", "from 0.000244140625 to 1", "got 2"});
  refused("augment: [random_resized_crop: {ratio: [0, 1]}]", {"ratio", "0.0625"});
  refused("augment: [flip: 3]", {"augment[0].flip", "write flip alone"});
  refused("augment: [flip, cutout, flip]",
          {"a.yaml:1:1: augment: expected each augmentation at most once, got flip twice; leave one of them out"});
}

TEST(Augment, NeedsImages) {
  const DatasetSpec text{.name = "verses", .has_images = false};
  expect_refusal(
      ExitCode::config,
      {"a.yaml:2:1: augment: data set verses has no images to augment, got 2 augmentations; leave augment out"},
      [&] { read_augmentation("# keyed\naugment: [random_crop, flip]", text); });
  EXPECT_TRUE(read_augmentation("augment: []", text).empty());
}

/// Training batches of 101 images of 2 x 12 x 10 over some CPU workers.
class AugmentedBatches {
 public:
  explicit AugmentedBatches(int workers = 1) {
    for (int i = 0; i < workers; ++i) devices_.push_back(open_device({DeviceKind::cpu, i}));
    for (const auto& device : devices_) options.devices.push_back(device.get());
  }

  /// The images of an epoch by sample, from batch `first_batch` on.
  std::map<int64_t, std::vector<float>> epoch(int64_t number, int64_t first_batch = 0) const {
    std::map<int64_t, std::vector<float>> images;
    BatchLoader loader(dataset, options);
    loader.start_epoch(number, first_batch);
    while (const auto batch = loader.next())
      for (const MicroBatch& micro : batch->micro_batches)
        for (const BatchPart& part : micro.parts) {
          const std::vector<float> values = part.images.values();
          for (size_t n = 0; n < part.sample_ids.size(); ++n)
            images[part.sample_ids[n]] = {values.begin() + static_cast<int64_t>(n) * kElements,
                                          values.begin() + static_cast<int64_t>(n + 1) * kElements};
        }
    return images;
  }

  static constexpr int64_t kElements = 2 * 12 * 10;
  std::shared_ptr<const ImageDataset> dataset =
      std::make_shared<ByteImages>(make_synthetic({.samples = 101, .image_shape = {2, 12, 10}}),
                                   Normalization{.mean = {0.5f, 0.25f}, .std = {0.5f}});
  BatchLoaderOptions options = {
      .batch_size = 16,
      .augmentations = read_augmentation("augment: [random_crop, random_resized_crop, flip, cutout]")};

 private:
  std::vector<std::unique_ptr<Device>> devices_;
};

TEST(AugmentedBatches, AreTheSameForAnyDevicesMicroBatchesAndOrder) {
  const auto expected = AugmentedBatches().epoch(3);
  ASSERT_EQ(expected.size(), 101u);
  EXPECT_EQ(AugmentedBatches(2).epoch(3), expected);
  AugmentedBatches accumulated(3);
  accumulated.options.micro_batches = 2;
  accumulated.options.batch_size = 11;
  EXPECT_EQ(accumulated.epoch(3), expected);
  AugmentedBatches in_order;
  in_order.options.shuffle = false;
  EXPECT_EQ(in_order.epoch(3), expected);
}

TEST(AugmentedBatches, AreThoseOfTheEpochWhereverItIsEntered) {
  const AugmentedBatches batches;
  const auto whole = batches.epoch(2), rest = batches.epoch(2, 4);
  EXPECT_EQ(rest.size(), 101u - 4 * 16);
  for (const auto& [sample, image] : rest) EXPECT_EQ(image, whole.at(sample));
}

TEST(AugmentedBatches, DifferFromEpochToEpoch) {
  const AugmentedBatches batches;
  const auto first = batches.epoch(1), second = batches.epoch(2);
  int same = 0;
  for (const auto& [sample, image] : first) same += image == second.at(sample);
  // Two crops are alike once in 81 times.
  EXPECT_LE(same, 3);
}

TEST(AugmentedBatches, ZerosAreTheByteBeforeNormalization) {
  AugmentedBatches batches;
  batches.options.augmentations = read_augmentation("augment: [cutout: 4096]");
  for (const auto& [sample, image] : batches.epoch(1))
    for (int64_t i = 0; i < AugmentedBatches::kElements; ++i)
      ASSERT_EQ(image[static_cast<size_t>(i)], i < 120 ? -1.0f : -0.5f);
}

TEST(AugmentedBatches, LeaveEvaluationAlone) {
  AugmentedBatches batches;
  const auto device = open_device({DeviceKind::cpu, 0});
  const std::vector<float> values = load_block(*batches.dataset, 0, 101, *device).images.values();
  batches.options.augmentations = {};
  batches.options.shuffle = false;
  std::vector<float> plain;
  for (const auto& [sample, image] : batches.epoch(1)) plain.insert(plain.end(), image.begin(), image.end());
  EXPECT_EQ(values, plain);
}

}  // namespace
}  // namespace dptrain
