#include "comm/job_watchdog.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "base/file_progress.h"

namespace dptrain {
namespace {

constexpr int kTag = 0;
constexpr double kGuardPause_s = 0.05;
/// How long news of a failure may take that a process sent before it ended.
constexpr double kNews_s = 0.2;
/// A thread that asks the wire and doesn't come back for so long is held by MPI.
constexpr double kHeld_s = 2;
/// A thread of this process that has not run for so long was kept from it.
constexpr double kAway_s = 0.5;

}  // namespace

std::string describe_progress(JobPhase phase, int64_t step) {
  switch (phase) {
    case JobPhase::loading: return fmt::format("loading the batch of step {}", step + 1);
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
  int32_t is_last = 0;                  ///< the sender has come to its regular end
  int32_t signal = 0;                   ///< that asks the sender to stop
  std::array<char, 96> operation = {};  ///< the latest, ends in 0
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
  int64_t told_checkpoint = -1;
  int told_signal = 0;
  bool last_is_sent = false;

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
      stop_(watched.stop),
      asked_at_(Clock::now()),
      moved_at_(asked_at_) {
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
    ending_ = true;
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
        changed_.wait_until(lock, deadline_in(pause_s), [this] { return ending_; });
        if (ending_) break;
        forgive(asked_at_);
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
    silent_s = seconds_between(heard_at(peer), now);
    peer.heard_at = now;
    peer.last = beat;
    peer.goodbye_heard = beat.is_last != 0;
  }
  changed_.notify_all();
  int none = 0;
  if (stop_ != nullptr && beat.signal != 0) stop_->compare_exchange_strong(none, beat.signal);
  // Process 0 writes the checkpoints.
  if (peer.process == 0) progress_.checkpoint = beat.checkpoint;
  if (peer.process == 0 && !progress_.trains) {
    progress_.step = beat.step;
    progress_.phase = beat.phase;
  }
  // One line of a process: process 0 tells of the others, the next one of process 0. None once the job has failed: a
  // launcher that ends it wakes who was stopped, and the last line is the root cause's.
  const bool is_teller = process_ == 0 || (peer.process == 0 && process_ == 1);
  if (silent_s > options_.warning_s && is_teller && !exchange_.has_failed())
    hooks_.warn(fmt::format("{} was silent for {:.1f} s", hooks_.name(peer.process), silent_s));
}

bool JobWatchdog::may_say_goodbye() const {
  if (!parting_) return false;
  // Who hears of process 0 alone is to learn from it that all have come to their end.
  return is_mesh_ || process_ != 0 || std::ranges::all_of(peers_, [](const auto& peer) { return peer->goodbye_heard; });
}

void JobWatchdog::tell(Peer& peer, bool is_time) {
  if (peer.send && !peer.send->is_done()) return;
  peer.send.reset();
  bool is_last = false;
  {
    const std::lock_guard lock(mutex_);
    if (peer.last_is_sent) {
      // It is on its way for good.
      peer.goodbye_sent = true;
      changed_.notify_all();
      return;
    }
    is_last = may_say_goodbye();
  }
  // What survives a death is told at once, and that all are to stop.
  const int64_t checkpoint = progress_.checkpoint;
  const int signal = stop_signal();
  if (!is_last && !is_time && checkpoint == peer.told_checkpoint && signal == peer.told_signal) return;
  peer.told_checkpoint = checkpoint;
  peer.told_signal = signal;
  Beat beat{.number = ++peer.sent,
            .step = progress_.step,
            .checkpoint = checkpoint,
            .phase = progress_.phase,
            .is_last = is_last ? 1 : 0,
            .signal = signal};
  exchange_.latest_operation().copy(beat.operation.data(), beat.operation.size() - 1);
  peer.last_is_sent = is_last;
  std::memcpy(peer.out.data(), &beat, sizeof(Beat));
  peer.send = wire_->start_send(peer.out, peer.process, kTag);
}

void JobWatchdog::guard() {
  auto looked_at = Clock::now();
  std::optional<Clock::time_point> end_at;
  while (true) {
    std::this_thread::sleep_for(std::chrono::duration<double>(kGuardPause_s));
    look_for_ends();
    std::optional<JobFailure> lost;
    std::set<int> gone;
    {
      const std::lock_guard lock(mutex_);
      if (ending_ && wire_left_) return;
      // Only what this thread has slept through: MPI may hold the other one while a rank hangs.
      const auto away = forgive(looked_at);
      moved_at_ += away;
      for (SeenService& seen : services_) seen.moved_at += away;
      looked_at = Clock::now();
      if (const int doubts = hooks_.doubts() + (stop_signal() != 0 ? 1 : 0); doubts != std::exchange(doubts_, doubts))
        doubtful_since_ = looked_at;
      if ((ending_ || exchange_.has_failed()) && !end_at) end_at = deadline_in(options_.leave_s);
      if (!end_at) lost = find_lost(gone);
      if (!end_at && !lost) lost = find_stuck();
    }
    if (lost) exchange_.fail(*lost, gone);
    if (!end_at || Clock::now() < *end_at) continue;
    // Either it is held after a failure, or MPI holds the thread that is waited for.
    exchange_.fail({.sentence = "MPI did not let this process end"});
    hooks_.leave(exchange_.known_failure());
    return;
  }
}

void JobWatchdog::look_for_ends() {
  // Only this thread writes when a process has ended.
  for (const auto& peer : peers_)
    if (!peer->ended_at && peer->handle.has_ended()) peer->ended_at = Clock::now();
  if (!launcher_ended_at_ && launcher_.has_ended()) launcher_ended_at_ = Clock::now();
}

/// What this process has slept through, stopped or without a core, it can't hold against others. Both threads tell of a
/// pause that they had together, which is forgiven once: a doubt would come to lie at the answer before it otherwise.
Clock::duration JobWatchdog::forgive(Clock::time_point looked_at) {
  const auto now = Clock::now();
  const auto away = now - looked_at;
  if (away < std::chrono::duration<double>(kAway_s)) return {};
  const auto more = now - std::max(looked_at, forgiven_until_);
  forgiven_until_ = now;
  for (const auto& peer : peers_) peer->heard_at = std::min(now, peer->heard_at + more);
  if (doubtful_since_) doubtful_since_ = std::min(now, *doubtful_since_ + more);
  return away;
}

Clock::time_point JobWatchdog::heard_at(const Peer& peer) const {
  return std::max(peer.heard_at, exchange_.heard_at(peer.process));
}

JobFailure JobWatchdog::failure_of(const Peer& peer, const std::string& what) const {
  const Beat& last = peer.last;
  JobFailure failure{.sentence = fmt::format("{} {}", hooks_.name(peer.process), what),
                     .process = peer.process,
                     .operation = last.operation.data(),
                     .detected_s = seconds_since(heard_at(peer))};
  if (last.number == 0) return failure;
  failure.step = last.step;
  failure.sentence += "; it was last heard of " + describe_progress(last.phase, last.step);
  return failure;
}

std::optional<JobFailure> JobWatchdog::find_lost(std::set<int>& gone) {
  const Peer* first = nullptr;
  for (const auto& peer : peers_) {
    if (!peer->ended_at || peer->goodbye_heard) continue;
    // At the end those that don't say goodbye to this process are left to process 0.
    if (parting_ && !peer->is_linked) continue;
    gone.insert(peer->process);
    if (first == nullptr && seconds_since(*peer->ended_at) > kNews_s) first = peer.get();
  }
  if (first != nullptr) return failure_of(*first, "has died");
  if (launcher_ended_at_)
    return JobFailure{.sentence = fmt::format("{} has died", launcher_name_),

                      .detected_s = seconds_since(*launcher_ended_at_)};
  return find_silent(gone);
}

std::optional<JobFailure> JobWatchdog::find_silent(std::set<int>& gone) {
  const auto now = Clock::now();
  // Where a process of another host has died MPI may hold who asks the wire, so that nobody is heard of.
  const bool is_held_by_other_host = seconds_between(asked_at_, now) > kHeld_s &&
                                     std::ranges::any_of(peers_, [](const auto& peer) { return !peer->handle; });
  const Peer* longest = nullptr;
  for (const auto& peer : peers_) {
    if (!peer->is_linked || peer->goodbye_heard || (is_held_by_other_host && peer->handle)) continue;
    double left_s = options_.silence_s - seconds_between(heard_at(*peer), now);
    // One more heartbeat of each is waited for where there is a doubt, which no message stands for that may have been
    // on its way: a launcher also sends a signal where a process is lost.
    if (doubtful_since_ && peer->heard_at < *doubtful_since_)
      left_s = std::min(left_s, options_.answer_s - seconds_between(*doubtful_since_, now));
    // Who has been silent for nearly as long has nothing to say to what is found here.
    if (left_s < 3 * options_.beat_s) gone.insert(peer->process);
    if (left_s <= 0 && (longest == nullptr || heard_at(*peer) < heard_at(*longest))) longest = peer.get();
  }
  if (longest == nullptr) return std::nullopt;
  return failure_of(*longest, fmt::format("was silent for {:.1f} s", seconds_between(heard_at(*longest), now)));
}

JobFailure JobWatchdog::stuck(const std::string& who, double still_s) const {
  return {
      .sentence = fmt::format("{}{} made no progress for {:.1f} s, {}; where that takes longer, set a larger timeout_s",
                              who.empty() ? "" : who + " of ", hooks_.name(process_), still_s,
                              describe_progress(progress_.phase, progress_.step)),
      .detected_s = still_s};
}

std::optional<JobFailure> JobWatchdog::find_stuck() {
  const double limit_s = progress_.timeout_s;
  if (limit_s <= 0) return std::nullopt;
  if (auto service = find_stuck_service()) return service;
  const auto now = Clock::now();
  // Data that are read before the first step, and a checkpoint that is written, may take as long as they take.
  const auto count = [this] { return exchange_.activity().changes() + file_pieces(); };
  const int64_t changes = count();
  if (std::exchange(changes_, changes) != changes) moved_at_ = now;
  const double still_s = seconds_between(moved_at_, now);
  if (still_s < limit_s) return std::nullopt;
  const ProcessActivity::AtWork at_work = exchange_.activity().at_work();
  // Somebody has moved meanwhile: who is at work now may just have been let go.
  if (!at_work.any || count() != changes) return std::nullopt;
  return stuck(fmt::format("{}", fmt::join(at_work.ranks, ", ")), still_s);
}

std::optional<JobFailure> JobWatchdog::find_stuck_service() {
  const auto now = Clock::now();
  const std::vector<ProcessActivity::Service> services = exchange_.activity().services();
  // They come together, and none goes.
  services_.resize(services.size(), {.changes = -1, .moved_at = now});
  for (size_t i = 0; i < services.size(); ++i) {
    SeenService& seen = services_[i];
    if (std::exchange(seen.changes, services[i].changes) != services[i].changes || !services[i].is_at_work)
      seen.moved_at = now;
    const double still_s = seconds_between(seen.moved_at, now);
    if (still_s >= progress_.timeout_s) return stuck(services[i].name, still_s);
  }
  return std::nullopt;
}

}  // namespace dptrain
