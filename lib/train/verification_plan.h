#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "config/config_node.h"
#include "parallel/compression_options.h"
#include "train/experiment.h"

namespace dptrain::train {

/// A way to share the steps of an experiment that is to be compared with `single`.
struct PlannedRow {
  std::string name;        ///< "ddp, overlap: false"
  std::string unfit = {};  ///< why it isn't compared; the rest then says nothing
  Experiment experiment = {};
  /// Micro-batches of `single` whose samples are those that a pass of this strategy sees.
  int64_t micro_batches = 1;
  /// Logical shards of the `single` that it is compared with, whose bits it has to have; 0: none.
  int shards = 0;
  bool differs_by_design = false;
  /// With `compress` of it later steps differ by design, and in the first one what isn't sent has a meaning.
  parallel::CompressionOptions::Method compression = parallel::CompressionOptions::Method::none;
};

struct VerificationPlan {
  Datasets data;
  Experiment single;  ///< on the first device with the threads of all
  std::vector<PlannedRow> rows;
};

/// The strategies that the configuration's devices allow, those that they don't with the reason, and its own where it
/// gives that options. Batch norms are `sync`; where the configuration has them otherwise, that is a further row. All
/// of these are without `shards`; where the configuration has them, `single` with them is a further row, and every
/// strategy that takes them one that is compared with that. Nothing is measured: pipelines are cut as verified_cut.h
/// says, batches are shared out as written, though not those of pipelines, and `strategy: auto` is the default. Links
/// and memory limits are left out, which change no number. `default_name` names the experiment where the configuration
/// doesn't. Throws 78 for mistakes in the configuration and for a model that the data doesn't fit, 71 for a device that
/// isn't there, and what opening the data throws.
VerificationPlan plan_verification(const ConfigNode& config, const std::string& default_name);

}  // namespace dptrain::train
