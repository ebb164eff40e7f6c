#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "base/error.h"
#include "commands.h"
#include "config_flags.h"
#include "output.h"
#include "read_experiment.h"
#include "stop_signals.h"
#include "train/run_directory.h"
#include "train/verification.h"
#include "train/verification_report.h"

namespace dptrain::app {
namespace {

constexpr const char* kFaultVariable = "DPTRAIN_VERIFY_FAULT";

struct VerifyFlags {
  ConfigFlags common;
  int64_t steps = 1;
};

/// The fault that a test of this command plants; none if the variable is empty.
parallel::PlantedFault planted_fault() {
  const char* name = std::getenv(kFaultVariable);
  if (name == nullptr || *name == '\0') return parallel::PlantedFault::none;
  const auto found = std::ranges::find(parallel::kPlantedFaultNames, std::string_view(name));
  if (found == parallel::kPlantedFaultNames.end())
    throw Error(ExitCode::usage, Mistake{.where = kFaultVariable,
                                         .expected = "expected the name of a fault",
                                         .got = fmt::format("'{}'", name),
                                         .advice = "unset it"});
  return static_cast<parallel::PlantedFault>(found - parallel::kPlantedFaultNames.begin());
}

/// All rows begin from the same weights.
void find_initial_weights(train::VerificationPlan& plan) {
  if (!plan.single.initial_weights) return;
  const auto path = train::find_weights(plan.single.initial_weights->path, tell_of_damage);
  plan.single.initial_weights->path = path;
  for (train::PlannedRow& row : plan.rows)
    if (row.experiment.initial_weights) row.experiment.initial_weights->path = path;
}

int verify_with(const VerifyFlags& flags) {
  if (flags.common.dump_config) {
    const ReadExperiment shown(flags.common);
    return 0;
  }
  const parallel::PlantedFault planted = planted_fault();
  const train::StopSignal& stop = watch_stop_signals();
  train::VerificationPlan plan = train::plan_verification(flags.common.load(), flags.common.default_name());
  find_initial_weights(plan);
  train::Verification verification(plan, {.steps = flags.steps, .planted = planted, .stop = &stop});
  const train::VerificationReport report{.rows = verification.run(), .steps = flags.steps};
  if (const int signal = stop.load(); signal != 0)
    throw Error(exit_code_of_signal(signal), fmt::format("stopped by {}; nothing was written", signal_name(signal)));
  flags.common.print(report.json(), report.text(terminal_width(STDOUT_FILENO)));
  const std::vector<std::string> failures = report.failures();
  if (!failures.empty()) throw Error(ExitCode::assertion_failed, failures);
  return 0;
}

}  // namespace

Run add_verify_command(CLI::App& command) {
  auto flags = std::make_shared<VerifyFlags>();
  flags->common.add_to(command);
  command.add_option("--steps", flags->steps, "training steps that are compared")
      ->check(CLI::Range(int64_t{1}, int64_t{1000}))
      ->type_name("N");
  return [flags] { return verify_with(*flags); };
}

}  // namespace dptrain::app
