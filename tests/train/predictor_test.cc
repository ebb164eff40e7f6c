#include "train/predictor.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "support/expect_error.h"
#include "support/idx_files.h"
#include "support/test_device.h"
#include "train/experiment_of.h"
#include "train/safetensors.h"

namespace dptrain::train {
namespace {

using testing::expect_error;
using testing::idx_header;

Prediction prediction_of(std::span<const float> logits) { return likeliest(logits, 1).at(0); }

TEST(PredictionOf, IsTheSoftmaxOfTheLargestLogit) {
  const Prediction prediction = prediction_of(std::array{1.0f, 3.0f, 2.0f});
  EXPECT_EQ(prediction.predicted_class, 1);
  // Two exponentials, two sums and a quotient, each rounded to 1e-16.
  EXPECT_NEAR(prediction.probability, 1 / (1 + std::exp(-2.0) + std::exp(-1.0)), 1e-15);
}

TEST(PredictionOf, LargeLogitsDontOverflow) {
  const float largest = std::numeric_limits<float>::max();
  EXPECT_EQ(prediction_of(std::array{-largest, largest}).probability, 1.0);
  EXPECT_EQ(prediction_of(std::array{1e4f, 1e4f}).probability, 0.5);
}

TEST(PredictionOf, TheFirstOfEqualsIsTaken) {
  EXPECT_EQ(prediction_of(std::array{0.0f, 2.0f, 2.0f}).predicted_class, 1);
}

TEST(Likeliest, ComeInOrderAndAddUpToOne) {
  const auto all = likeliest(std::array{0.5f, 2.0f, -1.0f, 2.0f}, 9);
  ASSERT_EQ(all.size(), 4u);
  double sum = 0;
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(all[i].predicted_class, (std::array{1, 3, 0, 2})[i]);
    sum += all[i].probability;
  }
  EXPECT_NEAR(sum, 1, 1e-15);
  EXPECT_EQ(likeliest(std::array{0.5f, 2.0f, -1.0f}, 2).back().predicted_class, 0);
}

class PredictorTest : public ::testing::Test {
 protected:
  /// The predictions for an IDX file.
  std::vector<Prediction> predictions(Predictor& predictor, const std::string& idx) const {
    std::vector<Prediction> found;
    const auto take = [&](int64_t index, std::span<const Prediction> likeliest) {
      EXPECT_EQ(index, static_cast<int64_t>(found.size()));
      found.push_back(likeliest.front());
    };
    predictor.predict(ImageFiles(folder_.write("images", idx)), 1, take);
    return found;
  }
  /// The initial weights of the experiment's model, for images of [1, 16, 16].
  std::filesystem::path weights_of(const Experiment& experiment) const {
    const auto device = testing::test_device();
    const auto model = experiment.model.build({.device = *device}, {.image = {1, 16, 16}});
    model->place(*device, experiment.initialization);
    const auto file = folder_.path() / "begin.safetensors";
    write_safetensors(file, nn::state_dict(*model));
    return file;
  }

  testing::ScratchFolder folder_;
};

// A linear model of three-channel images, with a mean and a deviation per channel, computed by hand.
TEST_F(PredictorTest, PredictsWhatTheNormalizedBytesGive) {
  const std::array mean = {0.5, 0.25, 0.0}, deviation = {0.5, 1.0, 2.0};
  const Experiment experiment = experiment_of(
      {"model={layers: [flatten, linear: {name: fc, features: classes}]}",
       "dataset={name: synthetic, samples: 16, test_samples: 1, shape: [3, 1, 2], classes: 4, normalize: {mean: [0.5, "
       "0.25, 0.0], std: [0.5, 1.0, 2.0]}}"});
  std::vector<float> weight(4 * 6);
  for (size_t i = 0; i < weight.size(); ++i) weight[i] = static_cast<float>(static_cast<int>(i * 11 % 17) - 8) / 8;
  const std::vector<float> bias = {0.5f, -0.25f, 0.0f, 0.125f};
  const auto file = folder_.path() / "net.safetensors";
  write_safetensors(file, {{.name = "fc.weight", .shape = {4, 6}, .values = weight},
                           {.name = "fc.bias", .shape = {4}, .values = bias}});

  const std::vector<std::array<uint8_t, 2>> images = {{0, 255}, {255, 0}, {17, 99}, {255, 255}, {0, 0}};
  std::string idx = idx_header({0x803, 5, 1, 2});
  for (const auto& image : images) idx.append(image.begin(), image.end());
  Predictor predictor(experiment, file);
  const auto found = predictions(predictor, idx);
  ASSERT_EQ(found.size(), images.size());
  for (size_t n = 0; n < images.size(); ++n) {
    std::array<double, 4> logits{};
    for (size_t k = 0; k < 4; ++k) {
      logits[k] = bias[k];
      for (size_t i = 0; i < 6; ++i)
        logits[k] += weight[k * 6 + i] * (images[n][i % 2] / 255.0 - mean[i / 2]) / deviation[i / 2];
    }
    const auto largest = std::ranges::max_element(logits);
    double sum = 0;
    for (const double logit : logits) sum += std::exp(logit - *largest);
    EXPECT_EQ(found[n].predicted_class, largest - logits.begin()) << n;
    // The sums have seven terms up to 2, in float32.
    EXPECT_NEAR(found[n].probability, 1 / sum, 1e-6) << n;
  }
}

// The model is ResNet-18, whose convolutions choose their order of sums by the number of images.
TEST_F(PredictorTest, AnImagesPredictionDoesntDependOnItsFile) {
  const Experiment experiment = experiment_of({"model=resnet18"});
  Predictor predictor(experiment, weights_of(experiment));
  std::string all = idx_header({0x803, 130, 16, 16});
  for (int pixel = 0; pixel < 130 * 256; ++pixel) all += static_cast<char>((pixel * 7 + pixel / 256 * 13) % 256);
  const auto together = predictions(predictor, all);
  ASSERT_EQ(together.size(), 130u);
  for (const size_t n : {0u, 1u, 63u, 64u, 129u}) {
    const auto alone = predictions(predictor, idx_header({0x803, 1, 16, 16}) + all.substr(16 + n * 256, 256));
    ASSERT_EQ(alone.size(), 1u);
    EXPECT_EQ(alone[0].predicted_class, together[n].predicted_class) << n;
    EXPECT_EQ(alone[0].probability, together[n].probability) << n;
    EXPECT_NE(alone[0].probability, together[2].probability) << "images differ, and so do their figures";
  }
}

TEST_F(PredictorTest, ClassifiesAsTheEvaluationDoes) {
  for (const char* precision : {"precision=fp32", "precision=bf16"}) {
    SCOPED_TRACE(precision);
    const Experiment experiment = experiment_of({"dataset.test_samples=333", precision});
    const Datasets data = experiment.dataset.open();
    const auto& test = dynamic_cast<const ImageDataset&>(*data.test);
    const auto file = weights_of(experiment);
    Trainer trainer(experiment, data);
    trainer.load_weights(read_safetensors(file), file.string());
    std::string idx = idx_header({0x803, 333, 16, 16});
    std::vector<uint8_t> pixels(static_cast<size_t>(test.samples() * test.image_shape().elements()));
    test.pixels(0, pixels);
    idx.append(pixels.begin(), pixels.end());
    Predictor predictor(experiment, file);
    int64_t right = 0, index = 0;
    for (const Prediction& prediction : predictions(predictor, idx))
      right += prediction.predicted_class == test.label(index++);
    const Pass evaluated = trainer.evaluate();
    EXPECT_EQ(right, evaluated.score.outputs.at(0).correct);
    const Predictor::Evaluation by_class = predictor.evaluate();
    EXPECT_EQ(by_class.classes.all(), 333);
    EXPECT_DOUBLE_EQ(by_class.classes.accuracy(), static_cast<double>(right) / 333);
    EXPECT_NEAR(by_class.mean_loss, evaluated.score.mean_loss(), 1e-6 * evaluated.score.mean_loss());
    for (int64_t label = 0; label < 10; ++label)
      EXPECT_EQ(by_class.classes.samples(label), 33 + (label < 3 ? 1 : 0)) << "sample i has label i % 10";
  }
}

TEST_F(PredictorTest, ModelsAndDataOfTextAreRefusedBeforeAnythingIsRead) {
  expect_error(ExitCode::config, {"test: expected a model and a data set of images, got bert on mnist"}, [] {
    Predictor(experiment_of({"model=bert", "dataset=mnist"}), "/no/such/weights");
  });
  expect_error(ExitCode::config, {"got lenet on text", "dptrain eval"},
               [] { Predictor(experiment_of({"dataset=text"}), "/no/such/weights"); });
}

TEST_F(PredictorTest, WeightsOfAnotherModelAreRefused) {
  const Experiment lenet = experiment_of();
  const auto file = weights_of(lenet);
  expect_error(ExitCode::bad_data, {file.string()}, [&] { Predictor(experiment_of({"model=resnet18"}), file); });
  expect_error(ExitCode::missing_file, {"/no/such/weights"}, [&] { Predictor(lenet, "/no/such/weights"); });
}

}  // namespace
}  // namespace dptrain::train
