#include "job_session.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <thread>
#include <utility>

#include "as_error.h"
#include "base/host_name.h"
#include "comm/exit_timer.h"
#include "comm/join_watch.h"
#include "device/device_list.h"
#include "joined_texts.h"
#include "output.h"
#include "parallel/store_scheduler.h"
#include "parallel/store_server.h"
#include "resume_command.h"
#include "stop_signals.h"

namespace dptrain::app {

/// The message in which the main process announces a training run.
struct JobSession::TrainingNews {
  std::string run;
  std::string directory;
  std::optional<train::FaultRecord::Saved> resumed;
  std::vector<std::string> start;  ///< the command that started the job, word by word

  std::string packed() const {
    std::vector<std::string> texts = {run, directory, resumed ? resumed->path.string() : "",
                                      resumed ? std::to_string(resumed->step) : ""};
    texts.insert(texts.end(), start.begin(), start.end());
    return join_texts(texts);
  }
  /// Unpacks a message; an empty text means that nothing begins.
  static std::optional<TrainingNews> unpacked(const std::string& packed) {
    const std::vector<std::string> texts = split_texts(packed);
    if (texts.empty()) return std::nullopt;
    TrainingNews news{.run = texts[0], .directory = texts[1], .resumed = {}, .start = {texts.begin() + 4, texts.end()}};
    if (!texts[2].empty()) news.resumed = {.path = texts[2], .step = std::stoll(texts[3])};
    return news;
  }
};

namespace {

/// How long processes wait for each other to end.
constexpr double kFinish_s = 60;
/// How long the end may take once all processes are there.
constexpr double kEnd_s = 10;
/// How long writing fault.json may take.
constexpr double kWrite_s = 2;
/// How long the launcher gets to show the last line.
constexpr double kShown_s = 0.1;

/// Writes fault.json for a job that hasn't formed.
void write_unformed_fault(const std::function<ExpectedRun()>& expected, const JoinFailure& failure) {
  try {
    write_unbegun_fault(expected(),
                        {.code = failure.code, .sentence = failure.sentence, .detected_s = failure.detected_s},
                        {.host = host_name(), .pid = failure.pid}, {});
  } catch (const std::exception&) {
    // If the configuration can't be read, the directory isn't known.
  }
}

}  // namespace

JobSession::JobSession(train::StopSignal& stop, const std::function<ExpectedRun()>& expected) {
  // Watches until the watch over the job's processes begins, which needs a wire between all of them.
  std::optional<JoinWatch> joining;
  if (was_launched_in_job()) {
    const JoinOptions options{
        .timeout_s = join_timeout_s(), .stop = &stop, .on_failure = [&expected](const JoinFailure& failure) {
          write_unformed_fault(expected, failure);
        }};
    joining.emplace(options);
    job_ = join_job(options);
  } else if (launched_processes() > 1) {  // only srun reports processes without a way to join them
    throw Error(
        ExitCode::job_not_formed,
        fmt::format("srun started {} processes that don't know each other, and each would train by itself; start them "
                    "with srun --mpi=pmix, or unset SLURM_STEP_NUM_TASKS if each is meant to train by itself",
                    launched_processes()));
  }
  report_.emplace(process(), job_ ? job_->all() : std::vector<JobProcess>{{.host = host_name(), .pid = ::getpid()}});
  if (!job_) return;
  if (launched_processes() > job_->processes())
    throw Error(ExitCode::job_not_formed,
                fmt::format("the launcher started {} processes, but MPI joined only {}; start them with the mpirun of "
                            "the MPI that dptrain is built with, which --version names",
                            launched_processes(), job_->processes()));
  if (job_->processes() == 1) return;
  take_second_sigterm_for_the_first();
  try {
    report_->expect(expected());
  } catch (const std::exception&) {
    // If the configuration can't be read, the directory isn't known.
  }
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
                    .on_stuck = [this] { report_->keep_stacks(); },
                    .leave = [this](const JobFailure& failure) { leave_with(failure); }});
}

train::ConfigJob JobSession::config_job() {
  if (!group_) return {.host = host_name()};
  std::vector<std::string> hosts;
  for (const JobProcess& one : job_->all()) hosts.push_back(one.host);
  return {.processes = processes(),
          .process = process(),
          .hosts = hosts,
          .host = host_name(),
          .exchange_devices = [this](const std::vector<DeviceId>& own) {
            std::vector<std::vector<DeviceId>> all;
            for (const std::string& names : group_->gather_everywhere(device_names(own)))
              all.push_back(devices_elsewhere(names));
            return all;
          }};
}

void JobSession::expect_training(const train::Experiment& experiment, const std::filesystem::path& directory,
                                 train::EarlierRun earlier) {
  if (processes() > 1 && is_main())
    report_->expect(
        {.name = experiment.name, .directory = directory, .start = start_words(processes()), .earlier = earlier});
}

void JobSession::one_of_each_host_first(const std::function<void()>& act) {
  if (!group_) return act();
  const auto host_of = [&](int process) { return job_->all()[static_cast<size_t>(process)].host; };
  const auto first = std::ranges::find(roles_.workers, host_of(process()), host_of);
  if (*first == process()) act();
  group_->largest(0);
  if (*first != process()) act();
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
  if (const auto news = TrainingNews::unpacked(everyone_->from_main(""))) note_begin(*news);
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
  TrainingNews news{.run = experiment.name, .directory = directory.string(), .resumed = resumed, .start = {}};
  if (is_main()) news.start = start_words(processes());
  const std::string packed = news.packed();
  news.start = TrainingNews::unpacked(everyone_ ? everyone_->from_main(packed) : from_main(packed))->start;
  note_begin(news);
}

void JobSession::note_begin(const TrainingNews& news) {
  tell_launcher_of_run(news.directory);
  report_->begin({.run = news.run,
                  .directory = news.directory,
                  .first_ranks = first_ranks(),
                  .resumed = news.resumed,
                  .start = news.start});
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
  // All processes have done their work, and the watch has ended: a process that is lost now loses nothing.
  try {
    job_->finish(kEnd_s);
  } catch (const Error& lost) {
    write_message(fmt::format("dptrain: {}; all work of the job was done by then\n", lost.what()));
  }
}

std::string JobSession::with_host(const Error& error) const {
  const bool names_processes = error.code() == ExitCode::peer_lost || error.code() == ExitCode::ranks_disagree ||
                               error.code() == ExitCode::diverged;
  if (is_main() || names_processes) return error.what();
  const std::string& own = job_->all()[static_cast<size_t>(process())].host;
  if (own == job_->all().front().host) return error.what();
  return fmt::format("on host {}: {}", own, error.what());
}

void JobSession::leave_after(const std::exception& failure) {
  const Error error = as_error(failure);
  // A failure of the whole job keeps its own sentence.
  const bool is_of_job = dynamic_cast<const JobError*>(&failure) != nullptr;
  const JobFailure own{.code = error.code(), .sentence = is_of_job ? error.what() : with_host(error)};
  if (!exchange_) return report_->write(report_->completed(own), {});
  exchange_->fail(own);
  const JobFailure settled = exchange_->settled_failure();
  const bool is_own = settled.sentence == own.sentence && error.lines().size() > 1;
  leave_with(settled, is_own ? error.lines() : std::vector<std::string>());
}

void JobSession::leave_hung(const std::exception& failure) {
  report_->keep_stacks();
  leave_after(failure);
}

void JobSession::leave_with(const JobFailure& failure, const std::vector<std::string>& before) {
  while (is_leaving_.test_and_set()) std::this_thread::sleep_for(std::chrono::seconds(1));
  const std::string line = report_->line(failure);
  if (exchange_->is_blamed()) report_->keep_stacks();
  // The timer ends the process if another machine's disk, or the reader of stderr, doesn't respond.
  const ExitTimer timer(kWrite_s + kShown_s, failure.code, line);
  report_->write(failure, exchange_->operations());
  // The launcher sends SIGTERM now, too, and its message would become the last line.
  ignore_stop_signals();
  for (const std::string& one : before) write_message(fmt::format("dptrain: {}\n", one));
  write_message(fmt::format("dptrain: {}\n", line));
  // Once the first process has ended, mpirun may sleep and show no more output of the others.
  std::this_thread::sleep_for(std::chrono::duration<double>(kShown_s));
  tell_launcher_of_exit(static_cast<int>(failure.code), line);
  job_->leave(failure.code);
  std::abort();  // compilers don't know that the virtual function `leave` never returns
}

}  // namespace dptrain::app
