#pragma once

#include <cstdint>
#include <exception>
#include <map>
#include <string>
#include <vector>

#include "parallel/score.h"
#include "train/experiment.h"
#include "train/stop_signal.h"

namespace dptrain::train {

/// The results of a strategy in one training step, on the host and in plain element order.
struct StepTrace {
  struct Stage {
    std::string name;
    /// The stage's output for each sample, by the sample's number in the data set. BERT's last stage outputs the rows
    /// that its head reads; of these only the first token's row is kept.
    std::map<int64_t, std::vector<float>> samples = {};
  };
  std::map<int, Stage> stages;  ///< by number in the model
  /// By parameter, as optimizers receive them. If several ranks each have the whole gradient, every different one is
  /// kept.
  std::map<std::string, std::vector<std::vector<float>>> gradients;
  /// By parameter, the part of the gradients that ranks together keep for the next step instead of sending it. Only
  /// with TraceOptions::unsent.
  std::map<std::string, std::vector<float>> unsent;
  parallel::Score score;
  parallel::StepNumbers numbers;
};

struct Trace {
  std::vector<StepTrace> steps;
  std::vector<nn::NamedValues> state;  ///< after the steps: weights and running statistics
};

/// The order in which the samples of a micro-batch are computed. It only changes the order in which numbers are summed
/// over samples.
enum class SampleOrder {
  drawn,
  odd_places_first,
  reversed,
};

struct TraceOptions {
  int64_t steps = 1;
  SampleOrder order = SampleOrder::drawn;  ///< other orders than `drawn` only work under `single`
  int nudge_roundings = 0;                 ///< how many roundings the initial weights are off; see nudge_weights
  parallel::PlantedFault planted = parallel::PlantedFault::none;
  bool unsent = false;  ///< keep StepTrace::unsent of the first step; no step before it has any
  const StopSignal* stop = nullptr;
};

/// Thrown between two steps if a trace was asked to stop; there is no result.
class TraceStopped final : public std::exception {
 public:
  const char* what() const noexcept override { return "stopped by a signal"; }
};

/// Trains an experiment's first steps from the beginning and keeps everything that they compute. Short batches at an
/// epoch's end are left out, so that every step has the same number of samples. Throws as a training run does, but
/// doesn't throw when it diverges. Throws TraceStopped if `stop` is no longer 0.
Trace trace_of(const Experiment& experiment, const Datasets& data, const TraceOptions& options);

}  // namespace dptrain::train
