#include "train/normalized_samples.h"

#include <algorithm>

#include "autograd/tape.h"
#include "device/device.h"
#include "train/model_facts.h"
#include "train/strategy_context.h"

namespace dptrain::train {
namespace {

/// The fewest samples that a batch norm gets of a batch, of parts that get any.
int64_t least_normalized(const Experiment& experiment, int64_t batch) {
  const int64_t micro = std::max<int64_t>(1, batch / (experiment.accumulate * experiment.strategy.micro_batches));
  if (experiment.batch_norm == parallel::BatchNormMode::sync) return micro;
  const BatchSplit split = experiment.shards > 0      ? BatchSplit::even(experiment.shards)
                           : experiment.split.weights ? *experiment.split.weights
                                                      : BatchSplit::even(experiment.strategy.parts);
  int64_t least = micro;
  for (int part = 0; part < split.parts(); ++part) {
    const auto [begin, end] = split.range(part, micro);
    if (end > begin) least = std::min(least, end - begin);
  }
  return least;
}

}  // namespace

void require_samples_to_normalize(const Experiment& experiment, const Dataset& data) {
  const int64_t whole = std::min(experiment.batch_size, data.samples()), rest = data.samples() % whole;
  const int64_t least =
      std::min(least_normalized(experiment, whole), rest > 0 ? least_normalized(experiment, rest) : whole);
  if (least > 1 || experiment.model.text || !facts_of(experiment, data).batch_norms) return;
  // The layers themselves know what arrives at them: a training pass of one sample that computes nothing.
  const auto device = open_device(experiment.devices.front(), {.counts_only = true});
  const auto model = experiment.model.build({.device = *device, .convolution = experiment.convolution},
                                            strategy_context(experiment, data).replica.input);
  model->place(*device, {});
  Tape tape(Tape::Mode::forget);
  const auto& image = dynamic_cast<const ImageDataset&>(data).image_shape();
  model->forward(tape.input(Tensor::empty(*device, {1, image[0], image[1], image[2]})),
                 {.tape = tape, .training = true});
}

}  // namespace dptrain::train
