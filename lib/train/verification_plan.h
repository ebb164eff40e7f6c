#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "config/config_node.h"
#include "parallel/compression_options.h"
#include "train/experiment.h"

namespace dptrain::train {

/// A strategy for the experiment that is compared with `single`.
struct PlannedRow {
  std::string name;        ///< "ddp, overlap: false"
  std::string unfit = {};  ///< why it can't be compared; the other members then mean nothing
  Experiment experiment = {};
  /// Micro-batches of the `single` that passes the same samples at a time as this strategy.
  int64_t micro_batches = 1;
  /// Logical shards of the `single` that it must match bit for bit; 0: none.
  int shards = 0;
  bool differs_by_design = false;
  /// With `compress`: later steps differ by design, and the first step keeps gradients that it doesn't send yet.
  parallel::CompressionOptions::Method compression = parallel::CompressionOptions::Method::none;
};

struct VerificationPlan {
  Datasets data;
  Experiment single;  ///< on the first device with the threads of all
  std::vector<PlannedRow> rows;
};

/// Plans the rows of a verification: the strategies that the configuration's devices allow, those that they don't allow
/// (with the reason), and the configuration's own strategy if it has options. Throws 78 for mistakes in the
/// configuration and for a model that the data doesn't fit, 71 for a missing device, and what opening the data throws.
/// `default_name` names the experiment if the configuration doesn't.
/// - Batch norms are `sync`. If the configuration has another kind, a further row has that.
/// - Rows have no `shards`. If the configuration has them, further rows are `single` with shards, and every strategy
///   that supports them, which is compared with that `single`.
/// - Nothing is measured. Pipelines are cut as in verified_cut.h, batches are split as written, except for pipelines,
///   and `strategy: auto` becomes the default strategy.
/// - Links and memory limits are ignored, because they change no number.
VerificationPlan plan_verification(const ConfigNode& config, const std::string& default_name);

}  // namespace dptrain::train
