// On the real data sets, an epoch has every sample exactly once, for any number of parts and any batch size.
#include <gtest/gtest.h>

#include "data/batch_loader.h"
#include "data/counting_images.h"
#include "data/idx_dataset.h"
#include "support/source_tree.h"

namespace dptrain {
namespace {

using testing::CountingImages;

void expect_every_sample_once(const std::shared_ptr<const ImageDataset>& dataset, size_t parts, int64_t batch_size) {
  SCOPED_TRACE(::testing::Message() << parts << " parts, batches of " << batch_size);
  const auto counting = std::make_shared<CountingImages>(dataset);
  std::vector<std::unique_ptr<Device>> devices;
  BatchLoaderOptions options{.batch_size = batch_size, .seed = 7};
  for (size_t p = 0; p < parts; ++p) {
    devices.push_back(open_device({DeviceKind::cpu, static_cast<int>(p)}));
    options.devices.push_back(devices.back().get());
  }
  const auto elements = static_cast<size_t>(dataset->image_shape().elements());
  std::vector<float> image(elements);
  const std::vector<int64_t> order = epoch_order(dataset->samples(), {7, 1, true});

  BatchLoader loader(counting, options);
  loader.start_epoch(1);
  int64_t batches = 0;
  int64_t delivered = 0;
  int64_t wrong = 0;
  for (; const auto batch = loader.next(); ++batches)
    for (const BatchPart& part : batch->micro_batches[0].parts)
      for (int64_t i = 0; i < part.samples(); ++i, ++delivered) {
        const int64_t sample = order[static_cast<size_t>(delivered)];
        dataset->image(sample, image);
        const float* got = part.images.data<float>() + static_cast<size_t>(i) * elements;
        if (part.targets[0][static_cast<size_t>(i)] != dataset->label(sample) ||
            !std::equal(image.begin(), image.end(), got))
          ++wrong;
      }
  EXPECT_EQ(batches, loader.batches_per_epoch());
  EXPECT_EQ(delivered, dataset->samples());
  EXPECT_EQ(wrong, 0);
  for (int64_t i = 0; i < dataset->samples(); ++i) ASSERT_EQ(counting->count(i), 1) << "sample " << i;
}

TEST(EpochCoverage, Mnist) {
  const ImageDatasets mnist = read_idx_dataset(testing::source_file("datasets/mnist-10k"), {});
  ASSERT_EQ(mnist.train->samples(), 8000);
  ASSERT_EQ(mnist.test->samples(), 2000);
  EXPECT_EQ(mnist.train->image_shape(), Shape({1, 28, 28}));
  for (const size_t parts : {1u, 2u, 3u})
    for (const int64_t batch_size : {1, 64, 97, 8000, 9999}) expect_every_sample_once(mnist.train, parts, batch_size);
}

TEST(EpochCoverage, FashionMnist) {
  const std::filesystem::path folder = "/usr/share/datasets/fashion-mnist";
  if (!has_idx_files(folder)) GTEST_SKIP() << "Debian's package dataset-fashion-mnist is not installed";
  const ImageDatasets fashion = read_idx_dataset(folder, {});
  ASSERT_EQ(fashion.train->samples(), 60000);
  ASSERT_EQ(fashion.test->samples(), 10000);
  for (const size_t parts : {1u, 2u, 3u}) expect_every_sample_once(fashion.train, parts, 511);
}

}  // namespace
}  // namespace dptrain
