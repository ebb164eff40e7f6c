#include "job_session.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "as_error.h"
#include "config/config_document.h"
#include "device/cpu_device.h"
#include "output.h"
#include "parallel/store_scheduler.h"
#include "parallel/store_server.h"
#include "program.h"
#include "train/config_difference.h"

namespace dptrain::app {
namespace {

/// How long processes wait for each other to join, to end, and for a rank that is late.
constexpr double kJoin_s = 60;
constexpr double kFinish_s = 60;
constexpr double kRank_s = 300;

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

std::string joined(const std::vector<std::string>& lines) {
  std::string text;
  for (const std::string& line : lines) text += line + '\n';
  return text;
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = text.find('\n', begin);
    lines.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return lines;
}

}  // namespace

JobSession::JobSession() {
  if (!was_launched_in_job()) return;
  job_ = join_job(kJoin_s);
  if (launched_processes() > job_->processes())
    throw Error(
        ExitCode::job_not_formed,
        fmt::format("the launcher started {} processes, of which MPI joined {}; start them with the mpirun of the "
                    "MPI that dptrain is built with, which --version names",
                    launched_processes(), job_->processes()));
  if (job_->processes() == 1) return;
  exchange_ = std::make_unique<ProcessExchange>(job_->make_wire());
  group_ = std::make_unique<ProcessGroup>(*exchange_, kRank_s);
}

train::ConfigJob JobSession::config_job() {
  if (!group_) return {.host = train::host_name()};
  const auto here =
      std::ranges::count(job_->all(), job_->all()[static_cast<size_t>(process())].host, &JobProcess::host);
  return {.processes = processes(),
          .process = process(),
          .processes_of_host = static_cast<int>(here),
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
      {parse_config(from_main(config), name_of(0)), parse_config(config, name_of(process()))}, kOfHost);
  if (!differing.empty())
    throw Error(ExitCode::ranks_disagree,
                fmt::format("{}: {} on {}, {} on {}; give all processes the same configuration", differing[0].key,
                            differing[0].values[0], name_of(0), differing[0].values[1], name_of(process())));
  const auto servers = experiment.strategy.store_servers;
  roles_ = parallel::store_roles(processes(), servers.value_or(0));
  if (servers)
    store_links_ = std::make_shared<parallel::StoreLinks>(parallel::make_store_links(*exchange_, roles_, kRank_s));
  if (static_cast<int>(roles_.workers.size()) < processes()) {
    group_.reset();
    if (!is_worker()) {
      exchange_->next_group();
      return;
    }
    group_ = std::make_unique<ProcessGroup>(*exchange_, roles_.workers, kRank_s);
  }
  agree_on("devices compute on", computes_on(experiment.devices));
  std::vector<std::string> own;
  for (const DeviceId& device : experiment.devices) own.push_back(device.name());
  std::vector<train::RankPlace> places;
  int p = 0;
  for (const std::string& devices : group_->gather_everywhere(joined(own))) {
    for (const std::string& device : lines_of(devices))
      places.push_back({.device = device, .host = job_->all()[static_cast<size_t>(p)].host});
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
  if (!group_) return;
  const std::string of_main = from_main(own);
  // All say whether they agree, so that none goes on alone.
  if (group_->largest(own == of_main ? 0 : 1) == 0) return;
  if (own == of_main) {
    // Whoever differs says so.
    group_->largest(0);
    return;
  }
  throw Error(ExitCode::ranks_disagree, fmt::format("{}: {} on {}, {} on {}; start all processes alike", what, of_main,
                                                    name_of(0), own, name_of(process())));
}

void JobSession::serve(const train::Experiment& experiment) {
  parallel::StoreLinks& links = *store_links_;
  for (parallel::ServerLinks& server : links.servers)
    parallel::serve_store(std::move(server), experiment.store_server(kRank_s));
  if (!links.to_workers.empty())
    parallel::StoreScheduler(std::move(links.to_workers), experiment.strategy.max_staleness, kRank_s).wait();
}

std::string JobSession::name_of(int process) const {
  return fmt::format("process {} on {}", process, job_->all()[static_cast<size_t>(process)].host);
}

void JobSession::finish() {
  if (!job_) return;
  group_.reset();
  exchange_.reset();
  job_->finish(kFinish_s);
}

void JobSession::leave_after(const std::exception& failure) {
  if (!exchange_) return;
  const Error error = as_error(failure);
  exchange_->fail({.code = error.code(), .sentence = error.what()});
  const JobFailure settled = exchange_->settled_failure();
  if (settled.sentence == error.what() && error.lines().size() > 1)
    for (const std::string& line : error.lines()) write_message(fmt::format("dptrain: {}\n", line));
  write_message(fmt::format("dptrain: {}\n", settled.sentence));
  job_->leave(settled.code);
}

}  // namespace dptrain::app
