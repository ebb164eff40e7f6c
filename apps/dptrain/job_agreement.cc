// Checks that the processes of a job agree before they train: builds, configurations, devices, weights.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <mutex>

#include "base/line_mark.h"
#include "config/config_document.h"
#include "device/cpu_isa.h"
#include "device/cuda_probe.h"
#include "device/host_machine.h"
#include "job_session.h"
#include "joined_texts.h"
#include "output.h"
#include "program.h"
#include "train/config_difference.h"
#include "train/safetensors.h"

namespace dptrain::app {
namespace {

/// Keys whose values may differ from host to host.
const std::vector<std::string> kOfHost = {"devices", "threads", "hosts"};

std::vector<DeviceKind> kinds_of(const std::vector<DeviceId>& devices) {
  std::vector<DeviceKind> kinds;
  for (const DeviceKind kind : {DeviceKind::cpu, DeviceKind::cuda})
    if (std::ranges::any_of(devices, [kind](const DeviceId& id) { return id.kind == kind; })) kinds.push_back(kind);
  return kinds;
}

/// What determines the memory layout of weights: the kinds of devices, and the instruction set of CPU workers. "cpu
/// with avx512".
std::string computes_on(const std::vector<DeviceId>& devices) {
  std::vector<std::string> names;
  for (const DeviceKind kind : kinds_of(devices))
    names.push_back(kind == DeviceKind::cpu ? fmt::format("cpu with {}", cpu_isa_name(cpu_isa())) : "cuda");
  return fmt::format("{}", fmt::join(names, " and "));
}

/// The libraries that these devices compute with, "oneDNN 2.6.3". Builds may differ in libraries for other devices.
std::string computes_with(const std::vector<DeviceId>& devices) {
  std::vector<std::string> parts;
  for (const DeviceKind kind : kinds_of(devices))
    std::ranges::copy(parts_that_compute(kind), std::back_inserter(parts));
  return fmt::format("{}", fmt::join(parts, ", "));
}

std::vector<std::string> uuids_of(const std::vector<DeviceId>& devices) {
  std::vector<std::string> uuids;
  for (const CudaDeviceInfo& gpu : cuda_devices())
    if (std::ranges::find(devices, DeviceId{DeviceKind::cuda, gpu.index}) != devices.end()) uuids.push_back(gpu.uuid);
  return uuids;
}

/// "4 CPU threads on 1 of 8 cores" if the launcher has left this process too few cores; "" otherwise.
std::string narrow_mask(const train::Experiment& experiment, int workers_of_host) {
  int threads = 0;
  for (size_t i = 0; i < experiment.devices.size(); ++i)
    if (experiment.devices[i].kind == DeviceKind::cpu) threads += experiment.threads[i];
  const int cores = cores_of_mask(), launchers = cores_of_mask(::getppid());
  if (threads == 0 || cores >= launchers || (threads <= cores && cores * workers_of_host >= launchers)) return {};
  return fmt::format("{} CPU thread{} on {} of {} cores", threads, threads == 1 ? "" : "s", cores, launchers);
}

/// " (epochs, seed differ, too)": the keys behind the first one; "" if there are none.
std::string others_of(const std::vector<train::DifferingKey>& differing) {
  std::vector<std::string> others;
  for (size_t k = 1; k < differing.size(); ++k) others.push_back(differing[k].key);
  return others.empty() ? ""
                        : fmt::format(" ({} differ{}, too)", fmt::join(others, ", "), others.size() == 1 ? "s" : "");
}

}  // namespace

void JobSession::form_training(const std::string& config, train::Experiment& experiment) {
  if (!group_) return;
  agree_on("dptrain", fmt::format("{} ({})", version(), git_commit()));
  agree_on("compiler of dptrain", built_by());
  agree_on_config(config);
  progress().timeout_s = experiment.timeout_s;
  take_roles(experiment);
  if (!is_worker()) return;
  agree_on("kinds of devices", computes_on(experiment.devices),
           "list devices of one kind everywhere; if some CPUs have more instructions, start all processes with "
           "ONEDNN_MAX_CPU_ISA=AVX2");
  agree_on("libraries of the devices", computes_with(experiment.devices));
  train::ConfigJob job = config_job();
  job.store_servers = experiment.strategy.store_servers.value_or(0);
  warn_of_narrow_masks(narrow_mask(experiment, job.workers_of_host()));
  warn_of_shared_gpus(experiment.devices);
  training_.emplace(train::TrainingJob{.group = *group_,
                                       .ranks = {.exchange = exchange_.get(),
                                                 .processes = roles_.workers,
                                                 .shape = WorldShape(experiment.devices_of_processes)},
                                       .places = gather_places(experiment.devices),
                                       .store_links = store_links_});
  experiment.job = &*training_;
}

void JobSession::agree_on_config(const std::string& own) {
  const auto differing = train::differing_keys(
      {parse_config(from_main(own), place_of(0)), parse_config(own, place_of(process()))}, kOfHost);
  if (differing.empty()) return;
  throw Error(ExitCode::ranks_disagree,
              fmt::format("{}: {} on {}, {} on {}{}; give all processes the same configuration", differing[0].key,
                          differing[0].values[0], place_of(0), differing[0].values[1], place_of(process()),
                          others_of(differing)));
}

void JobSession::take_roles(const train::Experiment& experiment) {
  const auto servers = experiment.strategy.store_servers;
  {
    const std::lock_guard lock(names_mutex_);
    roles_ = parallel::store_roles(processes(), servers.value_or(0));
    shape_.emplace(experiment.devices_of_processes);
  }
  if (is_worker()) mark_lines_as_of_rank(ranks_of(process()).begin);
  if (servers)
    store_links_ = std::make_shared<parallel::StoreLinks>(
        parallel::make_store_links(*exchange_, roles_, experiment.wait_timeout_s()));
  if (static_cast<int>(roles_.workers.size()) == processes()) return;
  group_.reset();
  everyone_ = std::make_unique<ProcessGroup>(*exchange_, kWatched_s);
  if (is_worker()) {
    group_ = std::make_unique<ProcessGroup>(*exchange_, roles_.workers, kWatched_s);
  } else {
    progress().trains = false;
    exchange_->next_group();
  }
}

std::vector<train::RankPlace> JobSession::gather_places(const std::vector<DeviceId>& own) {
  std::vector<std::string> names;
  for (const DeviceId& device : own) names.push_back(device.name());
  std::vector<train::RankPlace> places;
  int p = 0;
  for (const std::string& devices : group_->gather_everywhere(join_texts(names))) {
    const int process = roles_.workers[static_cast<size_t>(p++)];
    for (const std::string& device : split_texts(devices))
      places.push_back({.device = device, .host = job_->all()[static_cast<size_t>(process)].host, .process = process});
  }
  return places;
}

void JobSession::agree_on(const std::string& what, const std::string& own, const std::string& advice) {
  if (group_) require_agreement(what, {.of_main = from_main(own), .own = own}, advice);
}

void JobSession::require_agreement(const std::string& what, const Compared& values, const std::string& advice) {
  const auto& [of_main, own] = values;
  // All processes say whether they agree, so that none goes on alone.
  if (group_->largest(own == of_main ? 0 : 1) == 0) return;
  if (own == of_main) {
    // The processes that differ report it.
    group_->largest(0);
    return;
  }
  throw Error(ExitCode::ranks_disagree,
              fmt::format("{}: {} on {}, {} on {}; {}", what, of_main, place_of(0), own, place_of(process()), advice));
}

void JobSession::warn_of_narrow_masks(const std::string& own) {
  const std::vector<std::string> all = group_->gather(own);
  const auto is_narrow = [](const std::string& mask) { return !mask.empty(); };
  const auto first = std::ranges::find_if(all, is_narrow);
  if (first == all.end()) return;
  const auto others = std::ranges::count_if(first + 1, all.end(), is_narrow);
  write_message(fmt::format(
      "dptrain: warning: {}{} computes with {}; start mpirun with --bind-to none, or srun with "
      "--cpu-bind=none\n",
      place_of(static_cast<int>(first - all.begin())), others > 0 ? fmt::format(", as {} more,", others) : "", *first));
}

void JobSession::warn_of_shared_gpus(const std::vector<DeviceId>& own) {
  std::map<std::string, int> first;  // the first process that has a GPU, by the GPU's UUID
  const std::vector<std::string> all = group_->gather(join_texts(uuids_of(own)));
  for (size_t i = 0; i < all.size(); ++i) {
    const int process = roles_.workers[i];
    for (const std::string& uuid : split_texts(all[i])) {
      const auto [other, is_new] = first.emplace(uuid, process);
      if (is_new || other->second == process) continue;
      return write_message(
          fmt::format("dptrain: warning: processes {} and {} on {} share a GPU, which is slow: sums go through host "
                      "memory; devices: [cuda:local] gives each process of a host a GPU of its own\n",
                      other->second, process, job_->all()[static_cast<size_t>(process)].host));
    }
  }
}

void JobSession::agree_on_weights(const std::vector<nn::NamedValues>& own) {
  if (!group_) return;
  std::vector<std::string> hashes;
  for (const nn::NamedValues& tensor : own)
    hashes.push_back(fmt::format("{} {}", train::weights_hash({tensor}), tensor.name));
  const std::vector<std::string> of_main = split_texts(from_main(join_texts(hashes)));
  const auto name_of_line = [](const std::string& line) { return line.substr(line.find(' ') + 1); };
  std::string theirs, ours;
  for (const std::string& hash : hashes) {
    const auto same_name = std::ranges::find(of_main, name_of_line(hash), name_of_line);
    if (same_name == of_main.end() || *same_name == hash) continue;
    theirs = *same_name;
    ours = hash;
    break;
  }
  require_agreement("initial weights", {.of_main = theirs, .own = ours}, kAlike);
}

}  // namespace dptrain::app
