#include "train/normalized_samples.h"

#include <fmt/format.h>

#include <algorithm>

#include "autograd/tape.h"
#include "base/error.h"
#include "device/device.h"
#include "device/operator_log.h"
#include "train/model_facts.h"
#include "train/strategy_context.h"

namespace dptrain::train {
namespace {

/// The smallest number of samples that a batch norm gets from a batch. Parts without samples don't count.
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
  const int64_t least = least_normalized(experiment, std::min(experiment.batch_size, data.samples()));
  if (least > 1 || experiment.model.text || !facts_of(experiment, data).batch_norms) return;
  // Finds the inputs of the batch norms for one sample, in a training pass that computes nothing and logs its
  // operators.
  const auto device = open_device(experiment.devices.front(), {.counts_only = true});
  const auto model = experiment.model.build({.device = *device, .convolution = experiment.convolution},
                                            strategy_context(experiment, data).replica.input);
  model->place(*device, {});
  device->operator_log()->clear();
  Tape tape(Tape::Mode::forget);
  const auto& image = dynamic_cast<const ImageDataset&>(data).image_shape();
  model->forward(tape.input(Tensor::empty(*device, {1, image[0], image[1], image[2]})),
                 {.tape = tape,
                  .training = true,
                  .epoch = Tensor::empty(*device, {1}, {.dtype = DType::i32}),
                  .sample_ids = Tensor::empty(*device, {1}, {.dtype = DType::i64})});
  for (const OperatorCost& cost : device->operator_log()->costs()) {
    const std::string x = cost.operands.substr(0, cost.operands.find(']') + 1);
    if (cost.name != "batch_norm" || !x.ends_with(", 1, 1]")) continue;
    throw Error(ExitCode::config,
                Mistake{.where = experiment.model.name,
                        .expected = fmt::format("its batch norm of {} features, or channels of 1x1 images, needs more "
                                                "than one value of each in training",
                                                x.substr(4, x.find(", 1, 1]") - 4)),
                        .got = "one sample at a time",
                        .advice = "give every device two or more samples of each micro-batch by a change of "
                                  "batch_size, accumulate or devices"});
  }
}

}  // namespace dptrain::train
