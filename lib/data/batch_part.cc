#include "data/batch_part.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <utility>

#include "base/check.h"
#include "data/tokenizer.h"
#include "ops/decode_images.h"

namespace dptrain {
namespace {

void load_augmented(const ImageDataset& dataset, int64_t sample, const PartOptions& options, std::span<float> out) {
  const Shape shape = dataset.image_shape();
  const ops::AugmentedImage image(options.augmentations,
                                  {.height = static_cast<int32_t>(shape[1]), .width = static_cast<int32_t>(shape[2])},
                                  static_cast<uint32_t>(options.epoch), static_cast<uint32_t>(sample));
  std::vector<uint8_t> pixels(out.size());
  dataset.pixels(sample, pixels);
  ops::decode_augmented_image(pixels, dataset.table(), image, out);
}

/// Calls `load` for each of `count` samples of `sample_bytes` bytes, on several threads at once if `threads` is given.
void for_each_sample(int64_t count, int64_t sample_bytes, SampleThreads* threads,
                     const std::function<void(int64_t)>& load) {
  // Loading this much takes some tens of microseconds, as long as waking a thread.
  constexpr int64_t kBytesAtATime = 64 << 10;
  const auto load_run = [&load](int64_t begin, int64_t end) {
    for (int64_t n = begin; n < end; ++n) load(n);
  };
  if (threads == nullptr) return load_run(0, count);
  threads->run(count, std::max<int64_t>(1, kBytesAtATime / std::max<int64_t>(1, sample_bytes)), load_run);
}

/// Loads samples of images; the images themselves only if `device` is a CPU worker.
BatchPart images_of(const ImageDataset& dataset, std::span<const int64_t> samples, Device* device,
                    const PartOptions& options) {
  const Shape image = dataset.image_shape();
  const auto elements = static_cast<size_t>(image.elements());
  const auto count = static_cast<int64_t>(samples.size());

  BatchPart part;
  part.dataset = &dataset;
  part.augmentations = options.augmentations;
  std::vector<int32_t>& labels = part.targets.emplace_back();
  for (const int64_t sample : samples) labels.push_back(dataset.label(sample));
  if (device == nullptr || device->kind() != DeviceKind::cpu) return part;
  part.images = Tensor::empty(*device, {count, image[0], image[1], image[2]}, {.purpose = MemoryPurpose::activations});
  if (!device->computes()) return part;
  float* const out = part.images.data<float>();
  for_each_sample(count, image.elements(), options.threads, [&](int64_t n) {
    const int64_t sample = samples[static_cast<size_t>(n)];
    const std::span<float> place(out + n * image.elements(), elements);
    if (options.augmentations.empty())
      dataset.image(sample, place);
    else
      load_augmented(dataset, sample, options, place);
  });
  return part;
}

/// Loads samples of text in which every row is predicted.
BatchPart text_of(const TextDataset& dataset, std::span<const int64_t> samples, const PartOptions& options) {
  const auto length = static_cast<size_t>(dataset.sequence());
  const size_t rows = samples.size() * length;
  BatchPart part;
  TextPart& text = part.text;
  text.tokens.resize(rows);
  text.segments.resize(rows);
  part.targets.resize(2);
  std::vector<int32_t>&labels = part.targets[0], &next_sentence = part.targets[1];
  labels.resize(rows);
  text.lengths.resize(samples.size());
  next_sentence.resize(samples.size());
  constexpr int64_t kBytesOfToken = 12;
  const auto count = static_cast<int64_t>(samples.size());
  for_each_sample(count, kBytesOfToken * dataset.sequence(), options.threads, [&](int64_t number) {
    const auto n = static_cast<size_t>(number);
    TextSample sample{.tokens = std::span(text.tokens).subspan(n * length, length),
                      .segments = std::span(text.segments).subspan(n * length, length),
                      .labels = std::span(labels).subspan(n * length, length)};
    dataset.sample(samples[n], options.epoch, sample);
    const auto padding = std::ranges::count(sample.tokens, kPadToken);
    text.lengths[n] = static_cast<int32_t>(static_cast<int64_t>(length) - padding);
    next_sentence[n] = sample.next_sentence;
  });
  return part;
}

/// Removes the rows that aren't predicted from the first output.
void predict_masked_only(BatchPart& part) {
  const std::vector<int32_t> labels = std::exchange(part.targets[0], {});
  for (size_t row = 0; row < labels.size(); ++row) {
    if (labels[row] == kIgnoredLabel) continue;
    part.text.predicted.push_back(static_cast<int32_t>(row));
    part.targets[0].push_back(labels[row]);
  }
  pad_predicted(part);
}

BatchPart load(const Dataset& dataset, std::span<const int64_t> samples, Device* device, const PartOptions& options) {
  const auto* images = dynamic_cast<const ImageDataset*>(&dataset);
  BatchPart part = images != nullptr ? images_of(*images, samples, device, options)
                                     : text_of(dynamic_cast<const TextDataset&>(dataset), samples, options);
  part.sample_ids.assign(samples.begin(), samples.end());
  return part;
}

BatchPart part_of(const Dataset& dataset, std::span<const int64_t> samples, Device* device,
                  const PartOptions& options) {
  BatchPart part = load(dataset, samples, device, options);
  if (!part.text.tokens.empty()) predict_masked_only(part);
  return part;
}

BatchPart block_of(const Dataset& dataset, int64_t begin, int64_t end, Device* device, PredictedRows rows) {
  DPTRAIN_CHECK(0 <= begin && begin <= end && end <= dataset.samples(), "samples {} to {} of {}", begin, end,
                dataset.samples());
  std::vector<int64_t> samples(static_cast<size_t>(end - begin));
  std::iota(samples.begin(), samples.end(), begin);
  return rows == PredictedRows::masked ? part_of(dataset, samples, device, {}) : load(dataset, samples, device, {});
}

}  // namespace

void pad_predicted(BatchPart& part) {
  constexpr auto kMultiple = static_cast<size_t>(kPredictedRows);
  const size_t padded = std::max(kMultiple, (part.text.predicted.size() + kMultiple - 1) / kMultiple * kMultiple);
  part.text.predicted.resize(padded, 0);
  part.targets[0].resize(padded, kIgnoredLabel);
}

std::vector<int64_t> counted_labels(const BatchPart& part) {
  std::vector<int64_t> counts;
  for (const std::vector<int32_t>& labels : part.targets)
    counts.push_back(std::ranges::count_if(labels, [](int32_t label) { return label >= 0; }));
  return counts;
}

std::vector<int64_t> counted_labels(const Dataset& dataset, std::span<const int64_t> samples,
                                    const PartOptions& options) {
  if (dynamic_cast<const ImageDataset*>(&dataset) != nullptr) return {static_cast<int64_t>(samples.size())};
  return counted_labels(load(dataset, samples, nullptr, options));
}

BatchPart load_part(const Dataset& dataset, std::span<const int64_t> samples, Device& device,
                    const PartOptions& options) {
  return part_of(dataset, samples, &device, options);
}

BatchPart load_part_without_images(const Dataset& dataset, std::span<const int64_t> samples,
                                   const PartOptions& options) {
  return part_of(dataset, samples, nullptr, options);
}

BatchPart load_block(const Dataset& dataset, int64_t begin, int64_t end, Device& device, PredictedRows rows) {
  return block_of(dataset, begin, end, &device, rows);
}

BatchPart load_block_without_images(const Dataset& dataset, int64_t begin, int64_t end, PredictedRows rows) {
  return block_of(dataset, begin, end, nullptr, rows);
}

}  // namespace dptrain
