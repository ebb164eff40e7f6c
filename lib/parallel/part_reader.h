#pragma once

#include <cstdint>
#include <vector>

#include "data/batch_loader.h"
#include "nn/model.h"
#include "parallel/step_exchange.h"
#include "parallel/text_numbers.h"

namespace dptrain::parallel {

/// The position of one of a step's parts among all of the step's parts.
struct PartPlace {
  int64_t sample = 0;
  int64_t number = 0;              ///< among the numbers that a step has besides sample ids
  std::vector<int64_t> rows = {};  ///< by output
};

/// What a model reads of some samples, and the targets of its outputs, on the device.
struct ModelSamples {
  Tensor x;  ///< images of the model's input type, or tokens i32 [N, S]; undefined for images in stages after the first
  nn::TextInputs text;
  std::vector<Tensor> targets;  ///< i32 [rows], by output
  Tensor ids;                   ///< i64 [N]
};

/// Brings the samples of a step's parts to a device, in the form that the device's model, or part of a model, reads.
///
/// A step carries the ids of its samples. It also carries numbers (i32) for whatever isn't already on the device: text,
/// labels or images. `count_numbers` and `write_numbers` define them, and the step's exchange carries them. Used by the
/// device's rank thread.
class PartReader {
 public:
  /// `dtype`: element type of the images.
  PartReader(Device& device, nn::Model& model, StepExchange& exchange, DType dtype)
      : device_(device), model_(model), exchange_(exchange), dtype_(dtype) {}

  /// How many numbers come with a part.
  int64_t count_numbers(const BatchPart& part);
  /// Writes a part's numbers; returns the address after them.
  int32_t* write_numbers(const BatchPart& part, int32_t* out);
  /// Moves `place` from the beginning of `part` to the beginning of the next part.
  void go_past(PartPlace& place, const BatchPart& part);

  /// The samples of one of the step's parts, as these stages of the model need them.
  ModelSamples samples_of(const BatchPart& part, const PartPlace& place, const nn::StageRange& stages = {});
  /// The labels, by output, of a part that brings only labels and sample ids.
  std::vector<Tensor> labels_of(const BatchPart& part, const PartPlace& place);
  /// The samples of any part; uploads them now.
  ModelSamples uploaded(const BatchPart& part, const nn::StageRange& stages = {});

 private:
  /// Whether a part's images are sent to the device with each step, because the device doesn't hold the data set. On
  /// first use, copies the data set to the device if it fits.
  bool sends_images(const BatchPart& part);
  /// Whether a part's labels are sent with each step, because its images are read on another device, or in other
  /// stages, than where its losses are computed. A part without a data set has no images of its own.
  bool sends_labels(const BatchPart& part) const;
  /// `numbers`: the part's numbers, on the device.
  ModelSamples decoded(const BatchPart& part, const Tensor& ids, const Tensor& numbers, const nn::StageRange& stages);

  Device& device_;
  nn::Model& model_;
  StepExchange& exchange_;
  DType dtype_;
};

/// Uploads values into a plain tensor of type `dtype`; T is the type that stores one element.
template <class T>
Tensor uploaded_values(Device& device, DType dtype, const std::vector<T>& values) {
  const Tensor tensor = Tensor::empty(device, {static_cast<int64_t>(values.size())}, {.dtype = dtype});
  device.upload(tensor.raw(), values.data(), tensor.bytes());
  return tensor;
}

}  // namespace dptrain::parallel
