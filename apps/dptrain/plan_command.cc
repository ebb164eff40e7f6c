#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <numeric>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "commands.h"
#include "config/config_document.h"
#include "config_flags.h"
#include "device/cuda_probe.h"
#include "device/device_list.h"
#include "output.h"
#include "parallel/shard_runs.h"
#include "plan/calibration.h"
#include "plan/plan_report.h"
#include "train/experiment.h"
#include "train/strategy_context.h"

namespace dptrain::app {
namespace {

struct PlanFlags {
  ConfigFlags common;
  std::string links;
  std::string calibrate;
};

/// The experiment as a plan reads it.
struct PlannedExperiment {
  train::Experiment experiment;
  const plan::DeviceFigures* figures = nullptr;  ///< null where they aren't known
  std::vector<int> devices_of_hosts;             ///< how many each has
  std::string devices;                           ///< as they were asked for

  int world_size() const { return std::accumulate(devices_of_hosts.begin(), devices_of_hosts.end(), 0); }
};

/// `count` devices dealt out to hosts of `each`.
std::vector<int> dealt_out(int count, int each) {
  std::vector<int> hosts;
  for (; count > 0; count -= each) hosts.push_back(std::min(count, each));
  return hosts;
}

/// The figures of the devices of a list, where they are known and the same for all.
const plan::DeviceFigures* figures_of(const std::vector<DeviceId>& devices) {
  const auto kind = [](const DeviceId& id) { return id.kind; };
  if (std::ranges::adjacent_find(devices, std::ranges::not_equal_to(), kind) != devices.end()) return nullptr;
  if (devices.front().kind == DeviceKind::cpu) return plan::find_device("cpu");
  for (const CudaDeviceInfo& gpu : cuda_devices())
    if (gpu.index == devices.front().index) return plan::find_gpu(gpu.name);
  return nullptr;
}

[[noreturn]] void refuse(const std::string& where, const std::string& expected, const std::string& got,
                         const std::string& advice) {
  throw Error(ExitCode::config, Mistake{.where = where, .expected = expected, .got = got, .advice = advice});
}

/// Throws 78 for what a plan can't tell of.
void require_plannable(const train::Experiment& experiment, const std::string& where) {
  if (experiment.strategy.trial_steps)
    refuse(where + ": strategy", "a plan is of one strategy", "auto", "name one, such as --set strategy=ddp");
  if (!experiment.strategy.in_step)
    refuse(where + ": strategy", "a plan is of a step that all devices take together", "kvstore of type dist_async",
           "plan {name: kvstore, type: dist_sync}");
  const bool has_cores = experiment.devices.front().kind == DeviceKind::cpu &&
                         std::ranges::any_of(experiment.threads, [](int threads) { return threads > 1; });
  if (experiment.shards > 0 && has_cores)
    refuse(where + ": threads", "plans of shards are of workers that compute one at a time, expected 1",
           fmt::format("{}", fmt::join(experiment.threads, ", ")), "write --set threads=1");
  if (experiment.split.measured)
    refuse(where + ": split", "a plan measures no devices, expected even or weights", "auto",
           "write for instance --set split=even");
}

/// What a configuration is read for, beside what it says itself.
struct PlannedDevices {
  DeviceKind kind = DeviceKind::cpu;
  std::vector<int> of_hosts;  ///< how many each has
};

/// As a job of a process a host reads it.
train::ConfigJob job_of(const PlannedDevices& devices) {
  std::vector<DeviceId> own;
  for (int i = 0; i < devices.of_hosts.front(); ++i) own.push_back({devices.kind, i});
  return {.processes = static_cast<int>(devices.of_hosts.size()),
          .planned_devices = own,
          .exchange_devices = [devices](const std::vector<DeviceId>&) {
            std::vector<std::vector<DeviceId>> all;
            for (const int count : devices.of_hosts)
              all.emplace_back(static_cast<size_t>(count), DeviceId{.kind = devices.kind});
            return all;
          }};
}

bool is_pipeline(const train::Experiment& experiment) {
  return experiment.strategy.name == "model_parallel" || experiment.strategy.name == "hybrid";
}

/// Of the parts of a batch, the first that has the most samples of all; even ones differ by a sample at most.
int largest_part(const train::Experiment& experiment, int parts) {
  if (experiment.shards > 0) {
    const std::vector<parallel::ShardRun> runs = parallel::shard_runs(experiment.shards, parts);
    return static_cast<int>(std::ranges::max_element(runs, {}, &parallel::ShardRun::size) - runs.begin());
  }
  if (!experiment.split.weights) return 0;
  const std::vector<int64_t>& weights = experiment.split.weights->weights();
  return static_cast<int>(std::ranges::max_element(weights) - weights.begin());
}

/// The first ranks stand for all: of pipelines whole ones, and where some ranks have more of a batch than others the
/// first of those that have the most is among them, on as many hosts as that takes.
void plan_further_hosts(PlannedExperiment& planned) {
  train::Experiment& experiment = planned.experiment;
  const int here = planned.devices_of_hosts.front(), world = planned.world_size();
  if (here == world) return;
  const int stages = is_pipeline(experiment) ? world / experiment.strategy.parts : 1;
  const int largest = (largest_part(experiment, world / stages) + 1) * stages;
  if (experiment.strategy.store_servers && largest > here)
    refuse("shards, split", "a plan of a store's workers is of the first one, expected none to have more of a batch",
           fmt::format("more on rank {}", largest - 1), "leave both out, or plan strategy: ddp");
  const int ranks = (std::max(here, largest) + stages - 1) / stages * stages;
  for (int rank = here; rank < std::min(ranks, world); ++rank) {
    experiment.devices.push_back(experiment.devices[static_cast<size_t>(rank % here)]);
    experiment.threads.push_back(experiment.threads.front());
  }
}

train::Experiment read_for(const ConfigNode& config, const ConfigFlags& flags, const train::ConfigJob& job) {
  train::Experiment experiment;
  const ConfigSession session(config, [&](ConfigReader& reader) {
    experiment = train::read_experiment(reader, flags.default_name(), job);
    for (const auto& [option, value] : reader.resolved_options("strategy"))
      if (option == "inside" && value != "none" && job.processes > 1)
        reader.mistake("strategy", "plans of several hosts take every device as a rank, expected inside: none", value,
                       "leave it out");
  });
  if (flags.dump_config) write_output(session.resolved_yaml_with_origins());
  return experiment;
}

PlannedExperiment read_planned(const ConfigFlags& flags, const plan::LinksFile& links) {
  PlannedExperiment planned;
  ConfigFlags as_written = flags;
  std::optional<plan::CountedDevices> counted;
  if (flags.devices) counted = plan::parse_counted_devices(*flags.devices, "--devices");
  if (links.hosts && !counted)
    refuse("--links", "hosts need a number of devices", flags.devices.value_or("none"),
           "write for instance --devices 16xh200");
  train::ConfigJob job;
  if (counted) {
    as_written.devices.reset();
    planned.figures = counted->figures;
    planned.devices_of_hosts = dealt_out(counted->count, links.hosts ? links.hosts->devices : counted->count);
    job = job_of({.kind = counted->figures->kind, .of_hosts = planned.devices_of_hosts});
  }
  ConfigNode config = as_written.load();
  const bool is_gpu = counted && counted->figures->kind == DeviceKind::cuda;
  if (links.links && !is_gpu && job.processes == 1) {
    std::erase_if(config.map, [](const auto& entry) { return entry.first == "links"; });
    config.map.emplace_back("links", *links.links);
  }
  try {
    planned.experiment = read_for(config, flags, job);
  } catch (const Error& error) {
    if (error.code() != ExitCode::device) throw;
    throw Error(error.code(), fmt::format("{}; --devices 8xh200 plans for GPUs that aren't there", error.what()));
  }
  if (!counted) {
    planned.devices_of_hosts = {static_cast<int>(planned.experiment.devices.size())};
    planned.figures = figures_of(planned.experiment.devices);
  }
  planned.devices = counted ? *flags.devices : device_names(planned.experiment.devices);
  if (planned.devices_of_hosts.size() > 1)
    planned.devices += fmt::format(", {} hosts of {}", planned.devices_of_hosts.size(), links.hosts->devices);
  plan_further_hosts(planned);
  return planned;
}

/// The experiment of a run, on the devices that it had.
PlannedExperiment read_run(const std::string& run, const plan::MeasuredStep& measured) {
  ConfigFlags flags;
  flags.config = run + "/config.yaml";
  PlannedExperiment planned;
  if (!measured.process_a_host)
    refuse(run, "expected a run of one process a host", "several on one",
           "train it in one process with all devices of a host");
  if (measured.devices_of_hosts.size() == 1) return read_planned(flags, {});
  if (!measured.on_cpus)
    refuse(run, "expected a run of several hosts on CPU workers", "GPUs", "calibrate by a run on one host");
  planned.figures = plan::find_device("cpu");
  planned.devices_of_hosts = measured.devices_of_hosts;
  planned.experiment = read_for(flags.load(), flags, job_of({.of_hosts = measured.devices_of_hosts}));
  planned.devices = device_names(planned.experiment.devices);
  plan_further_hosts(planned);
  return planned;
}

plan::PlannedStep step_of(const PlannedExperiment& planned) {
  const train::Experiment& experiment = planned.experiment;
  const Datasets data = experiment.dataset.open();
  std::function<double(const OperatorCost&)> operator_s;
  if (planned.figures != nullptr)
    operator_s = [&](const OperatorCost& cost) {
      return plan::operator_seconds(cost, *planned.figures, experiment.precision);
    };
  return plan::plan_step(
      {.context = train::strategy_context(experiment, *data.train),
       .make = experiment.strategy.make,
       .data = data.train,
       .loader = [&](parallel::Strategy& strategy) { return train::loader_options(experiment, strategy); },
       .operator_s = operator_s,
       .world = WorldShape(planned.devices_of_hosts)});
}

/// What the calls of an experiment take: CPU workers' are held to links of the configuration or of a file; between GPUs
/// a file's links take the place of the table's.
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

/// Where the servers of the experiment's store are; nothing where it has none.
std::optional<plan::StorePlaces> places_of(const PlannedExperiment& planned, const plan::LinksFile& links) {
  const auto servers = planned.experiment.strategy.store_servers;
  if (!servers) return std::nullopt;
  // Of one process they are threads of it.
  if (!links.hosts) {
    plan::StorePlaces places = plan::place_servers(WorldShape(planned.devices_of_hosts), std::max(1, *servers), 0);
    places.servers_are_workers = true;
    return places;
  }
  return plan::place_servers(WorldShape(planned.devices_of_hosts), *servers, links.hosts->server_hosts);
}

plan::Calibration calibration_of(const std::string& run) {
  const plan::MeasuredStep measured = plan::read_measured_step(run);
  const PlannedExperiment planned = read_run(run, measured);
  require_plannable(planned.experiment, run);
  if (planned.figures == nullptr)
    refuse(run, "expected a run of devices whose figures are known", planned.devices, "choose another run");
  const plan::PlannedStep step = step_of(planned);
  plan::LinksFile links;
  if (planned.devices_of_hosts.size() > 1) {
    links.hosts = plan::HostLinks{.devices = planned.devices_of_hosts.front(), .link = {}};
    if (plan::overlaps(step))
      refuse(run, "a run of several hosts tells what its calls take where nothing is computed meanwhile",
             "calls that overlap", "train it with --set 'strategy={name: ddp, overlap: false}'");
  }
  plan::CallTimes calls = call_times(planned, links, *planned.figures);
  return plan::calibrated(measured, {.step = step,
                                     .figures = *planned.figures,
                                     .precision = planned.experiment.precision,
                                     .calibration = {},
                                     .calls = calls,
                                     .places = places_of(planned, links)});
}

/// Nothing where the devices' figures say nothing of them.
std::optional<plan::StepTimes> times_of(const PlannedExperiment& planned, const plan::PlannedStep& step,
                                        const plan::LinksFile& links, const std::string& calibrate) {
  if (planned.figures == nullptr) return std::nullopt;
  // Those of a CPU worker are for a run to correct.
  if (planned.figures->kind == DeviceKind::cpu && calibrate.empty()) return std::nullopt;
  plan::DeviceFigures figures = *planned.figures;
  if (links.links && !planned.experiment.links) figures.inside = plan::link_of_file(*links.links);
  plan::CallTimes calls = call_times(planned, links, figures);
  const plan::Calibration calibration = calibrate.empty() ? plan::Calibration() : calibration_of(calibrate);
  if (links.hosts && calibration.exchange_bytes_per_s > 0) calls.set_exchange_rate(calibration.exchange_bytes_per_s);
  return plan::step_times({.step = step,
                           .figures = figures,
                           .precision = planned.experiment.precision,
                           .calibration = calibration,
                           .calls = calls,
                           .places = places_of(planned, links)});
}

int plan_with(const PlanFlags& flags) {
  const plan::LinksFile links = flags.links.empty() ? plan::LinksFile() : plan::read_links_file(flags.links);
  const PlannedExperiment planned = read_planned(flags.common, links);
  if (flags.common.dump_config) return 0;
  require_plannable(planned.experiment, flags.common.config);
  plan::PlanReport report{.run = planned.experiment.name,
                          .strategy = planned.experiment.strategy.name,
                          .devices = planned.devices,
                          .hosts = static_cast<int>(planned.devices_of_hosts.size()),
                          .step = step_of(planned),
                          .places = places_of(planned, links),
                          .times = {},
                          .figures_source = {}};
  report.times = times_of(planned, report.step, links, flags.calibrate);
  if (report.times)
    report.figures_source = flags.calibrate.empty() ? planned.figures->source : "calibrated by " + flags.calibrate;
  if (flags.common.json)
    write_output(report.json() + "\n");
  else if (!flags.common.quiet)
    write_output(report.text());
  return 0;
}

}  // namespace

Run add_plan_command(CLI::App& command) {
  auto flags = std::make_shared<PlanFlags>();
  flags->common.add_to(command);
  command.get_option("--devices")
      ->description("for which devices: a list as in training, or a number of a kind, 16xh200");
  command
      .add_option("--links", flags->links, "what joins devices and hosts: a file with the keys of `links`, and `hosts`")
      ->type_name("FILE");
  command.add_option("--calibrate", flags->calibrate, "a run whose times say what such devices compute in a second")
      ->type_name("RUN_DIR");
  return [flags] { return plan_with(*flags); };
}

}  // namespace dptrain::app
