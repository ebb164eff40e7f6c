#include "comm/job_watchdog.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <poll.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

namespace dptrain {
namespace {

constexpr int kTag = 0;
constexpr double kGuardPause_s = 0.05;
/// How long news of a failure may take that a process sent before it ended.
constexpr double kNews_s = 0.2;
/// A thread that asks the wire and doesn't come back for so long is held by MPI.
constexpr double kHeld_s = 2;

}  // namespace

std::string describe_progress(JobPhase phase, int64_t step) {
  switch (phase) {
    case JobPhase::step: return fmt::format("in step {}", step);
    case JobPhase::evaluation: return fmt::format("in the evaluation after step {}", step);
    case JobPhase::checkpoint: return fmt::format("in the checkpoint after step {}", step);
    default: return "before the first step";
  }
}

/// A heartbeat.
struct JobWatchdog::Beat {
  int64_t number = 0;
  int64_t step = 0;
  int64_t checkpoint = -1;
  JobPhase phase = JobPhase::start;
  int32_t is_last = 0;  ///< the sender has come to its regular end
};

struct JobWatchdog::Peer {
  int process = 0;
  bool is_linked = false;
  ProcessHandle handle;  ///< where it is on this host

  // Of the wire's thread alone:
  std::array<std::byte, sizeof(Beat)> in{};
  std::array<std::byte, sizeof(Beat)> out{};
  std::unique_ptr<WireMessage> receive;
  std::unique_ptr<WireMessage> send;
  int64_t sent = 0;

  Clock::time_point heard_at;
  Beat last;
  bool goodbye_sent = false;
  bool goodbye_heard = false;
  std::optional<Clock::time_point> ended_at;
};

JobWatchdog::JobWatchdog(std::shared_ptr<ProcessWire> wire, ProcessExchange& exchange, JobProgress& progress,
                         Watched watched, WatchdogHooks hooks, const WatchdogOptions& options)
    : wire_(std::move(wire)),
      exchange_(exchange),
      progress_(progress),
      hooks_(std::move(hooks)),
      options_(options),
      process_(wire_->process()),
      is_mesh_(wire_->processes() <= options.largest_mesh),
      asked_at_(Clock::now()) {
  const JobProcess& own = watched.processes[static_cast<size_t>(process_)];
  for (int other = 0; other < wire_->processes(); ++other) {
    if (other == process_) continue;
    const JobProcess& process = watched.processes[static_cast<size_t>(other)];
    auto peer = std::make_unique<Peer>();
    peer->process = other;
    peer->is_linked = is_linked(other);
    peer->heard_at = asked_at_;
    if (process.host == own.host && process.start != 0) peer->handle = ProcessHandle(process.pid, process.start);
    peers_.push_back(std::move(peer));
  }
  if (watched.launcher > 0) {
    launcher_ = ProcessHandle(watched.launcher);
    launcher_name_ = fmt::format("the launcher of the job on host {} (pid {})", own.host, watched.launcher);
  }
  beating_ = std::thread([this] { beat(); });
  guarding_ = std::thread([this] { guard(); });
}

JobWatchdog::~JobWatchdog() { join(); }

void JobWatchdog::join() {
  if (!guarding_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  beating_.join();  // where it doesn't end, the guard ends the process
  guarding_.join();
}

bool JobWatchdog::is_linked(int other) const { return is_mesh_ || process_ == 0 || other == 0; }

void JobWatchdog::finish(double timeout_s) {
  const auto deadline = deadline_in(timeout_s);
  std::vector<std::string> missing;
  {
    Lock lock(mutex_);
    parting_ = true;
    const auto all_parted = [this] {
      return std::ranges::all_of(
          peers_, [](const auto& peer) { return !peer->is_linked || (peer->goodbye_heard && peer->goodbye_sent); });
    };
    while (!all_parted() && !exchange_.has_failed() && Clock::now() < deadline)
      changed_.wait_until(lock, deadline_in(kGuardPause_s));
    for (const auto& peer : peers_)
      if (peer->is_linked && !peer->goodbye_heard) missing.push_back(hooks_.name(peer->process));
  }
  if (exchange_.has_failed()) throw JobError(exchange_.settled_failure());
  if (!missing.empty())
    throw Error(ExitCode::peer_lost,
                fmt::format("{} did not come to the end of the job within {} s", fmt::join(missing, ", "), timeout_s));
  join();
}

void JobWatchdog::beat() {
  auto next_beat = Clock::now();
  const double pause_s = std::min(0.02, options_.beat_s / 5);
  try {
    while (true) {
      {
        Lock lock(mutex_);
        changed_.wait_until(lock, deadline_in(pause_s), [this] { return stopping_; });
        if (stopping_) break;
        asked_at_ = Clock::now();
      }
      const bool is_time = Clock::now() >= next_beat;
      if (is_time) next_beat = deadline_in(options_.beat_s);
      for (const auto& peer : peers_) {
        if (!peer->is_linked) continue;
        hear(*peer);
        tell(*peer, is_time);
      }
    }
  } catch (const Error& error) {
    exchange_.fail({.code = error.code(), .sentence = error.what()});
  }
  const std::lock_guard lock(mutex_);
  wire_left_ = true;
}

void JobWatchdog::hear(Peer& peer) {
  if (peer.goodbye_heard) return;
  if (!peer.receive) peer.receive = wire_->start_receive(peer.in, peer.process, kTag);
  if (!peer.receive->is_done()) return;
  peer.receive.reset();
  Beat beat;
  std::memcpy(&beat, peer.in.data(), sizeof(Beat));
  double silent_s = 0;
  {
    const std::lock_guard lock(mutex_);
    const auto now = Clock::now();
    silent_s = seconds_between(peer.heard_at, now);
    peer.heard_at = now;
    peer.last = beat;
    peer.goodbye_heard = beat.is_last != 0;
  }
  changed_.notify_all();
  // Process 0 writes the checkpoints.
  if (peer.process == 0) progress_.checkpoint = beat.checkpoint;
  // One line of a process: process 0 tells of the others, they tell of process 0.
  const bool is_teller = process_ == 0 || (peer.process == 0 && process_ == 1);
  if (silent_s > options_.warning_s && is_teller)
    hooks_.warn(fmt::format("{} was silent for {:.1f} s", hooks_.name(peer.process), silent_s));
}

bool JobWatchdog::may_say_goodbye() const {
  if (!parting_) return false;
  // Who hears from process 0 alone is to learn from it that all have come to their end.
  return is_mesh_ || process_ != 0 || std::ranges::all_of(peers_, [](const auto& peer) { return peer->goodbye_heard; });
}

void JobWatchdog::tell(Peer& peer, bool is_time) {
  if (peer.send && !peer.send->is_done()) return;
  peer.send.reset();
  if (peer.sent < 0) {
    // The last one is on its way for good.
    const std::lock_guard lock(mutex_);
    peer.goodbye_sent = true;
    changed_.notify_all();
    return;
  }
  bool is_last = false;
  {
    const std::lock_guard lock(mutex_);
    is_last = may_say_goodbye();
  }
  if (!is_last && !is_time) return;
  const Beat beat{.number = ++peer.sent,
                  .step = progress_.step,
                  .checkpoint = progress_.checkpoint,
                  .phase = progress_.phase,
                  .is_last = is_last ? 1 : 0};
  if (is_last) peer.sent = -1;
  std::memcpy(peer.out.data(), &beat, sizeof(Beat));
  peer.send = wire_->start_send(peer.out, peer.process, kTag);
}

void JobWatchdog::guard() {
  auto looked_at = Clock::now();
  std::optional<Clock::time_point> end_at;
  while (true) {
    wait_for_ends();
    const auto now = Clock::now();
    std::optional<JobFailure> lost;
    std::set<int> gone;
    {
      const std::lock_guard lock(mutex_);
      if (stopping_ && wire_left_) return;
      // What this process has slept through, stopped or without a core, it can't hold against others.
      if (const double away_s = seconds_between(looked_at, now) - kGuardPause_s; away_s > 10 * kGuardPause_s)
        forgive(away_s);
      looked_at = now;
      if ((stopping_ || exchange_.has_failed()) && !end_at) end_at = deadline_in(options_.leave_s);
      if (!end_at) lost = find_lost(gone);
    }
    if (lost) exchange_.fail(*lost, gone);
    if (!end_at || now < *end_at) continue;
    // Either it is held after a failure, or MPI holds the thread that is waited for.
    exchange_.fail({.code = ExitCode::peer_lost, .sentence = "MPI did not let this process end"});
    hooks_.leave(exchange_.settled_failure());
    return;
  }
}

void JobWatchdog::wait_for_ends() {
  std::vector<pollfd> handles;
  std::vector<std::optional<Clock::time_point>*> ended;
  const auto add = [&](const ProcessHandle& handle, std::optional<Clock::time_point>& at) {
    if (handle.descriptor() < 0 || at) return;
    handles.push_back({.fd = handle.descriptor(), .events = POLLIN, .revents = 0});
    ended.push_back(&at);
  };
  // Only this thread writes when a process has ended.
  for (const auto& peer : peers_) add(peer->handle, peer->ended_at);
  add(launcher_, launcher_ended_at_);
  if (::poll(handles.data(), handles.size(), static_cast<int>(1000 * kGuardPause_s)) <= 0) return;
  for (size_t i = 0; i < handles.size(); ++i)
    if (handles[i].revents != 0) *ended[i] = Clock::now();
}

void JobWatchdog::forgive(double seconds) {
  const auto now = Clock::now();
  const auto later = [&](Clock::time_point at) {
    return std::min(now, at + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds)));
  };
  asked_at_ = later(asked_at_);
  for (const auto& peer : peers_) peer->heard_at = later(peer->heard_at);
}

bool JobWatchdog::is_held(Clock::time_point now) const { return seconds_between(asked_at_, now) > kHeld_s; }

std::optional<JobFailure> JobWatchdog::find_lost(std::set<int>& gone) {
  const auto now = Clock::now();
  const Peer* first = nullptr;
  for (const auto& peer : peers_) {
    if (!peer->ended_at || peer->goodbye_heard) continue;
    // At the end, those that don't say goodbye to this process are left to process 0.
    if (parting_ && !peer->is_linked) continue;
    gone.insert(peer->process);
    if (first == nullptr && seconds_between(*peer->ended_at, now) > kNews_s) first = peer.get();
  }
  if (launcher_ended_at_)
    return JobFailure{.sentence = fmt::format("{} has died", launcher_name_), .step = progress_.step};
  if (first == nullptr) return find_silent(gone);
  std::string sentence = hooks_.name(first->process) + " has died";
  if (first->last.number > 0)
    sentence += "; it was last heard of " + describe_progress(first->last.phase, first->last.step);
  return JobFailure{.sentence = std::move(sentence), .process = first->process, .step = first->last.step};
}

std::optional<JobFailure> JobWatchdog::find_silent(std::set<int>& gone) {
  const auto now = Clock::now();
  // Where a process of another host has died MPI may hold who asks the wire, so that nobody is heard of.
  const bool is_held_by_other_host =
      is_held(now) && std::ranges::any_of(peers_, [](const auto& peer) { return peer->handle.descriptor() < 0; });
  const Peer* longest = nullptr;
  for (const auto& peer : peers_) {
    if (!peer->is_linked || peer->goodbye_heard || seconds_between(peer->heard_at, now) < options_.silence_s) continue;
    if (is_held_by_other_host && peer->handle.descriptor() >= 0) continue;
    gone.insert(peer->process);
    if (longest == nullptr || peer->heard_at < longest->heard_at) longest = peer.get();
  }
  if (longest == nullptr) return std::nullopt;
  return JobFailure{.sentence = fmt::format("{} was silent for {:.1f} s; it was last heard of {}",
                                            hooks_.name(longest->process), seconds_between(longest->heard_at, now),
                                            describe_progress(longest->last.phase, longest->last.step)),
                    .process = longest->process,
                    .step = longest->last.step};
}

}  // namespace dptrain
