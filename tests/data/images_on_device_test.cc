// Batches that a device decodes itself are those that the host would: out of a data set that lies there whole, and of
// one that doesn't.
#include "data/images_on_device.h"

#include <gtest/gtest.h>

#include "data/byte_images.h"
#include "ops/reorder.h"
#include "support/device_rows.h"

namespace dptrain {
namespace {

using testing::DeviceRow;

class ImagesOnDeviceTest : public ::testing::TestWithParam<DeviceRow> {
 protected:
  /// Seven images of 3 x 4 x 5 whose bytes all differ from their neighbors', every channel normalized otherwise.
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
    const ImagesOnDevice::Batch batch = images.batch(ids, numbers, DType::f32);
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

  std::unique_ptr<Device> device_ = GetParam().open();
  ByteImages dataset_;
};

TEST_P(ImagesOnDeviceTest, AreThoseOfTheDataSetThatLiesThereWhole) {
  const ImagesOnDevice images(*device_, dataset_, 7 * 60);
  EXPECT_TRUE(images.resident());
  expect_batch(images, {6, 0, 3, 3});
  expect_batch(images, {2});
}

TEST_P(ImagesOnDeviceTest, AreThoseOfTheDataSetThatDoesNotFit) {
  const ImagesOnDevice images(*device_, dataset_, 7 * 60 - 1);
  EXPECT_FALSE(images.resident());
  expect_batch(images, {6, 0, 3, 3});
  expect_batch(images, {2});
}

INSTANTIATE_TEST_SUITE_P(Devices, ImagesOnDeviceTest, ::testing::ValuesIn(testing::device_rows()), testing::RowName());

}  // namespace
}  // namespace dptrain
