#include <unistd.h>

#include <memory>
#include <string>
#include <vector>

#include "base/error.h"
#include "commands.h"
#include "first_steps_command.h"
#include "output.h"
#include "train/gate_report.h"
#include "value_checks.h"

namespace dptrain::app {
namespace {

struct GateFlags {
  ConfigFlags common;
  std::string file;
};

int gate_with(const GateFlags& flags) {
  if (flags.common.dump_config) {
    train_first_steps(flags.common, 0);
    return 0;
  }
  const train::Blessing blessed = train::read_blessing(flags.file);
  const auto now = train_first_steps(flags.common, static_cast<int64_t>(blessed.first.steps.size()));
  const train::GateReport report{.blessed = blessed, .now = *now, .file = flags.file};
  flags.common.print(report.json(), report.text(terminal_width(STDOUT_FILENO)));
  const std::vector<std::string> failures = report.failures();
  if (!failures.empty()) throw Error(ExitCode::assertion_failed, failures);
  return 0;
}

}  // namespace

Run add_gate_command(CLI::App& command) {
  auto flags = std::make_shared<GateFlags>();
  command.add_option("file", flags->file, "the file that dptrain bless has written")
      ->required()
      ->check(refuse_empty)
      ->type_name("FILE");
  flags->common.add_to(command);
  return [flags] { return gate_with(*flags); };
}

}  // namespace dptrain::app
