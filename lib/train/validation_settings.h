#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include "config/config_reader.h"
#include "data/dataset.h"
#include "optim/schedule.h"

namespace dptrain::train {

/// The criterion for a training run's best epoch.
enum class Monitor { loss, accuracy };

/// Settings of the samples that are held out of the training set. Evaluations on them determine the best epoch, and end
/// a training run that no longer improves.
struct ValidationSettings {
  int64_t samples = 0;  ///< 0: none
  Monitor monitor = Monitor::loss;
  /// The number of evaluations in a row without a better one that ends the training.
  std::optional<int64_t> patience = {};
};

const char* monitor_name(Monitor monitor);

/// Reads `validation`, which some schedules need. `eval_every`: epochs between evaluations, 0 for none; `epochs`: the
/// length of the training, if it is known.
ValidationSettings read_validation(ConfigReader& config, const optim::ScheduleSpec& schedule, int64_t eval_every,
                                   std::optional<int64_t> epochs);

/// Returns a function that opens the data of `open` and moves the held-out samples to `validation`. It throws 78,
/// naming `where`, if there are fewer samples than are held out.
std::function<Datasets()> opening_with(const ValidationSettings& settings, std::function<Datasets()> open,
                                       const std::string& where);

}  // namespace dptrain::train
