#include "train/first_statistics.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "base/error.h"
#include "train/model_facts.h"

namespace dptrain::train {
namespace {

using parallel::BatchNormMode;

/// Whether the statistics of only one part are kept, if the model has any. By default shards keep a mean of all parts,
/// and so do replicas that are averaged.
bool keeps_those_of_one(const Experiment& experiment) {
  if (experiment.strategy.averaging) return false;
  return experiment.batch_norm == BatchNormMode::first ||
         (experiment.batch_norm == BatchNormMode::local && experiment.shards == 0);
}

int64_t samples_of_step(const Experiment& experiment, const Dataset& data) {
  return std::min(experiment.batch_size, data.samples());
}

int64_t micro_batches(const Experiment& experiment) {
  return experiment.accumulate * experiment.strategy.micro_batches;
}

}  // namespace

void require_first_samples(const Experiment& experiment, const Dataset& data) {
  if (!keeps_those_of_one(experiment)) return;
  const BatchSplit split = experiment.shards > 0      ? BatchSplit::even(experiment.shards)
                           : experiment.split.weights ? *experiment.split.weights
                                                      : BatchSplit::even(experiment.strategy.parts);
  const int64_t count = micro_batches(experiment);
  const int64_t largest = (samples_of_step(experiment, data) + count - 1) / count;
  if (split.range(0, largest).second > 0 || !facts_of(experiment, data).batch_norms) return;
  std::string advice = experiment.shards > 0      ? "use a larger batch or accumulate less"
                       : experiment.split.weights ? "give it more weight in split"
                                                  : "train on more samples or on fewer devices";
  if (experiment.strategy.in_step) advice += ", or write batch_norm: average";
  throw Error(
      ExitCode::config,
      Mistake{.where = "batch_norm",
              .expected = fmt::format(
                  "{} evaluates with the running statistics of the first {} only, expected samples for it in each step",
                  parallel::batch_norm_mode_name(experiment.batch_norm), experiment.shards > 0 ? "shard" : "device"),
              .got = fmt::format("none of the {} samples of a micro-batch", largest),
              .advice = advice});
}

BatchSplit with_first_samples(const BatchSplit& split, const Experiment& experiment, const Dataset& data) {
  const int64_t smallest = samples_of_step(experiment, data) / micro_batches(experiment);
  if (!keeps_those_of_one(experiment) || smallest < 2 || split.range(0, smallest).second > 0) return split;
  if (!facts_of(experiment, data).batch_norms) return split;
  // The smallest weight w with floor(w * smallest / (w + others)) >= 1.
  std::vector<int64_t> weights = split.weights();
  const int64_t others = std::accumulate(weights.begin() + 1, weights.end(), int64_t{0});
  weights[0] = (others + smallest - 2) / (smallest - 1);
  return BatchSplit(std::move(weights));
}

}  // namespace dptrain::train
