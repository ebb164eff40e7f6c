#pragma once

#include "config/config_reader.h"
#include "config_flags.h"
#include "train/experiment.h"

namespace dptrain::app {

/// The experiment that a command's configuration describes, and how it was read.
struct ReadExperiment {
  explicit ReadExperiment(const ConfigFlags& flags, train::ConfigJob job = {});

  ConfigNode config;  ///< the file with its overrides
  train::Experiment experiment;
  ConfigSession session;
  /// Whether --dump-config has printed the resolved configuration, so that nothing is left to do.
  bool dumped = false;
};

}  // namespace dptrain::app
