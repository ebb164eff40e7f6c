#include "job_session.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <thread>
#include <utility>

#include "as_error.h"
#include "base/line_mark.h"
#include "comm/exit_timer.h"
#include "config/config_document.h"
#include "device/cpu_device.h"
#include "output.h"
#include "parallel/store_scheduler.h"
#include "parallel/store_server.h"
#include "program.h"
#include "resume_command.h"
#include "stop_signals.h"
#include "train/config_difference.h"
#include "train/safetensors.h"

namespace dptrain::app {
namespace {

/// How long processes wait for each other to end.
constexpr double kFinish_s = 60;
/// How long they wait for each other before the training, and between steps. Nobody knows how long data take to be
/// read, or a checkpoint to be written; who is lost meanwhile, or hangs in a step, the watch finds.
constexpr double kWatched_s = 7 * 24 * 3600;
/// How long writing fault.json may take.
constexpr double kWrite_s = 2;
/// How long the launcher has to show the last line.
constexpr double kShown_s = 0.1;

/// Keys whose values may differ from host to host.
const std::vector<std::string> kOfHost = {"devices", "threads", "hosts"};

/// What decides how weights lie in memory: the kinds of devices, and the instruction set of CPU workers. "cpu with
/// avx512".
std::string computes_on(const std::vector<DeviceId>& devices) {
  std::string text;
  for (const DeviceKind kind : {DeviceKind::cpu, DeviceKind::cuda}) {
    if (std::ranges::none_of(devices, [kind](const DeviceId& id) { return id.kind == kind; })) continue;
    if (!text.empty()) text += " and ";
    text += kind == DeviceKind::cpu ? fmt::format("cpu with {}", cpu_isa_name(cpu_isa())) : "cuda";
  }
  return text;
}

/// "4 CPU threads on 1 of 8 cores", where the launcher has left this process too few of its own; "" otherwise.
std::string narrow_mask(const train::Experiment& experiment, int workers_of_host) {
  int threads = 0;
  for (size_t i = 0; i < experiment.devices.size(); ++i)
    if (experiment.devices[i].kind == DeviceKind::cpu) threads += experiment.threads[i];
  const int cores = usable_cores(), launchers = usable_cores(::getppid());
  if (threads == 0 || cores >= launchers || (threads <= cores && cores * workers_of_host >= launchers)) return {};
  return fmt::format("{} CPU thread{} on {} of {} cores", threads, threads == 1 ? "" : "s", cores, launchers);
}

/// As one text, and back.
std::string joined(const std::vector<std::string>& parts) {
  std::string text;
  for (const std::string& part : parts) text += part + '\0';
  return text;
}

std::vector<std::string> parts_of(const std::string& text) {
  std::vector<std::string> parts;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = text.find('\0', begin);
    parts.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

}  // namespace

JobSession::JobSession(train::StopSignal& stop) {
  if (was_launched_in_job()) job_ = join_job(join_timeout_s());
  report_.emplace(process(),
                  job_ ? job_->all() : std::vector<JobProcess>{{.host = train::host_name(), .pid = ::getpid()}});
  if (!job_) return;
  if (launched_processes() > job_->processes())
    throw Error(
        ExitCode::job_not_formed,
        fmt::format("the launcher started {} processes, of which MPI joined {}; start them with the mpirun of the "
                    "MPI that dptrain is built with, which --version names",
                    launched_processes(), job_->processes()));
  if (job_->processes() == 1) return;
  exchange_ = std::make_unique<ProcessExchange>(job_->make_wire());
  exchange_->complete_failures_by([this](JobFailure failure) { return report_->completed(std::move(failure)); });
  watch(stop);
  group_ = std::make_unique<ProcessGroup>(*exchange_, kWatched_s);
}

void JobSession::watch(train::StopSignal& stop) {
  watchdog_ = std::make_unique<JobWatchdog>(
      job_->make_wire(), *exchange_, report_->progress(),
      JobWatchdog::Watched{.processes = job_->all(), .launcher = launcher_pid(), .stop = &stop},
      WatchdogHooks{.name = [this](int process) { return name_of(process); },
                    .doubts = [this] { return job_->connections_lost(); },
                    .warn = [](const std::string& text) { write_message(fmt::format("dptrain: {}\n", text)); },
                    .leave = [this](const JobFailure& failure) { leave_with(failure); }});
}

train::ConfigJob JobSession::config_job() {
  if (!group_) return {.host = train::host_name()};
  std::vector<std::string> hosts;
  for (const JobProcess& one : job_->all()) hosts.push_back(one.host);
  return {.processes = processes(),
          .process = process(),
          .hosts = hosts,
          .host = train::host_name(),
          .exchange_devices = [this](int devices) {
            std::vector<int> all;
            for (const std::string& count : group_->gather_everywhere(std::to_string(devices)))
              all.push_back(std::stoi(count));
            return all;
          }};
}

void JobSession::agree_on(const std::string& config, train::Experiment& experiment) {
  if (!group_) return;
  agree_on("dptrain", fmt::format("{} ({})", version(), git_commit()));
  const auto differing = train::differing_keys(
      {parse_config(from_main(config), place_of(0)), parse_config(config, place_of(process()))}, kOfHost);
  if (!differing.empty())
    throw Error(ExitCode::ranks_disagree,
                fmt::format("{}: {} on {}, {} on {}; give all processes the same configuration", differing[0].key,
                            differing[0].values[0], place_of(0), differing[0].values[1], place_of(process())));
  const auto servers = experiment.strategy.store_servers;
  progress().timeout_s = experiment.timeout_s;
  {
    const std::lock_guard lock(names_mutex_);
    roles_ = parallel::store_roles(processes(), servers.value_or(0));
    shape_.emplace(experiment.devices_of_processes);
  }
  if (is_worker()) mark_lines_as_of_rank(ranks_of(process()).begin);
  if (servers)
    store_links_ = std::make_shared<parallel::StoreLinks>(
        parallel::make_store_links(*exchange_, roles_, experiment.wait_timeout_s()));
  if (static_cast<int>(roles_.workers.size()) < processes()) {
    group_.reset();
    everyone_ = std::make_unique<ProcessGroup>(*exchange_, kWatched_s);
    if (!is_worker()) {
      progress().trains = false;
      exchange_->next_group();
      return;
    }
    group_ = std::make_unique<ProcessGroup>(*exchange_, roles_.workers, kWatched_s);
  }
  agree_on("devices compute on", computes_on(experiment.devices));
  train::ConfigJob job = config_job();
  job.store_servers = servers.value_or(0);
  warn_of_narrow_masks(narrow_mask(experiment, job.workers_of_host()));
  std::vector<std::string> own;
  for (const DeviceId& device : experiment.devices) own.push_back(device.name());
  std::vector<train::RankPlace> places;
  int p = 0;
  for (const std::string& devices : group_->gather_everywhere(joined(own))) {
    for (const std::string& device : parts_of(devices))
      places.push_back({.device = device,
                        .host = job_->all()[static_cast<size_t>(p)].host,
                        .process = roles_.workers[static_cast<size_t>(p)]});
    ++p;
  }
  training_.emplace(train::TrainingJob{.group = *group_,
                                       .ranks = {.exchange = exchange_.get(),
                                                 .processes = roles_.workers,
                                                 .shape = WorldShape(experiment.devices_of_processes)},
                                       .places = places,
                                       .store_links = store_links_});
  experiment.job = &*training_;
}

void JobSession::agree_on(const std::string& what, const std::string& own) {
  if (group_) agree_on(what, from_main(own), own);
}

void JobSession::agree_on(const std::string& what, const std::string& of_main, const std::string& own) {
  // All say whether they agree, so that none goes on alone.
  if (group_->largest(own == of_main ? 0 : 1) == 0) return;
  if (own == of_main) {
    // Whoever differs says so.
    group_->largest(0);
    return;
  }
  throw Error(ExitCode::ranks_disagree, fmt::format("{}: {} on {}, {} on {}; start all processes alike", what, of_main,
                                                    place_of(0), own, place_of(process())));
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

void JobSession::one_of_each_host_first(const std::function<void()>& act) {
  if (!group_) return act();
  const auto host_of = [&](int process) { return job_->all()[static_cast<size_t>(process)].host; };
  const auto first = std::ranges::find(roles_.workers, host_of(process()), host_of);
  if (*first == process()) act();
  group_->largest(0);
  if (*first != process()) act();
}

void JobSession::agree_on_weights(const std::vector<nn::NamedValues>& own) {
  if (!group_) return;
  std::vector<std::string> hashes;
  for (const nn::NamedValues& tensor : own)
    hashes.push_back(fmt::format("{} {}", train::weights_hash({tensor}), tensor.name));
  const std::vector<std::string> of_main = parts_of(from_main(joined(hashes)));
  const auto name_of_line = [](const std::string& line) { return line.substr(line.find(' ') + 1); };
  std::string theirs, ours;
  for (const std::string& hash : hashes) {
    const auto same_name = std::ranges::find(of_main, name_of_line(hash), name_of_line);
    if (same_name == of_main.end() || *same_name == hash) continue;
    theirs = *same_name;
    ours = hash;
    break;
  }
  agree_on("weights to begin with", theirs, ours);
}

void JobSession::serve(const train::Experiment& experiment) {
  parallel::StoreLinks& links = *store_links_;
  std::vector<std::unique_ptr<parallel::StoreServer>> servers;
  std::optional<parallel::StoreScheduler> scheduler;
  parallel::StoreServerOptions options = experiment.store_server();
  options.activity = &exchange_->activity();
  for (parallel::ServerLinks& server : links.servers)
    servers.push_back(parallel::open_store_server(std::move(server), options));
  if (!links.to_workers.empty())
    scheduler.emplace(std::move(links.to_workers), experiment.strategy.max_staleness, experiment.wait_timeout_s(),
                      &exchange_->activity());
  hear_of_training();
  for (const auto& server : servers) server->wait();
  if (scheduler) scheduler->wait();
}

void JobSession::hear_of_training() {
  const std::vector<std::string> told = parts_of(everyone_->from_main(""));
  if (told.empty()) return;
  std::optional<train::FaultRecord::Saved> resumed;
  if (!told[2].empty()) resumed = {.path = told[2], .step = std::stoll(told[3])};
  report_->begin({.run = told[0],
                  .directory = told[1],
                  .first_ranks = first_ranks(),
                  .resumed = resumed,
                  .start = {told.begin() + 4, told.end()}});
}

std::string JobSession::place_of(int process) const {
  return fmt::format("process {} on {}", process, job_->all()[static_cast<size_t>(process)].host);
}

std::string JobSession::name_of(int process) {
  const JobProcess& one = job_->all()[static_cast<size_t>(process)];
  const RankRun run = ranks_of(process);
  std::vector<int> ranks;
  for (int rank = run.begin; rank < run.end; ++rank) ranks.push_back(rank);
  const std::string is = ranks.empty() ? role_of(process) : ", " + rank_names(ranks);
  return fmt::format("process {} (host {}, pid {}{})", process, one.host, one.pid, is);
}

std::string JobSession::role_of(int process) {
  const std::lock_guard lock(names_mutex_);
  if (!shape_ || roles_.is_worker(process)) return {};
  const auto server = std::ranges::find(roles_.servers, process);
  return server == roles_.servers.end() ? ", the scheduler"
                                        : fmt::format(", server {}", server - roles_.servers.begin());
}

RankRun JobSession::ranks_of(int process) {
  const std::lock_guard lock(names_mutex_);
  if (!shape_) return {0, 0};
  const auto place = static_cast<int>(std::ranges::find(roles_.workers, process) - roles_.workers.begin());
  return place < shape_->processes() ? shape_->ranks_of(place) : RankRun{0, 0};
}

void JobSession::begin_training(const train::Experiment& experiment, const std::filesystem::path& directory,
                                const std::optional<train::FaultRecord::Saved>& resumed) {
  std::vector<std::string> told = {experiment.name, directory.string(), resumed ? resumed->path.string() : "",
                                   resumed ? std::to_string(resumed->step) : ""};
  if (is_main()) std::ranges::copy(start_words(processes()), std::back_inserter(told));
  told = parts_of(everyone_ ? everyone_->from_main(joined(told)) : from_main(joined(told)));
  report_->begin({.run = experiment.name,
                  .directory = directory,
                  .first_ranks = first_ranks(),
                  .resumed = resumed,
                  .start = {told.begin() + 4, told.end()}});
}

void JobSession::begin_nothing() {
  if (everyone_) everyone_->from_main("");
}

std::vector<std::optional<int>> JobSession::first_ranks() {
  std::vector<std::optional<int>> first;
  for (int p = 0; p < processes(); ++p) {
    const RankRun ranks = ranks_of(p);
    first.push_back(processes() == 1 ? 0 : ranks.size() > 0 ? std::optional(ranks.begin) : std::nullopt);
  }
  return first;
}

void JobSession::finish() {
  if (!job_) return;
  if (watchdog_) watchdog_->finish(kFinish_s);
  watchdog_.reset();
  group_.reset();
  everyone_.reset();
  exchange_.reset();
  job_->finish(kFinish_s);
}

void JobSession::leave_after(const std::exception& failure) {
  const Error error = as_error(failure);
  const JobFailure own{.code = error.code(), .sentence = error.what()};
  if (!exchange_) return report_->write(report_->completed(own), {});
  exchange_->fail(own);
  const JobFailure settled = exchange_->settled_failure();
  const bool is_own = settled.sentence == error.what() && error.lines().size() > 1;
  leave_with(settled, is_own ? error.lines() : std::vector<std::string>());
}

void JobSession::leave_with(const JobFailure& failure, const std::vector<std::string>& before) {
  while (is_leaving_.test_and_set()) std::this_thread::sleep_for(std::chrono::seconds(1));
  const std::string line = report_->line(failure);
  {
    // A disk of another machine may not answer.
    const ExitTimer timer(kWrite_s, failure.code, line);
    report_->write(failure, exchange_->operations());
  }
  // The launcher's SIGTERM comes now, too, and its line would be the last one.
  ignore_stop_signals();
  for (const std::string& one : before) write_message(fmt::format("dptrain: {}\n", one));
  write_message(fmt::format("dptrain: {}\n", line));
  // Once the first process has ended mpirun may sleep, and show no more of what the others have said.
  std::this_thread::sleep_for(std::chrono::duration<double>(kShown_s));
  job_->leave(failure.code);
  std::abort();  // which compilers don't know of a virtual function
}

}  // namespace dptrain::app
