#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "data/dataset.h"
#include "data/image_files.h"
#include "nn/model.h"
#include "parallel/rank_team.h"
#include "train/confusion_matrix.h"
#include "train/experiment.h"

namespace dptrain::train {

/// A class that a model predicts for an image.
struct Prediction {
  int64_t predicted_class = 0;
  double probability = 0;  ///< of that class, 0 to 1
};

/// The `count` classes with the largest logits (or all, if there are fewer), the most likely first and equal ones in
/// their order. Probabilities are the softmax in double: exp(logit - largest) / sum_i exp(logit_i - largest).
std::vector<Prediction> likeliest(std::span<const float> logits, size_t count);

/// An experiment's model with the weights of a checkpoint, on the first of the experiment's devices.
class Predictor {
 public:
  /// Opens the data set and then the device. The data set's images define the model's input and its normalization.
  /// `weights` is a file that find_weights has found. Throws 78 for a model or a data set of text and for a model that
  /// the data doesn't fit, 65 for weights of another model, 71 for the device or its memory, and as reading the weights
  /// and opening the data set do.
  Predictor(const Experiment& experiment, const std::filesystem::path& weights);

  /// A name for each class of the data set; empty if classes only have numbers.
  const std::vector<std::string>& class_names() const { return class_names_; }

  using Take = std::function<void(int64_t index, std::span<const Prediction>)>;
  /// Calls `take` for each image, in order, with its `count` most likely classes. Throws as reading images does; the
  /// blocks before have then been taken. Images are always computed in blocks of 64, even the last ones, so that an
  /// image's prediction doesn't depend on the file that it is in.
  void predict(const ImageFiles& images, size_t count, const Take& take);

  /// The hash of all tensors that it computes with, as train::weights_hash.
  std::string weights_hash();

  /// The result on the test split.
  struct Evaluation {
    double mean_loss = 0;  ///< the cross-entropy of the labels
    ConfusionMatrix classes;
  };
  Evaluation evaluate();

 private:
  /// Images [C, H, W]. `read` writes the bytes of image `index`; `name` returns its name for messages.
  struct Images {
    int64_t count = 0;
    std::function<void(int64_t index, std::span<uint8_t> pixels)> read;
    std::function<std::string(int64_t index)> name;
  };
  /// Calls `take` with the logits of each image, in order.
  void infer(const Images& images, const std::function<void(int64_t index, std::span<const float> logits)>& take);
  /// The logits [64, classes] of bytes [64, C, H, W].
  std::vector<float> logits_of(std::span<const uint8_t> pixels);

  DType dtype_;
  PictureForm form_;
  std::vector<std::string> class_names_;
  std::shared_ptr<const ImageDataset> test_;
  std::optional<parallel::RankTeam> team_;
  std::unique_ptr<nn::Model> model_;
  Tensor table_;  ///< f32 [C, 256]: the normalized value of each byte, by channel
};

}  // namespace dptrain::train
