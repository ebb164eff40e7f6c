#include "parallel/part_reader.h"

#include <algorithm>
#include <utility>

#include "data/images_on_device.h"
#include "ops/reorder.h"
#include "parallel/image_bytes.h"

namespace dptrain::parallel {
namespace {

int64_t count_labels(const BatchPart& part) {
  int64_t count = 0;
  for (const auto& labels : part.targets) count += static_cast<int64_t>(labels.size());
  return count;
}

}  // namespace

bool PartReader::sends_images(const BatchPart& part) {
  // A CPU worker has the images, and a part of the model without the beginning needs none. A device without samples may
  // never have any, and needs no copy of the data set.
  if (part.dataset == nullptr || part.images.defined() || part.samples() == 0 || !model_.has_beginning()) return false;
  return !device_.attached<DeviceDatasets>().of(*part.dataset).resident();
}

bool PartReader::sends_labels(const BatchPart& part) const {
  return part.text.tokens.empty() && model_.has_end() && (part.dataset == nullptr || !model_.is_one_beginning());
}

int64_t PartReader::count_numbers(const BatchPart& part) {
  if (sends_images(part)) return count_image_numbers(part);
  return sends_labels(part) ? count_labels(part) : count_text_numbers(part);
}

int32_t* PartReader::write_numbers(const BatchPart& part, int32_t* out) {
  if (sends_images(part)) return write_image_numbers(part, out);
  if (!sends_labels(part)) return write_text_numbers(part, out);
  for (const auto& labels : part.targets) out = std::ranges::copy(labels, out).out;
  return out;
}

ModelSamples PartReader::decoded(const BatchPart& part, const Tensor& ids, const Tensor& numbers,
                                 const nn::StageRange& stages) {
  if (!part.text.tokens.empty()) {
    TextOnDevice text = cut_text(numbers, part);
    return {.x = text.tokens, .text = text.inputs, .targets = std::move(text.targets), .ids = ids};
  }
  if (stages.begin > 0) {
    ModelSamples samples{.x = {}, .text = {}, .targets = {}, .ids = ids};
    // Losses are computed in the last stage. In the numbers of images, labels come first, so labels are at the same
    // place with and without images.
    if (stages.end >= model_.stage_count())
      samples.targets.push_back(numbers.window(0, {part.samples()}, Layout::plain));
    return samples;
  }
  if (part.images.defined()) {
    const Tensor labels = uploaded_values(device_, DType::i32, part.targets[0]);
    const Tensor images = ops::converted(part.images, {.dtype = dtype_, .layout = part.images.layout()});
    return {.x = images, .text = {}, .targets = {labels}, .ids = ids};
  }
  ops::DecodeOptions options{.dtype = dtype_, .augmentations = part.augmentations};
  if (!options.augmentations.empty()) options.epoch = exchange_.epoch();
  const ImagesOnDevice& dataset = device_.attached<DeviceDatasets>().of(*part.dataset);
  if (!dataset.resident()) {
    const ImageBytes sent = cut_image_numbers(numbers, part);
    return {.x = dataset.decoded(sent.pixels, ids, options), .text = {}, .targets = {sent.labels}, .ids = ids};
  }
  const auto batch = dataset.batch(ids, options);
  return {.x = batch.images, .text = {}, .targets = {batch.labels}, .ids = ids};
}

ModelSamples PartReader::samples_of(const BatchPart& part, const PartPlace& place, const nn::StageRange& stages) {
  return decoded(part, exchange_.sample_ids().samples(place.sample, place.sample + part.samples()),
                 exchange_.numbers().samples(place.number, place.number + count_numbers(part)), stages);
}

std::vector<Tensor> PartReader::labels_of(const BatchPart& part, const PartPlace& place) {
  std::vector<Tensor> labels;
  int64_t at = place.number;
  for (const auto& of_output : part.targets) {
    const auto count = static_cast<int64_t>(of_output.size());
    labels.push_back(exchange_.numbers().window(at, {count}, Layout::plain));
    at += count;
  }
  return labels;
}

ModelSamples PartReader::uploaded(const BatchPart& part, const nn::StageRange& stages) {
  std::vector<int32_t> numbers(static_cast<size_t>(count_numbers(part)));
  write_numbers(part, numbers.data());
  return decoded(part, uploaded_values(device_, DType::i64, part.sample_ids),
                 uploaded_values(device_, DType::i32, numbers), stages);
}

void PartReader::go_past(PartPlace& place, const BatchPart& part) {
  place.sample += part.samples();
  place.number += count_numbers(part);
  place.rows.resize(part.targets.size());
  for (size_t k = 0; k < place.rows.size(); ++k) place.rows[k] += static_cast<int64_t>(part.targets[k].size());
}

}  // namespace dptrain::parallel
