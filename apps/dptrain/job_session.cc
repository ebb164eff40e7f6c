#include "job_session.h"

#include <fmt/format.h>

#include <numeric>
#include <utility>

#include "config/config_document.h"
#include "output.h"
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
  if (job_->processes() == 1) return;
  exchange_ = std::make_unique<ProcessExchange>(job_->make_wire());
  group_ = std::make_unique<ProcessGroup>(*exchange_, kRank_s);
}

train::ConfigJob JobSession::config_job() {
  if (!group_) return {};
  return {.processes = processes(),
          .process = process(),
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
  const auto who = [this](int p) {
    return fmt::format("process {} on {}", p, job_->all()[static_cast<size_t>(p)].host);
  };
  const std::string build = fmt::format("{} ({})", version(), git_commit());
  const std::string main_build = from_main(build), main_config = from_main(config);
  if (build != main_build)
    throw Error(ExitCode::ranks_disagree,
                fmt::format("{} runs dptrain {}, {} dptrain {}; start the same build everywhere", who(0), main_build,
                            who(process()), build));
  const auto differing =
      train::differing_keys({parse_config(main_config, who(0)), parse_config(config, who(process()))}, kOfHost);
  if (!differing.empty())
    throw Error(ExitCode::ranks_disagree,
                fmt::format("{}: {} on {}, {} on {}; give all processes the same configuration", differing[0].key,
                            differing[0].values[0], who(0), differing[0].values[1], who(process())));
  std::vector<int> all(static_cast<size_t>(processes()));
  std::iota(all.begin(), all.end(), 0);
  std::vector<std::string> own;
  for (const DeviceId& device : experiment.devices) own.push_back(device.name());
  std::vector<train::RankPlace> places;
  int p = 0;
  for (const std::string& devices : group_->gather_everywhere(joined(own))) {
    for (const std::string& device : lines_of(devices))
      places.push_back({.device = device, .host = job_->all()[static_cast<size_t>(p)].host});
    ++p;
  }
  training_.emplace(train::TrainingJob{
      .group = *group_,
      .ranks = {.exchange = exchange_.get(), .processes = all, .shape = WorldShape(experiment.devices_of_processes)},
      .places = places});
  experiment.job = &*training_;
}

void JobSession::finish() {
  if (!job_) return;
  group_.reset();
  exchange_.reset();
  job_->finish(kFinish_s);
}

void JobSession::leave_after(const Error& error) {
  if (!exchange_) return;
  exchange_->fail({.code = error.code(), .sentence = error.what()});
  const JobFailure failure = exchange_->settled_failure();
  if (failure.sentence == error.what() && error.lines().size() > 1)
    for (const std::string& line : error.lines()) write_message(fmt::format("dptrain: {}\n", line));
  write_message(fmt::format("dptrain: {}\n", failure.sentence));
  job_->leave(failure.code);
}

}  // namespace dptrain::app
