#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "commands.h"
#include "device/host_machine.h"
#include "output.h"
#include "output_file.h"
#include "parallel/trace_events.h"
#include "plan/calibration.h"
#include "plan/exchange_figures.h"
#include "plan/layers_report.h"
#include "plan/plan_report.h"
#include "planned_experiment.h"
#include "train/strategy_context.h"
#include "value_checks.h"

namespace dptrain::app {
namespace {

struct PlanFlags {
  ConfigFlags common;
  std::string links;
  std::string operators;
  std::string comm;
  std::string calibrate;
  std::string trace;
  bool layers = false;

  /// Nothing if no file was named.
  std::optional<plan::ExchangeFigures> exchange() const {
    return comm.empty() ? std::nullopt : std::optional(plan::read_exchange_figures(comm));
  }
};

plan::PlannedStep step_of(const PlannedExperiment& planned, bool with_parts = false) {
  const train::Experiment& experiment = planned.experiment;
  const Datasets data = experiment.dataset.open();
  train::require_normalizable(experiment, *data.train);
  parallel::StrategyContext context = train::strategy_context(experiment, *data.train);
  context.team.has_timelines = with_parts;
  std::function<double(const OperatorCost&)> operator_s;
  if (planned.estimates)
    operator_s = [&estimates = *planned.estimates](const OperatorCost& cost) { return estimates.seconds(cost); };
  return plan::plan_step(
      {.context = context,
       .make = experiment.strategy.make,
       .data = data.train,
       .loader = [&](parallel::Strategy& strategy) { return train::loader_options(experiment, strategy); },
       .operator_s = operator_s,
       .world = WorldShape(planned.devices_of_hosts)});
}

/// The times of an experiment's calls. CPU workers use the links of the configuration or of a links file as limits; for
/// GPUs a file's links replace those of the table.
plan::CallTimes call_times(const PlannedExperiment& planned, const plan::LinksFile& links,
                           const plan::DeviceFigures& figures) {
  return plan::CallTimes({.world = WorldShape(planned.devices_of_hosts),
                          .devices = planned.experiment.devices,
                          .figures = figures,
                          .links = planned.experiment.links,
                          .hosts = links.hosts,
                          .over_nccl = planned.figures != nullptr && planned.figures->kind == DeviceKind::cuda,
                          .deterministic = planned.experiment.deterministic});
}

/// The places of the servers of the experiment's store; nothing if it has none.
std::optional<plan::StorePlaces> places_of(const PlannedExperiment& planned, const plan::LinksFile& links) {
  const auto servers = planned.experiment.strategy.store_servers;
  if (!servers) return std::nullopt;
  // In a single process, servers are threads of it.
  if (!links.hosts) {
    plan::StorePlaces places = plan::place_servers(WorldShape(planned.devices_of_hosts), std::max(1, *servers), 0);
    places.servers_are_workers = true;
    return places;
  }
  return plan::place_servers(WorldShape(planned.devices_of_hosts), *servers, links.hosts->server_hosts);
}

/// A calibration shows how fast such devices compute such a model, so the run must have the same devices and model.
void require_alike(const PlannedExperiment& planned, const PlannedExperiment& of_run, const std::string& run) {
  const auto refuse = [&run](const std::string& what, const std::string& wanted, const std::string& got) {
    throw Error(ExitCode::config,
                Mistake{.where = "--calibrate " + run,
                        .expected = fmt::format("expected a run with the planned {}, {}", what, wanted),
                        .got = got,
                        .advice = "train one, or leave it out"});
  };
  if (planned.figures != of_run.figures) refuse("kind of device", planned.figures->name, of_run.figures->name);
  if (planned.experiment.model.name != of_run.experiment.model.name)
    refuse("model", planned.experiment.model.name, of_run.experiment.model.name);
}

plan::Calibration calibration_of(const PlannedExperiment& wanted, const PlanFlags& flags) {
  const std::string& run = flags.calibrate;
  const plan::MeasuredStep measured = plan::read_measured_step(run);
  PlannedExperiment planned = read_planned_run(run, measured);
  require_plannable(planned.experiment, run);
  estimate_operators(planned, flags.operators);
  if (planned.figures == nullptr)
    throw Error(ExitCode::config, Mistake{.where = run,
                                          .expected = "expected a run on devices whose figures are known",
                                          .got = planned.devices,
                                          .advice = "choose another run"});
  require_alike(wanted, planned, run);
  if (planned.experiment.strategy.averaging && planned.experiment.strategy.averaging->period > 1)
    throw Error(ExitCode::config, Mistake{.where = "--calibrate " + run,
                                          .expected = "expected a run in which every step exchanges the same data",
                                          .got = planned.experiment.strategy.name,
                                          .advice = "train one with strategy: ddp"});
  const plan::PlannedStep step = step_of(planned);
  plan::LinksFile links;
  if (planned.devices_of_hosts.size() > 1) {
    links.hosts = plan::HostLinks{.devices = planned.devices_of_hosts.front(), .link = {}};
    if (flags.comm.empty() && plan::overlaps(step))
      throw Error(
          ExitCode::config,
          Mistake{
              .where = run,
              .expected = "a run on several hosts shows how long its calls take only if nothing is computed meanwhile",
              .got = "calls that overlap",
              .advice = "train it with --set 'strategy={name: ddp, overlap: false}', or give --comm"});
  }
  plan::CallTimes calls = call_times(planned, links, *planned.figures);
  return plan::calibrated(measured, {.step = step,
                                     .estimates = *planned.estimates,
                                     .calibration = {.exchange = flags.exchange()},
                                     .calls = calls,
                                     .places = places_of(planned, links),
                                     .cores = planned.cores});
}

/// The calibration of the plan; nothing if the devices' speed isn't known.
std::optional<plan::Calibration> calibration_for(const PlannedExperiment& planned, const PlanFlags& flags) {
  if (!planned.estimates) return std::nullopt;
  if (!flags.calibrate.empty()) return calibration_of(planned, flags);
  // A CPU worker's figures alone are too rough: they are used only if measurements correct them.
  if (planned.figures->kind == DeviceKind::cpu && !planned.estimates->is_measured()) return std::nullopt;
  return plan::Calibration{.host_s = planned.estimates->beside_s(), .exchange = flags.exchange()};
}

std::string figures_source(const PlannedExperiment& planned, const PlanFlags& flags) {
  std::vector<std::string> sources;
  if (flags.operators.empty() && flags.calibrate.empty()) sources.push_back(planned.figures->source);
  if (!flags.operators.empty()) sources.push_back("operators measured by " + flags.operators);
  if (!flags.comm.empty()) sources.push_back("exchange measured by " + flags.comm);
  if (!flags.calibrate.empty()) sources.push_back("calibrated by " + flags.calibrate);
  return fmt::format("{}", fmt::join(sources, ", "));
}

plan::StepTimes times_of(const PlannedExperiment& planned, const plan::PlannedStep& step, const plan::LinksFile& links,
                         const plan::Calibration& calibration) {
  plan::DeviceFigures figures = *planned.figures;
  if (links.links && !planned.experiment.links) figures.inside = plan::link_of_file(*links.links);
  plan::CallTimes calls = call_times(planned, links, figures);
  if (links.hosts && calibration.exchange) calls.set_exchange(*calibration.exchange);
  return plan::step_times({.step = step,
                           .estimates = *planned.estimates,
                           .calibration = calibration,
                           .calls = calls,
                           .places = places_of(planned, links),
                           .cores = planned.cores});
}

/// Throws 78 if --comm doesn't fit: measurements between processes of CPU workers say nothing about one process, or
/// about GPUs.
void require_exchange(const PlannedExperiment& planned, const PlanFlags& flags) {
  const bool has_cores = planned.figures != nullptr && planned.figures->kind == DeviceKind::cpu;
  if (flags.comm.empty() || (has_cores && planned.devices_of_hosts.size() > 1)) return;
  throw Error(
      ExitCode::config,
      Mistake{.where = "--comm",
              .expected = "the measured exchange applies only to CPU workers on several hosts, expected such devices",
              .got = planned.devices,
              .advice = "write --devices 4xcpu and --links with hosts, or leave it out"});
}

/// Throws 78 if --comm is given alone: it has no times of operators.
void require_operators(const PlanFlags& flags) {
  if (flags.comm.empty() || !flags.operators.empty() || !flags.calibrate.empty()) return;
  throw Error(ExitCode::config, Mistake{.where = "--comm",
                                        .expected = "expected the times of a step's operators, too",
                                        .got = "neither --operators nor --calibrate",
                                        .advice = "give one of them"});
}

void write_trace(const plan::PlanReport& report, const OutputFile& file) {
  if (!report.times)
    throw Error(ExitCode::config,
                Mistake{.where = "--trace",
                        .expected = "a timeline needs times, expected devices whose figures are known",
                        .got = report.devices,
                        .advice = "name the devices as 16xh200, or give --operators or --calibrate"});
  file.write(report.trace());
}

std::optional<int64_t> memory_of(const plan::DeviceFigures* figures) {
  if (figures == nullptr || figures->memory_bytes == 0) return std::nullopt;
  return static_cast<int64_t>(figures->memory_bytes);
}

void print_layers(const train::Experiment& experiment, const ConfigFlags& flags) {
  const Datasets data = experiment.dataset.open();
  const models::ModelInput input = train::strategy_context(experiment, *data.train).replica.input;
  const plan::LayersReport report{
      .run = experiment.name, .model = experiment.model.name, .of = plan::layers_of(experiment.model, input)};
  flags.print(report.json(), report.text(terminal_width(STDOUT_FILENO)));
}

int plan_with(const PlanFlags& flags) {
  const plan::LinksFile links = flags.links.empty() ? plan::LinksFile() : plan::read_links_file(flags.links);
  PlannedExperiment planned = read_planned(flags.common, links, flags.layers);
  // Mistakes in the links are reported even if this plan doesn't need them.
  if (links.links && !planned.experiment.links) plan::link_of_file(*links.links);
  if (flags.common.dump_config) return 0;
  if (flags.layers) {
    print_layers(planned.experiment, flags.common);
    return 0;
  }
  require_plannable(planned.experiment, flags.common.config);
  const auto trace =
      flags.trace.empty()
          ? std::nullopt
          : std::optional<OutputFile>(std::in_place, flags.trace,
                                      OutputForm{.name = "a timeline", .beginning = parallel::kTraceBeginning});
  require_exchange(planned, flags);
  require_operators(flags);
  estimate_operators(planned, flags.operators);
  plan::PlanReport report{
      .run = planned.experiment.name,
      .strategy = planned.experiment.strategy.name,
      .devices = planned.devices,
      .accumulate = planned.experiment.accumulate,
      .hosts = static_cast<int>(planned.devices_of_hosts.size()),
      .device_memory_bytes = memory_of(planned.figures),
      .host_memory_bytes = planned.on_workers_here ? std::optional(host_memory_bytes()) : std::nullopt,
      .step = step_of(planned, trace.has_value()),
      .places = places_of(planned, links),
      .times = {},
      .between = {},
      .figures_source = {}};
  if (const std::optional<plan::Calibration> calibration = calibration_for(planned, flags)) {
    report.times = times_of(planned, report.step, links, *calibration);
    if (!report.step.between.empty()) {
      plan::PlannedStep other = report.step;
      other.ranks = other.between;
      report.between = times_of(planned, other, links, *calibration);
    }
    report.figures_source = figures_source(planned, flags);
    if (planned.estimates->is_measured())
      report.shares = plan::shares_of(*planned.estimates, report.step.ranks.front().operators);
  }
  if (trace) write_trace(report, *trace);
  flags.common.print(report.json(), report.text(terminal_width(STDOUT_FILENO)));
  return 0;
}

}  // namespace

Run add_plan_command(CLI::App& command) {
  auto flags = std::make_shared<PlanFlags>();
  flags->common.add_to(command);
  command.get_option("--devices")
      ->description("for which devices: a list as in training, or a number of devices of a kind, 16xh200");
  auto* layers = command.add_flag("--layers", flags->layers,
                                  "print the model instead of a step: name, output, parameters and FLOPs of each of "
                                  "its stages");
  command
      .add_option("--links", flags->links,
                  "links between devices and hosts: a file with the keys of `links`, and `hosts`")
      ->check(refuse_empty)
      ->type_name("FILE");
  command.add_option("--calibrate", flags->calibrate, "a run whose times say how fast such devices compute")
      ->check(refuse_empty)
      ->type_name("RUN_DIR")
      ->excludes(layers);
  command
      .add_option("--operators", flags->operators,
                  "what each operator takes on such devices: a file with what bench ops --json prints")
      ->check(refuse_empty)
      ->type_name("FILE")
      ->excludes(layers);
  command
      .add_option("--comm", flags->comm,
                  "what CPU workers of several processes take to exchange: a file with what bench comm --json prints")
      ->check(refuse_empty)
      ->type_name("FILE")
      ->excludes(layers);
  command
      .add_option("--trace", flags->trace,
                  "write a timeline of the step, as train --trace does, for Perfetto and chrome://tracing; an existing "
                  "file is replaced")
      ->type_name("FILE")
      ->check(refuse_empty)
      ->excludes(layers);
  return [flags] { return plan_with(*flags); };
}

}  // namespace dptrain::app
