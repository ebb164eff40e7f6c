// A batch norm over one value per channel outputs its bias, and the layers before it learn nothing. A configuration
// that would train like that is refused. A last batch of one sample isn't.
#include "train/normalized_samples.h"

#include <gtest/gtest.h>

#include "support/expect_error.h"
#include "support/process.h"
#include "train/experiment_of.h"

namespace dptrain::train {
namespace {

using Overrides = std::vector<std::string>;

/// Images are 1x1 at the batch norm, inside a residual block.
constexpr const char* kOnePixel =
    "model={layers: [conv: {channels: 4, kernel: 16}, residual: [conv: {channels: 4, kernel: 1}, batch_norm], relu, "
    "flatten, linear: classes]}";
constexpr const char* kFeatures = "model={layers: [flatten, linear: 6, batch_norm, relu, linear: classes]}";
constexpr const char* kManyPixels =
    "model={layers: [conv: {channels: 4, kernel: 3}, batch_norm, relu, flatten, linear: classes]}";

void require(const char* model, Overrides overrides) {
  overrides.insert(overrides.begin(), model);
  const Experiment experiment = experiment_of(overrides);
  require_samples_to_normalize(experiment, *experiment.dataset.open().train);
}

/// Settings in which a batch norm sees one sample at a time, of 40 samples in all.
const Overrides kOneSample[] = {{"batch_size=2"},
                                {"batch_size=1", "devices=cpu:0", "strategy=single"},
                                {"batch_size=16", "accumulate=8"},
                                {"batch_size=4", "devices=cpu:0", "accumulate=4"},
                                {"batch_size=8", "split=[7, 1]"},
                                {"batch_size=8", "shards=8"},
                                {"batch_size=8", "strategy={name: model_parallel, micro_batches: 8}"}};

TEST(NormalizedSamples, OneOfOnePixelIsRefusedWithItsLayer) {
  for (const Overrides& overrides : kOneSample) {
    SCOPED_TRACE(::testing::PrintToString(overrides));
    testing::expect_error(ExitCode::config,
                          {"batch norm of 4 features, or channels of 1x1 images", "more than one value of each",
                           "one sample at a time", "batch_size"},
                          [&] { require(kOnePixel, overrides); });
    testing::expect_error(ExitCode::config, {"batch norm of 6 features"}, [&] { require(kFeatures, overrides); });
    require(kManyPixels, overrides);
  }
}

TEST(NormalizedSamples, NeedNoneOfTheStepsValuesForThat) {
  // Dropout needs the epoch and sample ids.
  require("model={layers: [conv: {channels: 4, kernel: 3}, batch_norm, relu, dropout: 0.1, flatten, linear: classes]}",
          {"batch_size=2"});
}

TEST(NormalizedSamples, TwoAreEnough) {
  for (const Overrides& overrides :
       {Overrides{"batch_size=4"}, Overrides{"batch_size=2", "batch_norm=sync"}, Overrides{"batch_size=20"},
        Overrides{"batch_size=38", "devices=cpu:0"}, Overrides{"batch_size=20", "shards=8"}}) {
    SCOPED_TRACE(::testing::PrintToString(overrides));
    require(kOnePixel, overrides);
    require(kFeatures, overrides);
  }
}

}  // namespace
}  // namespace dptrain::train
