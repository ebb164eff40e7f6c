#pragma once

#include <cstdint>
#include <vector>

#include "data/batch_loader.h"
#include "nn/model.h"
#include "parallel/step_exchange.h"
#include "parallel/text_numbers.h"

namespace dptrain::parallel {

/// Where one of a step's parts begins, among all of them.
struct PartPlace {
  int64_t sample = 0;
  int64_t number = 0;              ///< among the numbers that come with a step beside sample ids
  std::vector<int64_t> rows = {};  ///< of each output
};

/// What a model reads of some samples, and what its outputs are compared with, on the device.
struct ModelSamples {
  Tensor x;  ///< images of the model's input type, or tokens i32 [N, S]; no images for stages behind the first
  nn::TextInputs text;
  std::vector<Tensor> targets;  ///< i32 [rows] of each output
  Tensor ids;                   ///< i64 [N]
};

/// Brings the samples of a step's parts to a device, as a model, or the part of one that the device has, reads them.
///
/// A step comes with the ids of its samples and, for what doesn't lie on the device, with numbers (i32): text, labels,
/// or images. `count_numbers` and `write_numbers` say which; the step's exchange carries them. Used by the device's
/// rank thread.
class PartReader {
 public:
  /// `dtype`: of images.
  PartReader(Device& device, nn::Model& model, StepExchange& exchange, DType dtype)
      : device_(device), model_(model), exchange_(exchange), dtype_(dtype) {}

  /// How many numbers come with a part.
  int64_t count_numbers(const BatchPart& part);
  /// Writes them; returns what follows.
  int32_t* write_numbers(const BatchPart& part, int32_t* out);
  /// From where `part` begins to where the next one does.
  void go_past(PartPlace& place, const BatchPart& part);

  /// The samples of one of the step's parts, as these stages of the model need them.
  ModelSamples samples_of(const BatchPart& part, const PartPlace& place, const nn::StageRange& stages = {});
  /// Those of any part, which is uploaded now.
  ModelSamples uploaded(const BatchPart& part, const nn::StageRange& stages = {});

 private:
  /// Whether a part's images come to the device with each step: they don't lie there. Copies the data set there where
  /// it fits and hasn't been.
  bool sends_images(const BatchPart& part);
  /// Whether its labels do: its images are read on another device, or in other stages, than its losses are computed.
  bool sends_labels(const BatchPart& part) const;
  /// `numbers`: those that come with the part, on the device.
  ModelSamples decoded(const BatchPart& part, const Tensor& ids, const Tensor& numbers, const nn::StageRange& stages);

  Device& device_;
  nn::Model& model_;
  StepExchange& exchange_;
  DType dtype_;
};

/// Values as a plain tensor of the device, of `dtype`, which T is stored as.
template <class T>
Tensor uploaded_values(Device& device, DType dtype, const std::vector<T>& values) {
  const Tensor tensor = Tensor::empty(device, {static_cast<int64_t>(values.size())}, {.dtype = dtype});
  device.upload(tensor.raw(), values.data(), tensor.bytes());
  return tensor;
}

}  // namespace dptrain::parallel
