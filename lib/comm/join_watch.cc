#include "comm/join_watch.h"

#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <string>
#include <utility>

#include "base/host_name.h"
#include "base/signal_name.h"
#include "comm/exit_timer.h"
#include "comm/job.h"

namespace dptrain {
namespace {

constexpr auto kLook = std::chrono::milliseconds(100);
/// How long the hook has to record that the job didn't form.
constexpr double kTold_s = 2;
/// How long a signal to stop waits for a job that is about to form. In a job all processes can stop together.
constexpr double kStop_s = 1;
constexpr const char* kWhen = "before all processes had joined the job";

std::string death_of(int process, int64_t pid) {
  return fmt::format("process {} (host {}, pid {}) has died {}", process, host_name(), pid, kWhen);
}

}  // namespace

JoinWatch::JoinWatch(JoinOptions options)
    : options_(std::move(options)),
      launcher_pid_(launcher_pid()),
      siblings_(launcher_pid_, launched_processes_here()),
      launcher_(launcher_pid_),
      launcher_is_gone_(launcher_is_gone()),
      thread_([this] { watch(); }) {}

JoinWatch::~JoinWatch() {
  {
    const std::lock_guard lock(mutex_);
    stopped_ = true;
  }
  stopping_.notify_one();
  thread_.join();
  marks_.release();
}

void JoinWatch::watch() {
  std::unique_lock lock(mutex_);
  while (!stopping_.wait_for(lock, kLook, [this] { return stopped_; }))
    if (const auto failure = find_failure()) end(*failure);
}

std::optional<JoinFailure> JoinWatch::find_failure() {
  if (auto stop = find_stop()) return stop;
  if (auto ended = find_end()) return ended;
  if (auto loss = find_loss()) return loss;
  if (seconds_since(begun_) < options_.timeout_s) return std::nullopt;
  return JoinFailure{
      .sentence = fmt::format("the processes of the job did not all join within {} s{}; see what the launcher says "
                              "about the others, or set DPTRAIN_JOIN_TIMEOUT to more seconds",
                              options_.timeout_s, marks_.missing()),
      .pid = ::getpid(),
      .detected_s = options_.timeout_s};
}

std::optional<JoinFailure> JoinWatch::find_stop() {
  const int signal = options_.stop != nullptr ? options_.stop->load() : 0;
  if (signal == 0) return std::nullopt;
  if (!asked_at_) asked_at_ = Clock::now();
  if (seconds_since(*asked_at_) < kStop_s) return std::nullopt;
  return JoinFailure{.code = exit_code_of_signal(signal),
                     .sentence = fmt::format("stopped by {} {}", signal_name(signal), kWhen),
                     .pid = ::getpid()};
}

std::optional<JoinFailure> JoinWatch::find_end() {
  const auto ended = marks_.find_ended();
  if (!ended) return std::nullopt;
  // It may also have joined and failed since. This process then learns of it from the job.
  if (!end_seen_at_) end_seen_at_ = Clock::now();
  if (seconds_since(*end_seen_at_) < kStop_s) return std::nullopt;
  return JoinFailure{.code = static_cast<ExitCode>(ended->exit_code),
                     .sentence = fmt::format("process {} (host {}) has ended with exit code {} {}; see its own message",
                                             ended->number, host_name(), ended->exit_code, kWhen),
                     .pid = ::getpid(),
                     .is_mistake = true};
}

std::optional<JoinFailure> JoinWatch::find_loss() {
  JoinFailure loss{.code = ExitCode::peer_lost, .sentence = {}};
  if (const auto dead = marks_.find_dead()) {
    loss.pid = dead->pid;
    loss.sentence = death_of(dead->number, dead->pid);
  } else if (launcher_is_gone_) {
    loss.pid = ::getpid();
    loss.sentence = fmt::format("the launcher of the job on host {} had died before this process began", host_name());
  } else if (launcher_.has_ended()) {
    loss.pid = launcher_pid_;
    loss.sentence =
        fmt::format("the launcher of the job on host {} (pid {}) has died {}", host_name(), launcher_pid_, kWhen);
  } else {
    return find_early_loss();
  }
  return loss;
}

std::optional<JoinFailure> JoinWatch::find_early_loss() {
  JoinFailure loss{.code = ExitCode::peer_lost, .sentence = {}, .pid = ::getpid()};
  siblings_.look();
  // A process that ends by itself leaves a mark first.
  const auto ended = siblings_.ended();
  const auto marked = marks_.come();
  if (!marked) return std::nullopt;
  for (const auto& [number, pid] : ended) {
    if (marked->contains(number)) continue;
    loss.pid = pid;
    loss.sentence = death_of(number, pid);
    return loss;
  }
  if (!siblings_.lacks_some(*marked)) return std::nullopt;
  loss.sentence =
      fmt::format("one of the {} processes on host {} has died {}", launched_processes_here(), host_name(), kWhen);
  return loss;
}

void JoinWatch::end(const JoinFailure& failure) {
  const bool speaks = marks_.speaks_for_job() && static_cast<int>(failure.code) < 128 && !failure.is_mistake;
  // Other processes must not take this end for a death.
  marks_.release();
  if (speaks && options_.on_failure) {
    // The hook may write to a network disk that doesn't answer.
    const ExitTimer timer(kTold_s, failure.code, failure.sentence);
    options_.on_failure(failure);
  }
  end_process(failure.code, failure.sentence);
}

}  // namespace dptrain
