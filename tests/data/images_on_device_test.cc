// Batches that a device decodes itself equal the host's: from a data set that the device holds whole, and from one that
// it doesn't; augmented or not.
#include "data/images_on_device.h"

#include <gtest/gtest.h>

#include "data/batch_part.h"
#include "data/byte_images.h"
#include "ops/reorder.h"
#include "support/device_rows.h"
#include "support/sanitizer.h"

namespace dptrain {
namespace {

using testing::DeviceRow;

class ImagesOnDeviceTest : public ::testing::TestWithParam<DeviceRow> {
 protected:
  /// Seven images of 3 x 4 x 5 whose bytes all differ from their neighbors', with a different normalization for each
  /// channel.
  ImagesOnDeviceTest() : dataset_(bytes(), {.mean = {0.1f, 0.2f, 0.3f}, .std = {0.5f, 0.25f, 2}}) {}

  static LabelledBytes bytes() {
    LabelledBytes data{.image_shape = {3, 4, 5}, .classes = 7, .labels = {3, 1, 4, 1, 5, 2, 6}};
    for (int i = 0; i < 7 * 60; ++i) data.pixels.push_back(static_cast<uint8_t>(i * 37 % 256));
    return data;
  }

  void expect_batch(const ImagesOnDevice& images, const std::vector<int64_t>& numbers) {
    const auto count = static_cast<int64_t>(numbers.size());
    const Tensor ids = Tensor::empty(*device_, {count}, {.dtype = DType::i64});
    device_->upload(ids.raw(), numbers.data(), ids.bytes());
    const ImagesOnDevice::Batch batch = images.batch(ids, {});
    ASSERT_EQ(batch.images.shape(), Shape({count, 3, 4, 5}));
    std::vector<float> expected(static_cast<size_t>(count * 60));
    std::vector<int32_t> labels(numbers.size()), expected_labels;
    for (size_t n = 0; n < numbers.size(); ++n) {
      dataset_.image(numbers[n], std::span(expected).subspan(n * 60, 60));
      expected_labels.push_back(dataset_.label(numbers[n]));
    }
    EXPECT_EQ(ops::reorder(batch.images, Layout::plain).values(), expected);
    device_->download(labels.data(), batch.labels.raw(), batch.labels.bytes());
    EXPECT_EQ(labels, expected_labels);
  }

  /// The bytes of these samples, copied to the device.
  Tensor sent(const std::vector<int64_t>& numbers) {
    const auto count = static_cast<int64_t>(numbers.size());
    std::vector<uint8_t> pixels(static_cast<size_t>(count * 60));
    for (size_t n = 0; n < numbers.size(); ++n) dataset_.pixels(numbers[n], std::span(pixels).subspan(n * 60, 60));
    const Tensor tensor = Tensor::empty(*device_, {count, 3, 4, 5}, {.dtype = DType::u8});
    device_->upload(tensor.raw(), pixels.data(), tensor.bytes());
    return tensor;
  }

  /// Expects the bits of a CPU worker's part of a batch, in every epoch.
  void expect_augmented_batch(const ImagesOnDevice& images, const std::vector<int64_t>& numbers) {
    const auto count = static_cast<int64_t>(numbers.size());
    const auto worker = open_device({DeviceKind::cpu, 1});
    const ops::Augmentations all = {
        .seed = 3,
        .list =
            {{{ops::AugmentationKind::cutout, 2},
              {ops::AugmentationKind::random_crop, 1},
              {.kind = ops::AugmentationKind::random_resized_crop,
               .window = {.least_area = 1 << 13, .most_area = 1 << 16, .least_ratio = 3 << 14, .doublings = 1 << 15}},
              {ops::AugmentationKind::flip}}},
        .count = 3};
    const Tensor ids = Tensor::empty(*device_, {count}, {.dtype = DType::i64});
    device_->upload(ids.raw(), numbers.data(), ids.bytes());
    for (const int32_t epoch : {1, 2, 3}) {
      const Tensor epochs = Tensor::empty(*device_, {1}, {.dtype = DType::i32});
      device_->upload(epochs.raw(), &epoch, sizeof epoch);
      const ops::DecodeOptions options{.augmentations = all, .epoch = epochs};
      const Tensor found =
          images.resident() ? images.batch(ids, options).images : images.decoded(sent(numbers), ids, options);
      const BatchPart expected = load_part(dataset_, numbers, *worker, {.augmentations = all, .epoch = epoch});
      EXPECT_EQ(ops::reorder(found, Layout::plain).values(), expected.images.values()) << "epoch " << epoch;
    }
  }

  std::unique_ptr<Device> device_ = GetParam().open(testing::kThreadSanitizer ? 1 : 2);
  ByteImages dataset_;
};

TEST_P(ImagesOnDeviceTest, AreThoseOfTheDataSetThatLiesThereWhole) {
  const ImagesOnDevice images(*device_, dataset_, 7 * 60);
  EXPECT_TRUE(images.resident());
  expect_batch(images, {6, 0, 3, 3});
  expect_batch(images, {2});
  expect_augmented_batch(images, {6, 0, 3, 3, 1, 2, 5});
}

TEST_P(ImagesOnDeviceTest, AreThoseOfTheDataSetThatDoesNotFit) {
  const ImagesOnDevice images(*device_, dataset_, 7 * 60 - 1);
  EXPECT_FALSE(images.resident());
  expect_augmented_batch(images, {6, 0, 3, 3, 1, 2, 5});
}

TEST_P(ImagesOnDeviceTest, AreAugmentedAlikeByAnyNumberOfThreads) {
  if (testing::kThreadSanitizer) GTEST_SKIP() << testing::kTeamsAreUnseen;
  for (const int threads : {1, 3}) {
    device_ = nullptr;
    device_ = GetParam().open(threads);
    expect_augmented_batch(ImagesOnDevice(*device_, dataset_, 7 * 60), {6, 0, 3, 3, 1, 2, 5});
  }
}

INSTANTIATE_TEST_SUITE_P(Devices, ImagesOnDeviceTest, ::testing::ValuesIn(testing::device_rows()), testing::RowName());

}  // namespace
}  // namespace dptrain
