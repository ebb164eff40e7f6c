#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "data/dataset.h"
#include "data/sample_threads.h"
#include "ops/augmented_image.h"
#include "tensor/tensor.h"

namespace dptrain {

/// The text of n samples of S tokens each, on the host. A row is a token: sample k has rows k*S to (k+1)*S - 1.
struct TextPart {
  std::vector<int32_t> tokens;    ///< n * S
  std::vector<int32_t> segments;  ///< n * S
  std::vector<int32_t> lengths;   ///< n: tokens before the padding
  /// In training, the rows whose token is to be predicted, followed by copies of row 0 up to a multiple of
  /// kPredictedRows, so that shapes repeat. Empty: all rows are predicted.
  std::vector<int32_t> predicted;
};

/// The number of predicted rows is padded to a multiple of this.
inline constexpr int64_t kPredictedRows = 64;

/// How a part is loaded.
struct PartOptions {
  ops::Augmentations augmentations = {};  ///< how images are changed; by default not at all
  int64_t epoch = 1;
  SampleThreads* threads = nullptr;  ///< the threads that load; by default the caller's thread alone
};

/// The samples of a batch that go to one device.
struct BatchPart {
  /// f32 [n, C, H, W], plain, on the part's CPU worker. Undefined for a GPU, which decodes its images itself from
  /// `dataset` (see images_on_device.h).
  Tensor images;
  const ImageDataset* dataset = nullptr;
  TextPart text;
  /// For each output of the model, the labels of its rows; ignored labels are negative. For images: the class of each
  /// sample. For text: the token of each predicted row, and for each sample whether the second sentence follows the
  /// first.
  std::vector<std::vector<int32_t>> targets;
  /// n: the samples' numbers in the data set, which random draws are keyed by.
  std::vector<int64_t> sample_ids;
  ops::Augmentations augmentations = {};  ///< for its images; a GPU applies them while it decodes
  int64_t samples() const { return static_cast<int64_t>(sample_ids.size()); }
};

/// Pads the predicted rows to a multiple of kPredictedRows with rows whose label is ignored.
void pad_predicted(BatchPart& part);

/// For each output, how many labels count.
std::vector<int64_t> counted_labels(const BatchPart& part);
/// The same counts for a part with these samples that isn't loaded. For images, all labels count; for text, those of
/// the predicted tokens.
std::vector<int64_t> counted_labels(const Dataset& dataset, std::span<const int64_t> samples,
                                    const PartOptions& options);

/// Loads these samples, in this order, into memory of `device`; there may be none. The part is complete on return. For
/// a GPU, only the images' numbers and labels are collected. `dataset` must outlive the part. Throws 71 if the device
/// has no memory left.
BatchPart load_part(const Dataset& dataset, std::span<const int64_t> samples, Device& device,
                    const PartOptions& options = {});

/// Loads a part without its images, for callers that need only the labels.
BatchPart load_part_without_images(const Dataset& dataset, std::span<const int64_t> samples,
                                   const PartOptions& options = {});

/// Which rows of a text are predicted.
enum class PredictedRows {
  all,
  masked,  ///< the rows whose label counts, as in training
};

/// Loads samples begin to end - 1 in the order of the data set, for an evaluation.
BatchPart load_block(const Dataset& dataset, int64_t begin, int64_t end, Device& device,
                     PredictedRows rows = PredictedRows::all);
/// Loads a block without its images, for devices that don't read them.
BatchPart load_block_without_images(const Dataset& dataset, int64_t begin, int64_t end,
                                    PredictedRows rows = PredictedRows::all);

}  // namespace dptrain
