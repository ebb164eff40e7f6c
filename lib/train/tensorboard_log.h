#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tensor/precision.h"
#include "train/event_record.h"
#include "train/metrics.h"
#include "train/run_directory.h"

namespace dptrain::train {

/// Tells TensorBoard of a training, in the `tb` folder of its run. Each call throws as RunDirectory's do.
class TensorboardLog {
 public:
  /// `directory` outlives this. `first_step`: that the training begins or goes on with. Nothing is written before there
  /// is something to tell: then that a session begins is, too, and the configuration, as a text of that step.
  TensorboardLog(RunDirectory& directory, int64_t first_step, Precision precision)
      : directory_(directory), first_step_(first_step), precision_(precision) {}

  /// `line`: what steps.jsonl says of the step.
  void add_step(int64_t step, const std::string& line);
  /// Syncs the steps before as well.
  void add_epoch(const EpochMetrics& metrics);

 private:
  void add(int64_t step, const std::vector<TaggedScalar>& scalars, Sync sync);

  RunDirectory& directory_;
  int64_t first_step_;
  Precision precision_;
  bool has_begun_ = false;
};

}  // namespace dptrain::train
