#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tensor/precision.h"
#include "train/event_record.h"
#include "train/metrics.h"
#include "train/run_directory.h"

namespace dptrain::train {

/// Writes the TensorBoard events of a training run to its `tb` folder. Each function throws as RunDirectory's do.
class TensorboardLog {
 public:
  /// `directory` must outlive this object. `first_step`: the first step of this start. Nothing is written before there
  /// is an event; then the beginning of the session and the configuration are written as well, the latter as a text of
  /// `first_step`.
  TensorboardLog(RunDirectory& directory, int64_t first_step, Precision precision)
      : directory_(directory), first_step_(first_step), precision_(precision) {}

  /// `line`: the step's line of steps.jsonl.
  void add_step(int64_t step, const std::string& line);
  /// Adds an epoch, and syncs it and all steps before to the disk.
  void add_epoch(const EpochMetrics& metrics);

 private:
  void add(int64_t step, const std::vector<TaggedScalar>& scalars, Sync sync);

  RunDirectory& directory_;
  int64_t first_step_;
  Precision precision_;
  bool has_begun_ = false;
};

}  // namespace dptrain::train
