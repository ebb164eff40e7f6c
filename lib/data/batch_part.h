#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "data/dataset.h"
#include "data/sample_threads.h"
#include "ops/augmented_image.h"
#include "tensor/tensor.h"

namespace dptrain {

/// The text of n samples of S tokens each, on the host. A row is a token: sample n's are n*S to (n+1)*S - 1.
struct TextPart {
  std::vector<int32_t> tokens;    ///< n * S
  std::vector<int32_t> segments;  ///< n * S
  std::vector<int32_t> lengths;   ///< n: tokens before the padding
  /// In training the rows whose token is to be predicted, and row 0 again and again up to a multiple of
  /// kPredictedRows, so that shapes repeat; empty for all rows.
  std::vector<int32_t> predicted;
};

/// What the number of predicted rows is brought up to a multiple of.
inline constexpr int64_t kPredictedRows = 64;

/// What a part is loaded for.
struct PartOptions {
  ops::Augmentations augmentations = {};  ///< how images are changed; by default they aren't
  int64_t epoch = 1;
  SampleThreads* threads = nullptr;  ///< that load; by default the caller's
};

/// The samples of one part of a batch: those of one device.
struct BatchPart {
  /// f32 [n, C, H, W], plain, on the part's CPU worker. Undefined for a GPU, which decodes its images itself from
  /// `dataset` (see images_on_device.h).
  Tensor images;
  const ImageDataset* dataset = nullptr;
  TextPart text;
  /// For each output of the model the labels of its rows, those ignored negative. Images: a class a sample. Text: the
  /// token of each predicted row, and whether the second sentence follows the first, a sample.
  std::vector<std::vector<int32_t>> targets;
  /// n: their numbers in the data set, which random draws are keyed by.
  std::vector<int64_t> sample_ids;
  ops::Augmentations augmentations = {};  ///< of its images; a GPU applies them as it decodes
  int64_t samples() const { return static_cast<int64_t>(sample_ids.size()); }
};

/// Brings the number of predicted rows up to a multiple of kPredictedRows, by rows whose label is ignored.
void pad_predicted(BatchPart& part);

/// The labels of each output that count.
std::vector<int64_t> counted_labels(const BatchPart& part);
/// Those that a part of these samples would have, which isn't loaded: of images all; of text what is predicted of them.
std::vector<int64_t> counted_labels(const Dataset& dataset, std::span<const int64_t> samples,
                                    const PartOptions& options);

/// Puts these samples, in this order, into memory of `device`; there may be none. Complete when it returns;
/// for a GPU only images' numbers and labels are put together. `dataset` must outlive the part.
/// Throws 71 where the device has no memory left.
BatchPart load_part(const Dataset& dataset, std::span<const int64_t> samples, Device& device,
                    const PartOptions& options = {});

/// The same without images, for who needs their labels alone.
BatchPart load_part_without_images(const Dataset& dataset, std::span<const int64_t> samples,
                                   const PartOptions& options = {});

/// Which rows of a text are predicted.
enum class PredictedRows {
  all,
  masked,  ///< those whose label counts, as in training
};

/// Samples begin to end - 1 in the order of the data set: what an evaluation reads.
BatchPart load_block(const Dataset& dataset, int64_t begin, int64_t end, Device& device,
                     PredictedRows rows = PredictedRows::all);
/// The same without images, for devices that don't read them.
BatchPart load_block_without_images(const Dataset& dataset, int64_t begin, int64_t end,
                                    PredictedRows rows = PredictedRows::all);

}  // namespace dptrain
