#include "data/batch_loader.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <span>
#include <thread>
#include <utility>

#include "base/clock.h"
#include "data/counting_images.h"
#include "data/refusal.h"
#include "data/synthetic.h"
#include "device/host_machine.h"

namespace dptrain {
namespace {

using testing::CountingImages;
using testing::expect_refusal;

std::shared_ptr<const ImageDataset> images(int64_t samples, const Shape& shape = {1, 4, 4}) {
  return std::make_shared<ByteImages>(make_synthetic({.samples = samples, .image_shape = shape}), Normalization{});
}

/// CPU workers, and the options of a loader that fills their memory.
class Workers {
 public:
  explicit Workers(size_t count, int64_t memory_limit_bytes = 0) {
    for (size_t i = 0; i < count; ++i)
      devices_.push_back(
          open_device({DeviceKind::cpu, static_cast<int>(i)}, {.memory_limit_bytes = memory_limit_bytes}));
  }
  BatchLoaderOptions options(int64_t batch_size) const {
    BatchLoaderOptions options{.batch_size = batch_size};
    for (const auto& device : devices_) options.devices.push_back(device.get());
    return options;
  }

 private:
  std::vector<std::unique_ptr<Device>> devices_;
};

/// All labels and pixels of the current epoch, in the order of the epoch.
struct Epoch {
  std::vector<int32_t> labels;
  std::vector<float> pixels;
};
Epoch rest_of_epoch(BatchLoader& loader) {
  Epoch epoch;
  while (const auto batch = loader.next()) {
    EXPECT_EQ(batch->first_position, static_cast<int64_t>(epoch.labels.size()));
    int64_t samples = 0;
    for (const BatchPart& part : batch->micro_batches[0].parts) {
      samples += part.samples();
      epoch.labels.insert(epoch.labels.end(), part.targets[0].begin(), part.targets[0].end());
      const std::vector<float> values = part.images.values();
      epoch.pixels.insert(epoch.pixels.end(), values.begin(), values.end());
    }
    EXPECT_EQ(batch->samples, samples);
  }
  return epoch;
}

/// Waits until the loader's thread has asked for this many images.
void wait_for_total(const CountingImages& counting, int64_t expected) {
  const auto deadline = deadline_in(20);
  while (counting.total() < expected && Clock::now() < deadline) std::this_thread::yield();
  ASSERT_GE(counting.total(), expected);
}

TEST(BatchLoader, AnEpochIsTheSameForEveryNumberOfParts) {
  const auto dataset = images(101);
  const Workers workers(1);
  BatchLoader one(dataset, workers.options(16));
  one.start_epoch(1);
  const Epoch expected = rest_of_epoch(one);
  ASSERT_EQ(expected.labels.size(), 101u);
  for (const size_t parts : {2u, 3u, 5u}) {
    const Workers several(parts);
    BatchLoader loader(dataset, several.options(16));
    loader.start_epoch(1);
    const Epoch epoch = rest_of_epoch(loader);
    EXPECT_EQ(epoch.labels, expected.labels);
    EXPECT_EQ(epoch.pixels, expected.pixels);
  }
}

TEST(BatchLoader, AnEpochIsTheSameForEveryNumberOfThreads) {
  // Each image has 64 KiB, and one thread loads it.
  const Workers workers(2);
  const auto dataset = images(50, {1, 256, 256});
  BatchLoaderOptions options = workers.options(12);
  options.augmentations = {.seed = 4, .count = 2};
  options.augmentations.list[0] = {.kind = ops::AugmentationKind::random_crop, .pixels = 8};
  options.augmentations.list[1] = {.kind = ops::AugmentationKind::flip};
  const auto epoch_by = [&](int threads) {
    options.threads = threads;
    BatchLoader loader(dataset, options);
    loader.start_epoch(3);
    return rest_of_epoch(loader);
  };
  const Epoch by_one = epoch_by(1);
  EXPECT_EQ(by_one.labels.size(), 50U);
  for (const int threads : {2, 3}) {
    const Epoch by_several = epoch_by(threads);
    EXPECT_EQ(by_several.labels, by_one.labels);
    EXPECT_TRUE(by_several.pixels == by_one.pixels) << threads << " threads a device";
  }
}

TEST(BatchLoader, PartsAreFloorsOfTheBatchOnTheirDevices) {
  const Workers workers(3);
  const BatchLoaderOptions options = workers.options(8);
  BatchLoader loader(images(10), options);
  loader.start_epoch(1);
  const auto batch = loader.next();
  ASSERT_EQ(batch->micro_batches[0].parts.size(), 3u);
  const std::vector<int64_t> sizes = {2, 3, 3};  // 0, 8/3 = 2, 16/3 = 5, 8
  for (size_t p = 0; p < 3; ++p) {
    EXPECT_EQ(batch->micro_batches[0].parts[p].samples(), sizes[p]);
    EXPECT_EQ(batch->micro_batches[0].parts[p].images.shape(), Shape({sizes[p], 1, 4, 4}));
    EXPECT_EQ(&batch->micro_batches[0].parts[p].images.device(), options.devices[p]);
  }
}

TEST(BatchLoader, LastBatchIsTheRestAndPartsOfItMayBeEmpty) {
  const Workers workers(3);
  BatchLoader loader(images(10), workers.options(8));
  EXPECT_EQ(loader.batches_per_epoch(), 2);
  loader.start_epoch(1);
  loader.next();
  const auto last = loader.next();
  ASSERT_NE(last, nullptr);
  EXPECT_EQ(last->first_position, 8);
  EXPECT_EQ(last->samples, 2);
  EXPECT_EQ(last->micro_batches[0].parts[0].samples(), 0);
  EXPECT_EQ(last->micro_batches[0].parts[0].images.shape(), Shape({0, 1, 4, 4}));
  EXPECT_EQ(last->micro_batches[0].parts[1].samples(), 1);
  EXPECT_EQ(last->micro_batches[0].parts[2].samples(), 1);
  EXPECT_EQ(loader.next(), nullptr);
  EXPECT_EQ(loader.next(), nullptr);
}

TEST(BatchLoader, OrderIsTheEpochsOrder) {
  const auto dataset = images(50);
  const Workers workers(2);
  BatchLoaderOptions options = workers.options(7);
  options.seed = 5;
  BatchLoader loader(dataset, options);
  for (const int64_t epoch : {1, 2}) {
    loader.start_epoch(epoch);
    std::vector<int32_t> expected;
    for (const int64_t sample : epoch_order(50, {5, epoch, true})) expected.push_back(dataset->label(sample));
    EXPECT_EQ(rest_of_epoch(loader).labels, expected);
  }
}

TEST(BatchLoader, WithoutShufflingItIsTheDataSetsOrder) {
  const auto dataset = images(23);
  const Workers workers(2);
  BatchLoaderOptions options = workers.options(5);
  options.shuffle = false;
  BatchLoader loader(dataset, options);
  loader.start_epoch(4);
  const Epoch epoch = rest_of_epoch(loader);
  EXPECT_EQ(epoch.pixels, load_block(*dataset, 0, 23, *options.devices[0]).images.values());
}

TEST(BatchLoader, StartingAgainDropsTheRest) {
  const auto counting = std::make_shared<CountingImages>(images(40));
  const Workers workers(2);
  BatchLoader loader(counting, workers.options(4));
  loader.start_epoch(2);
  const Epoch second = rest_of_epoch(loader);
  for (int64_t taken = 0; taken < 10; ++taken) {
    const int64_t before = counting->total();
    loader.start_epoch(1);
    for (int64_t i = 0; i < taken; ++i) loader.next();
    // At least one batch of the dropped epoch is ready.
    wait_for_total(*counting, before + 4 * std::min<int64_t>(taken + 2, 10));
    loader.start_epoch(2);
    EXPECT_EQ(rest_of_epoch(loader).pixels, second.pixels);
  }
}

TEST(BatchLoader, PreparesNoMoreThanItWasAskedTo) {
  const auto counting = std::make_shared<CountingImages>(images(40));
  const Workers workers(1);
  BatchLoaderOptions options = workers.options(4);
  options.batches_ahead = 3;
  BatchLoader loader(counting, options);
  loader.start_epoch(1);
  const auto first = loader.next();
  wait_for_total(*counting, 4 * 4);
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_EQ(counting->total(), 4 * 4);  // one in use, three ahead
}

TEST(BatchLoader, ItsThreadsExceptionComesOutOfNext) {
  const auto poisoned = std::make_shared<CountingImages>(images(20), epoch_order(20, {0, 1, true})[13]);
  const Workers workers(2);
  BatchLoader loader(poisoned, workers.options(5));
  loader.start_epoch(1);
  EXPECT_NE(loader.next(), nullptr);
  EXPECT_NE(loader.next(), nullptr);
  EXPECT_THROW(loader.next(), std::runtime_error);
  EXPECT_THROW(loader.next(), std::runtime_error);
  // Another epoch starts from its beginning.
  loader.start_epoch(1);
  EXPECT_NE(loader.next(), nullptr);
}

TEST(BatchLoader, MemoryThatRunsOutIs71) {
  const Workers workers(1, 2048);
  BatchLoader loader(images(100), workers.options(50));
  loader.start_epoch(1);
  expect_refusal(ExitCode::device, {"cpu:0", "limit of 2048"}, [&] { loader.next(); });
}

TEST(BatchLoader, NextBeforeAnEpochIsABug) {
  const Workers workers(1);
  BatchLoader loader(images(5), workers.options(5));
  expect_refusal(ExitCode::bug, {"before an epoch"}, [&] { loader.next(); });
}

TEST(BatchLoader, EndsAtAnyMoment) {
  const auto dataset = images(64);
  const Workers workers(2);
  for (int taken = 0; taken < 12; ++taken) {
    BatchLoader loader(dataset, workers.options(8));
    if (taken == 0) continue;
    loader.start_epoch(1);
    for (int i = 1; i < taken; ++i) loader.next();
  }
}

TEST(BatchLoader, MemoryIsUsedAgain) {
  const auto dataset = images(400);
  // Memory for the batch in use, two ahead and one being made, with 16 images of 64 bytes each.
  const Workers workers(1, 4 * 16 * 64);
  BatchLoader loader(dataset, workers.options(16));
  loader.start_epoch(1);
  EXPECT_EQ(rest_of_epoch(loader).labels.size(), 400u);
}

TEST(LoadBlock, TakesSamplesInTheDataSetsOrder) {
  const auto dataset = images(9, {2, 3, 5});
  const auto device = open_device({DeviceKind::cpu, 0});
  const BatchPart part = load_block(*dataset, 4, 7, *device);
  EXPECT_EQ(part.images.shape(), Shape({3, 2, 3, 5}));
  EXPECT_EQ(part.images.layout(), Layout::plain);
  EXPECT_EQ(part.targets[0], (std::vector<int32_t>{4, 5, 6}));
  std::vector<float> image(30);
  dataset->image(5, image);
  const std::vector<float> values = part.images.values();
  EXPECT_EQ(std::vector<float>(values.begin() + 30, values.begin() + 60), image);
  EXPECT_EQ(device->allocator().in_use()[MemoryPurpose::activations], device->allocator().in_use().total_bytes());
  EXPECT_EQ(load_block(*dataset, 9, 9, *device).samples(), 0);
  expect_refusal(ExitCode::bug, {"samples 7 to 10 of 9"}, [&] { load_block(*dataset, 7, 10, *device); });
}

/// Records what is to be read ahead.
class ReadAhead final : public testing::ForwardedImages {
 public:
  using ForwardedImages::ForwardedImages;
  void read_ahead(int64_t begin, int64_t end) const override { runs.emplace_back(begin, end); }
  mutable std::vector<std::pair<int64_t, int64_t>> runs;
};

TEST(BatchLoader, ReadsAheadWhatItsProcessTrainsOn) {
  const Workers workers(1);
  const auto runs_of = [&](const std::vector<int>& parts_of_processes, int process) {
    const auto dataset = std::make_shared<ReadAhead>(images(100));
    BatchLoaderOptions options = workers.options(10);
    options.first_part = process;
    options.split = BatchSplit::even(4);
    options.parts_of_processes = parts_of_processes;
    BatchLoader loader(dataset, options);
    for (int64_t epoch = 1; epoch <= 2; ++epoch) {
      loader.start_epoch(epoch);
      while (loader.next()) continue;
    }
    return dataset->runs;
  };
  using Runs = std::vector<std::pair<int64_t, int64_t>>;
  // Of ten samples the four parts have two and three in turn.
  EXPECT_EQ(runs_of({1, 1, 1, 1}, 0), (Runs{{0, 20}}));
  EXPECT_EQ(runs_of({1, 1, 1, 1}, 1), (Runs{{20, 50}}));
  EXPECT_EQ(runs_of({1, 1, 1, 1}, 3), (Runs{{70, 100}}));
  const Runs all = runs_of({}, 1);
  ASSERT_EQ(all.size(), 1u);
  EXPECT_GT(all[0].second - all[0].first, 80) << "drawn from all";
}

/// A data set of as many images of 512 x 512, none of which exists.
class ManyImages final : public testing::ForwardedImages {
 public:
  explicit ManyImages(int64_t samples) : ForwardedImages(images(1, kShape)), samples_(samples) {}
  int64_t samples() const override { return samples_; }
  int32_t label(int64_t) const override { return 0; }
  void pixels(int64_t, std::span<uint8_t> out) const override { std::ranges::fill(out, uint8_t{0}); }
  void image(int64_t, std::span<float> out) const override { std::ranges::fill(out, 0.0f); }
  void read_ahead(int64_t begin, int64_t end) const override { runs.emplace_back(begin, end); }

  static inline const Shape kShape = {1, 512, 512};
  mutable std::vector<std::pair<int64_t, int64_t>> runs;

 private:
  int64_t samples_;
};

TEST(BatchLoader, ReadsAheadInRunsWhatHalfOfTheMemoryHasRoomFor) {
  const Workers workers(1);
  const auto runs_of = [&](int64_t samples) {
    const auto dataset = std::make_shared<ManyImages>(samples);
    BatchLoaderOptions options = workers.options(1);
    options.shuffle = false;
    options.batches_ahead = 1;
    BatchLoader loader(dataset, options);
    loader.start_epoch(1);
    EXPECT_NE(loader.next(), nullptr);
    return dataset->runs;
  };
  using Runs = std::vector<std::pair<int64_t, int64_t>>;
  EXPECT_EQ(runs_of(4096), (Runs{{0, 4096}}));
  EXPECT_EQ(runs_of(10000), (Runs{{0, 4096}, {4096, 8192}, {8192, 10000}})) << "so that it can be given up in between";
  const int64_t room = host_memory_bytes() / 2 / ManyImages::kShape.elements();
  const Runs all = runs_of(room);
  ASSERT_FALSE(all.empty());
  EXPECT_EQ(all.back().second, room);
  EXPECT_EQ(runs_of(room + 1), Runs()) << "the first would be gone again before they are asked for";
}

}  // namespace
}  // namespace dptrain
