#include "planned_experiment.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <functional>
#include <utility>

#include "base/error.h"
#include "config/config_document.h"
#include "config/config_json.h"
#include "device/cuda_probe.h"
#include "device/device_list.h"
#include "output.h"
#include "parallel/shard_runs.h"
#include "plan/measured_operators.h"

namespace dptrain::app {
namespace {

/// The number of devices of each host, if hosts get `each` of `count` devices in turn.
std::vector<int> dealt_out(int count, int each) {
  std::vector<int> hosts;
  for (; count > 0; count -= each) hosts.push_back(std::min(count, each));
  return hosts;
}

/// The figures of a list's devices, if they are known and the same for all.
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

/// The devices for which a configuration is read, instead of its own.
struct PlannedDevices {
  DeviceKind kind = DeviceKind::cpu;
  std::vector<int> of_hosts;  ///< the number of devices of each host
};

/// The job in which a host reads the configuration, as one process.
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

/// The first of the parts of a batch with the most samples. Even parts differ by at most one sample, so the first one
/// is taken.
int largest_part(const train::Experiment& experiment, int parts) {
  if (experiment.shards > 0) {
    const std::vector<parallel::ShardRun> runs = parallel::shard_runs(experiment.shards, parts);
    return static_cast<int>(std::ranges::max_element(runs, {}, &parallel::ShardRun::size) - runs.begin());
  }
  if (!experiment.split.weights) return 0;
  const std::vector<int64_t>& weights = experiment.split.weights->weights();
  return static_cast<int>(std::ranges::max_element(weights) - weights.begin());
}

/// Adds devices, so that the first ranks can stand for all. They form whole pipelines and, if some ranks have more of a
/// batch than others, include the first one with the most. This takes as many hosts as necessary.
void plan_further_hosts(PlannedExperiment& planned) {
  train::Experiment& experiment = planned.experiment;
  const int here = planned.devices_of_hosts.front(), world = planned.world_size();
  if (here == world) return;
  const int stages = experiment.strategy.is_pipeline() ? world / experiment.strategy.parts : 1;
  const int largest = (largest_part(experiment, world / stages) + 1) * stages;
  if (experiment.strategy.store_servers && largest > here)
    refuse("shards, split", "a plan of a store's workers shows the first one, expected none with more of a batch",
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
  if (flags.dump_config)
    write_output(flags.json ? config_json(session.resolved_yaml()) + "\n" : session.resolved_yaml_with_origins());
  return experiment;
}

}  // namespace

void require_plannable(const train::Experiment& experiment, const std::string& where) {
  if (experiment.strategy.trial_steps)
    refuse(where + ": strategy", "a plan needs one strategy", "auto", "name one, such as --set strategy=ddp");
  if (!experiment.strategy.in_step)
    refuse(where + ": strategy", "a plan needs steps that all devices take together", "kvstore of type dist_async",
           "plan {name: kvstore, type: dist_sync}");
  const bool has_cores = experiment.devices.front().kind == DeviceKind::cpu &&
                         std::ranges::any_of(experiment.threads, [](int threads) { return threads > 1; });
  if (experiment.shards > 0 && has_cores)
    refuse(where + ": threads", "plans with shards need workers that compute one shard at a time, expected 1",
           fmt::format("{}", fmt::join(experiment.threads, ", ")), "write --set threads=1");
  if (experiment.split.measured)
    refuse(where + ": split", "a plan measures no devices, expected even or weights", "auto",
           "write for instance --set split=even");
}

PlannedExperiment read_planned(const ConfigFlags& flags, const plan::LinksFile& links, bool model_alone) {
  PlannedExperiment planned;
  ConfigFlags as_written = flags;
  std::optional<plan::CountedDevices> counted;
  if (flags.devices) counted = plan::parse_counted_devices(*flags.devices, "--devices");
  if (links.hosts && !counted)
    refuse("--links", "hosts need a number of devices", flags.devices.value_or("none"),
           "write for instance --devices 16xh200");
  if (counted && !links.hosts && counted->count > plan::kMostDevicesOfHost)
    refuse("--devices",
           fmt::format("a host has {} devices at most, expected --links with hosts", plan::kMostDevicesOfHost),
           fmt::format("{} on one", counted->count),
           "write for instance hosts: {devices: 8, gbps: 400} into a file, and give --links FILE");
  train::ConfigJob job;
  if (counted) {
    as_written.devices.reset();
    planned.figures = counted->figures;
    planned.devices_of_hosts = dealt_out(counted->count, links.hosts ? links.hosts->devices : counted->count);
    job = job_of({.kind = counted->figures->kind, .of_hosts = planned.devices_of_hosts});
  }
  job.needs_no_devices = model_alone;
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
    throw Error(error.code(),
                fmt::format("{}; to plan for GPUs that this machine doesn't have, write for instance --devices 8xh200",
                            error.what()));
  }
  if (!counted) {
    planned.devices_of_hosts = {static_cast<int>(planned.experiment.devices.size())};
    planned.figures = figures_of(planned.experiment.devices);
    planned.on_workers_here = !lists(planned.experiment.devices, DeviceKind::cuda);
  }
  planned.devices = counted ? *flags.devices : device_names(planned.experiment.devices);
  if (planned.devices_of_hosts.size() > 1)
    planned.devices += fmt::format(", {} hosts of {}", planned.devices_of_hosts.size(), links.hosts->devices);
  plan_further_hosts(planned);
  return planned;
}

PlannedExperiment read_planned_run(const std::string& run, const plan::MeasuredStep& measured) {
  ConfigFlags flags;
  flags.config = run + "/config.yaml";
  PlannedExperiment planned;
  if (!measured.process_a_host)
    refuse(run, "expected a run with one process per host", "several on one host",
           "train it with one process per host, on all devices of the host");
  if (measured.devices_of_hosts.size() == 1) return read_planned(flags, {});
  if (!measured.on_cpus)
    refuse(run, "expected CPU workers in a run on several hosts", "GPUs", "calibrate with a run on one host");
  planned.figures = plan::find_device("cpu");
  planned.devices_of_hosts = measured.devices_of_hosts;
  planned.experiment = read_for(flags.load(), flags, job_of({.of_hosts = measured.devices_of_hosts}));
  planned.devices = device_names(planned.experiment.devices);
  plan_further_hosts(planned);
  return planned;
}

void estimate_operators(PlannedExperiment& planned, const std::string& file) {
  const train::Experiment& experiment = planned.experiment;
  if (planned.figures == nullptr) {
    if (!file.empty())
      refuse("--operators", "measured operators need devices of one kind whose figures are known", planned.devices,
             "write for instance --devices 16xh200");
    return;
  }
  plan::MeasuredOperators measured;
  if (!file.empty())
    measured = plan::read_measured_operators(
        file, {.figures = *planned.figures, .precision = experiment.precision, .threads = experiment.threads});
  planned.estimates.emplace(*planned.figures, experiment.precision, measured);
  // The measured worker could use all cores of its process.
  if (planned.figures->kind == DeviceKind::cpu && measured.cores > 0)
    planned.cores = plan::SharedCores{.cores = measured.cores, .threads = experiment.threads};
}

}  // namespace dptrain::app
