#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include "config/config_reader.h"
#include "data/dataset.h"
#include "optim/schedule.h"

namespace dptrain::train {

/// By what a training chooses its best epoch.
enum class Monitor { loss, accuracy };

/// Samples that are held out of the training set, by whose evaluations the best epoch is chosen, and a training that
/// doesn't get better ends.
struct ValidationSettings {
  int64_t samples = 0;  ///< 0: none are held out
  Monitor monitor = Monitor::loss;
  std::optional<int64_t> patience = {};  ///< so many evaluations in a row without a better one end the training
};

const char* monitor_name(Monitor monitor);

/// Reads `validation`, which some schedules need. `eval_every`: epochs between evaluations, 0 for none; `epochs`: of
/// the training, if it is known.
ValidationSettings read_validation(ConfigReader& config, const optim::ScheduleSpec& schedule, int64_t eval_every,
                                   std::optional<int64_t> epochs);

/// Opens what `open` does without the samples that are held out, which are its `validation`. Throws 78, naming `where`,
/// for more of them than there are.
std::function<Datasets()> opening_with(const ValidationSettings& settings, std::function<Datasets()> open,
                                       const std::string& where);

}  // namespace dptrain::train
