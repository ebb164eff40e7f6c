#pragma once

#include <cstdint>
#include <exception>
#include <map>
#include <string>
#include <vector>

#include "parallel/strategy.h"
#include "train/experiment.h"
#include "train/stop_signal.h"

namespace dptrain::train {

/// What a strategy has computed in a training step, on the host and in plain order.
struct StepTrace {
  struct Stage {
    std::string name;
    /// By number in the data set, what the stage has made of each sample. Of BERT's last stage, which gives the rows
    /// that its head reads, that of the first token.
    std::map<int64_t, std::vector<float>> samples = {};
  };
  std::map<int, Stage> stages;  ///< by number in the model
  /// By parameter, as optimizers get it. Of ranks that each have all of it every different one.
  std::map<std::string, std::vector<std::vector<float>>> gradients;
  /// By parameter, what ranks together haven't sent of the gradients but keep for the next step; with
  /// TraceOptions::unsent.
  std::map<std::string, std::vector<float>> unsent;
  parallel::Score score;
  parallel::StepNumbers numbers;
};

struct Trace {
  std::vector<StepTrace> steps;
  std::vector<nn::NamedValues> state;  ///< after them: weights and running statistics
};

/// In what order the samples of a micro-batch are computed. Numbers that are summed over them are then added in another
/// order, and nothing else changes.
enum class SampleOrder {
  drawn,
  odd_places_first,
  reversed,
};

struct TraceOptions {
  int64_t steps = 1;
  SampleOrder order = SampleOrder::drawn;  ///< another one than drawn: of `single` alone
  int nudge_roundings = 0;                 ///< that weights begin off; see nudge_weights
  parallel::PlantedFault planted = parallel::PlantedFault::none;
  bool unsent = false;  ///< of the first step; before that there is nothing
  const StopSignal* stop = nullptr;
};

/// Ends a trace that was asked to stop: between two steps, with nothing to show.
class TraceStopped final : public std::exception {
 public:
  const char* what() const noexcept override { return "stopped by a signal"; }
};

/// Trains an experiment's first steps from the beginning and keeps all that they computed. Short batches at an epoch's
/// end are left out, so that every step has as many samples. Throws as a training does, but not where it diverges;
/// TraceStopped where `stop` isn't 0 any more.
Trace trace_of(const Experiment& experiment, const Datasets& data, const TraceOptions& options);

}  // namespace dptrain::train
