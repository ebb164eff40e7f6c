#include <fmt/format.h>
#include <unistd.h>

#include <memory>
#include <string>

#include "base/error.h"
#include "commands.h"
#include "config_flags.h"
#include "output.h"
#include "read_experiment.h"
#include "stop_signals.h"
#include "train/one_device.h"
#include "train/operator_report.h"
#include "train/operator_times.h"

namespace dptrain::app {
namespace {

struct BenchOpsFlags {
  ConfigFlags common;
  int steps = 5;
};

int bench_ops(const BenchOpsFlags& flags) {
  const ReadExperiment read(flags.common);
  if (read.dumped) return 0;
  const train::StopSignal& stop = watch_stop_signals();
  const Datasets data = read.experiment.dataset.open();
  train::OperatorReport report{.run = read.experiment.name,
                               .model = read.experiment.model.name,
                               .precision = precision_name(read.experiment.precision),
                               .devices = {}};
  for (size_t device = 0; device < read.experiment.devices.size(); ++device) {
    train::Experiment alone;
    const ConfigSession session(
        train::on_device_alone(read.config, read.experiment, device),
        [&](ConfigReader& reader) { alone = train::read_experiment(reader, flags.common.default_name()); });
    report.devices.push_back(
        train::measure_operators(alone, data, {.steps = flags.steps, .stopped = [&stop] { return stop.load() != 0; }}));
    if (const int signal = stop.load(); signal != 0)
      throw Error(exit_code_of_signal(signal), fmt::format("stopped by {}; nothing was printed", signal_name(signal)));
  }
  if (flags.common.json)
    write_output(report.json());
  else if (!flags.common.quiet)
    write_output(report.text(terminal_width(STDOUT_FILENO)));
  return 0;
}

}  // namespace

Run add_bench_ops_command(CLI::App& command) {
  auto flags = std::make_shared<BenchOpsFlags>();
  flags->common.add_to(command)->required(false)->default_val("lenet_1cpu");
  command.add_option("--steps", flags->steps, "training steps that the medians are of")
      ->check(CLI::Range(1, 10000))
      ->type_name("N")
      ->capture_default_str();
  return [flags] { return bench_ops(*flags); };
}

}  // namespace dptrain::app
