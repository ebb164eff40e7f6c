#include "train/predictor.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/check.h"
#include "base/error.h"
#include "base/finite.h"
#include "nn/named_values.h"
#include "ops/decode_images.h"
#include "ops/reorder.h"
#include "train/evaluation_weights.h"
#include "train/safetensors.h"
#include "train/strategy_context.h"
#include "train/trainer.h"
#include "train/training_identity.h"

namespace dptrain::train {
namespace {

/// The number of images computed at a time.
constexpr int64_t kBlock = 64;

void require_images(const Experiment& experiment) {
  if (!experiment.model.text && experiment.dataset.has_images) return;
  throw Error(ExitCode::config, Mistake{.where = experiment.name,
                                        .expected = "expected a model and a data set of images",
                                        .got = fmt::format("{} on {}", experiment.model.name, experiment.dataset.name),
                                        .advice = "for models of text use dptrain eval without --by-class"});
}

void require_finite_logits(std::span<const float> logits, const std::string& images, int64_t index) {
  if (are_finite(logits)) return;
  throw Error(ExitCode::diverged, Mistake{.where = fmt::format("{}: image {}", images, index),
                                          .expected = "expected finite outputs of the model",
                                          .got = "NaN or infinity",
                                          .advice = "its training has diverged; use an earlier checkpoint"});
}

/// log(sum_i exp(logit_i)) - logit_label in double, for finite logits.
double cross_entropy(std::span<const float> logits, int32_t label) {
  const auto largest = static_cast<double>(std::ranges::max(logits));
  double sum = 0;
  for (const float logit : logits) sum += std::exp(static_cast<double>(logit) - largest);
  return largest + std::log(sum) - static_cast<double>(logits[static_cast<size_t>(label)]);
}

}  // namespace

std::vector<Prediction> likeliest(std::span<const float> logits, size_t count) {
  DPTRAIN_CHECK(!logits.empty(), "a prediction of no classes");
  std::vector<size_t> classes(logits.size());
  std::iota(classes.begin(), classes.end(), size_t{0});
  count = std::min(count, classes.size());
  const auto is_likelier = [&](size_t a, size_t b) {
    return logits[a] > logits[b] || (logits[a] == logits[b] && a < b);
  };
  std::ranges::partial_sort(classes, classes.begin() + static_cast<std::ptrdiff_t>(count), is_likelier);
  const auto largest = static_cast<double>(std::ranges::max(logits));
  const auto exponential = [&](float logit) { return std::exp(static_cast<double>(logit) - largest); };
  double sum = 0;
  for (const float logit : logits) sum += exponential(logit);
  std::vector<Prediction> found;
  for (size_t i = 0; i < count; ++i)
    found.push_back(
        {.predicted_class = static_cast<int64_t>(classes[i]), .probability = exponential(logits[classes[i]]) / sum});
  return found;
}

Predictor::Predictor(const Experiment& experiment, const std::filesystem::path& weights)
    : dtype_(compute_dtype(experiment.precision)) {
  require_images(experiment);
  require_same_model(experiment.model, weights);
  const auto tensors = read_evaluation_weights(weights);
  const Datasets data = experiment.dataset.open_whole();
  require_same_input(experiment, *data.train, weights);
  require_model_fits(experiment, *data.train);
  const auto& images = dynamic_cast<const ImageDataset&>(*data.train);
  form_ = {.shape = images.image_shape(), .scales = experiment.dataset.scales_pictures};
  class_names_ = images.class_names();
  test_ = std::dynamic_pointer_cast<const ImageDataset>(data.test);
  team_.emplace(parallel::RankTeam::Options{.devices = {experiment.devices.front()},
                                            .threads = {experiment.threads.front()},
                                            .memory_limit_bytes = experiment.memory_limit_bytes,
                                            .deterministic = experiment.deterministic,
                                            .tf32 = experiment.precision == Precision::tf32});
  std::vector<nn::NamedValues> expected;
  team_->run("start", [&](int rank) {
    Device& device = team_->device(rank);
    model_ = experiment.model.build({.device = device, .convolution = experiment.convolution},
                                    {.image = form_.shape, .classes = images.classes()});
    model_->place(device, experiment.initialization, dtype_);
    table_ = Tensor::from(device, {form_.shape[0], 256}, images.table());
    expected = nn::state_dict(*model_);
  });
  const auto complete = nn::with_tied_names(expected, tensors, weights.string());
  nn::require_same_tensors(expected, complete, weights.string());
  team_->run("loading the weights", [&](int) { nn::load_state_dict(*model_, complete); });
}

void Predictor::predict(const ImageFiles& images, size_t count, const Take& take) {
  infer({.count = images.count(),
         .read = [&](int64_t index, std::span<uint8_t> pixels) { images.read(index, form_, pixels); },
         .name = [&](int64_t index) { return images.file_of(index).string(); }},
        [&](int64_t index, std::span<const float> logits) { take(index, likeliest(logits, count)); });
}

std::string Predictor::weights_hash() {
  WeightsHash hash;
  team_->run("reading the weights",
             [&](int) { nn::for_each_state(*model_, [&](const nn::NamedValues& tensor) { hash.add(tensor); }); });
  return hash.hex_digest();
}

Predictor::Evaluation Predictor::evaluate() {
  Evaluation evaluation{.classes = ConfusionMatrix(test_->classes())};
  infer({.count = test_->samples(),
         .read = [&](int64_t index, std::span<uint8_t> pixels) { test_->pixels(index, pixels); },
         .name = [](int64_t) { return std::string("the test split"); }},
        [&](int64_t index, std::span<const float> logits) {
          const int32_t label = test_->label(index);
          evaluation.mean_loss += cross_entropy(logits, label) / static_cast<double>(test_->samples());
          evaluation.classes.count(label, std::ranges::max_element(logits) - logits.begin());
        });
  return evaluation;
}

void Predictor::infer(const Images& images,
                      const std::function<void(int64_t index, std::span<const float> logits)>& take) {
  const auto elements = static_cast<size_t>(form_.shape.elements());
  // Pixels after the last image are arbitrary, because no image's logits depend on another image.
  std::vector<uint8_t> pixels(kBlock * elements);
  for (int64_t begin = 0; begin < images.count; begin += kBlock) {
    const int64_t here = std::min(kBlock, images.count - begin);
    for (int64_t i = 0; i < here; ++i)
      images.read(begin + i, std::span(pixels).subspan(static_cast<size_t>(i) * elements, elements));
    const std::vector<float> logits = logits_of(pixels);
    const size_t classes = logits.size() / kBlock;
    for (int64_t i = 0; i < here; ++i) {
      const auto of_image = std::span(logits).subspan(static_cast<size_t>(i) * classes, classes);
      require_finite_logits(of_image, images.name(begin + i), begin + i);
      take(begin + i, of_image);
    }
  }
}

std::vector<float> Predictor::logits_of(std::span<const uint8_t> pixels) {
  std::vector<float> logits;
  team_->run("prediction", [&](int rank) {
    Device& device = team_->device(rank);
    const Tensor bytes =
        Tensor::empty(device, {kBlock, form_.shape[0], form_.shape[1], form_.shape[2]}, {.dtype = DType::u8});
    device.upload(bytes.raw(), pixels.data(), bytes.bytes());
    Tape tape(Tape::Mode::forget);
    const Variable x = tape.input(ops::decode_images(bytes, table_, Tensor(), {.dtype = dtype_}));
    logits = ops::converted(model_->forward(x, {.tape = tape}).value(), {.dtype = DType::f32}).values();
  });
  return logits;
}

}  // namespace dptrain::train
