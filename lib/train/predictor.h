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

/// What a model says of an image and a class.
struct Prediction {
  int64_t predicted_class = 0;
  double probability = 0;  ///< of that class, 0 to 1
};

/// The `count` classes with the largest logits, or all where there are fewer, the likeliest first and of equals the
/// first, with their softmax in double: exp(logit - largest) / sum_i exp(logit_i - largest).
std::vector<Prediction> likeliest(std::span<const float> logits, size_t count);

/// The model of an experiment with the weights of a checkpoint, on the first of the experiment's devices.
class Predictor {
 public:
  /// Opens the data set, whose images say what the model takes and how they are normalized, then the device.
  /// `weights` is a file that find_weights has found. Throws 78 for a model or a data set of text and for a model that
  /// the data doesn't fit, 65 for weights of another model, 71 for the device or its memory, and as reading the weights
  /// and opening the data set do.
  Predictor(const Experiment& experiment, const std::filesystem::path& weights);

  /// A name for each class of the data set; empty where they have numbers alone.
  const std::vector<std::string>& class_names() const { return class_names_; }

  using Take = std::function<void(int64_t index, std::span<const Prediction>)>;
  /// Calls `take` for each of the images, in order, with the `count` likeliest classes. Throws as reading them does,
  /// those of the blocks before taken. An image's prediction is the same in whatever file it is: 64 of them are
  /// computed at a time, the last ones too.
  void predict(const ImageFiles& images, size_t count, const Take& take);

  /// As train::weights_hash has it, of all that it computes with.
  std::string weights_hash();

  /// What it says of the test split.
  struct Evaluation {
    double mean_loss = 0;  ///< the cross-entropy of the labels
    ConfusionMatrix classes;
  };
  Evaluation evaluate();

 private:
  /// Images [C, H, W], of which `read` writes the bytes of number `index`, and `name` is for messages.
  struct Images {
    int64_t count = 0;
    std::function<void(int64_t index, std::span<uint8_t> pixels)> read;
    std::function<std::string(int64_t index)> name;
  };
  /// Calls `take` with the logits of each, in order.
  void infer(const Images& images, const std::function<void(int64_t index, std::span<const float> logits)>& take);
  /// [64, classes] for bytes [64, C, H, W].
  std::vector<float> logits_of(std::span<const uint8_t> pixels);

  DType dtype_;
  PictureForm form_;
  std::vector<std::string> class_names_;
  std::shared_ptr<const ImageDataset> test_;
  std::optional<parallel::RankTeam> team_;
  std::unique_ptr<nn::Model> model_;
  Tensor table_;  ///< f32 [C, 256]: the normalized values of all bytes, by channel
};

}  // namespace dptrain::train
