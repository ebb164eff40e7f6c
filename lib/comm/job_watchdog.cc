#include "comm/job_watchdog.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>
#include <ranges>
#include <utility>

#include "comm/job_watchdog_peer.h"

namespace dptrain {
namespace {

constexpr int kTag = 0;
constexpr double kGuardPause_s = 0.05;
/// A thread of this process that has not run for this long was kept from running.
constexpr double kAway_s = 0.5;

}  // namespace

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
    peer->heard_at = peer->silent_at = asked_at_;
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
  beating_.join();  // if it doesn't end, the guard ends the process
  guarding_.join();
}

bool JobWatchdog::is_linked(int other) const { return is_mesh_ || process_ == 0 || other == 0; }

void JobWatchdog::finish(double timeout_s) {
  const auto deadline = deadline_in(timeout_s);
  std::vector<std::string> missing;
  {
    Lock lock(mutex_);
    parting_ = true;
    // Once a peer has said goodbye, its death loses nothing, and no further goodbye has to reach it.
    auto told_by = deadline;
    const auto all_parted = [&] {
      auto linked = std::views::filter(peers_, [](const auto& peer) { return peer->is_linked; });
      if (!std::ranges::all_of(linked, [](const auto& peer) { return peer->goodbye_heard; })) return false;
      told_by = std::min(told_by, deadline_in(options_.answer_s));
      return std::ranges::all_of(linked, [](const auto& peer) { return peer->has_left(); });
    };
    while (!all_parted() && !exchange_.has_failed() && Clock::now() < told_by)
      changed_.wait_until(lock, deadline_in(kGuardPause_s));
    for (const auto& peer : peers_)
      if (peer->is_linked && !peer->goodbye_heard) missing.push_back(hooks_.name(peer->process));
  }
  if (exchange_.has_failed()) throw JobError(exchange_.settled_failure());
  if (!missing.empty())
    throw Error(ExitCode::peer_lost,
                fmt::format("{} did not reach the end of the job within {} s", fmt::join(missing, ", "), timeout_s));
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
        const auto now = Clock::now();
        forgive(asked_at_, now);
        asked_at_ = now;
      }
      const bool is_time = Clock::now() >= next_beat;
      if (is_time) next_beat = deadline_in(options_.beat_s);
      for (const auto& peer : peers_) {
        if (!peer->is_linked || peer->is_cut) continue;
        try {
          hear(*peer);
          tell(*peer, is_time);
        } catch (const LostMessage&) {
          // The processes on its host find its death, and all others its silence.
          {
            const std::lock_guard lock(mutex_);
            peer->is_cut = true;
          }
          changed_.notify_all();
          ++lost_beats_;
        }
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
  if (peer.receive->is_done()) take_beat(peer);
  tell_of_silence(peer);
}

void JobWatchdog::take_beat(Peer& peer) {
  peer.receive.reset();
  Beat beat;
  std::memcpy(&beat, peer.in.data(), sizeof(Beat));
  {
    const std::lock_guard lock(mutex_);
    peer.heard_at = Clock::now();
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
}

/// Reports a silence that is over, whether a heartbeat or a message has ended it.
void JobWatchdog::tell_of_silence(Peer& peer) {
  double silent_s = 0;
  {
    const std::lock_guard lock(mutex_);
    const auto heard = heard_at(peer);
    silent_s = seconds_between(std::exchange(peer.silent_at, heard), heard);
  }
  // Each silence is reported by one process: process 0 reports the others, and process 1 reports process 0. Nothing is
  // reported once the job has failed. A launcher that ends the job also wakes stopped processes, and the last line must
  // be the root cause.
  const bool is_teller = process_ == 0 || (peer.process == 0 && process_ == 1);
  if (silent_s > options_.warning_s && is_teller && !exchange_.has_failed())
    hooks_.warn(fmt::format("{} was silent for {:.1f} s", hooks_.name(peer.process), silent_s));
}

bool JobWatchdog::may_say_goodbye() const {
  if (!parting_) return false;
  // Processes that hear only of process 0 must learn from it that all have come to their end.
  return is_mesh_ || process_ != 0 || std::ranges::all_of(peers_, [](const auto& peer) { return peer->goodbye_heard; });
}

void JobWatchdog::tell(Peer& peer, bool is_time) {
  if (peer.send && !peer.send->is_done()) return;
  peer.send.reset();
  bool is_last = false;
  {
    const std::lock_guard lock(mutex_);
    if (peer.last_is_sent) {
      // MPI has taken the message, so it will arrive.
      peer.goodbye_sent = true;
      changed_.notify_all();
      return;
    }
    is_last = may_say_goodbye();
  }
  // Tell at once what must survive a death, and that all should stop.
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
    std::optional<JobFailure> lost, stuck;
    std::set<int> gone;
    {
      const std::lock_guard lock(mutex_);
      if (ending_ && wire_left_) return;
      // Forgive only the time that this thread was paused. The other thread may be held by MPI while a rank hangs.
      const auto now = Clock::now();
      const auto away = forgive(looked_at, now);
      moved_at_ += away;
      for (SeenService& seen : services_) seen.moved_at += away;
      note_long_pause(looked_at, now);
      look_for_ends(now);
      looked_at = now;
      if (const int doubts = hooks_.doubts() + exchange_.lost_messages() + lost_beats_ + (stop_signal() != 0 ? 1 : 0);
          doubts != std::exchange(doubts_, doubts))
        doubtful_since_ = looked_at;
      if ((ending_ || exchange_.has_failed()) && !end_at) end_at = deadline_in(options_.leave_s);
      if (!end_at) lost = find_lost(gone);
      if (!end_at && !lost) stuck = find_stuck();
    }
    if (lost) exchange_.fail(*lost, gone);
    if (stuck) {
      if (hooks_.on_stuck) hooks_.on_stuck();
      exchange_.fail(*stuck, gone);
    }
    if (!end_at || Clock::now() < *end_at) continue;
    // The process hangs after a failure, or MPI holds the thread that `join` waits for.
    exchange_.fail({.sentence = "MPI did not let this process end"});
    hooks_.leave(exchange_.known_failure());
    return;
  }
}

void JobWatchdog::look_for_ends(Clock::time_point now) {
  // Only this thread notes that a process has ended.
  for (const auto& peer : peers_)
    if (!peer->ended_at && peer->handle.has_ended()) peer->ended_at = now;
  if (!launcher_ended_at_ && launcher_.has_ended()) launcher_ended_at_ = now;
}

void JobWatchdog::note_long_pause(Clock::time_point from, Clock::time_point until) {
  const double away_s = seconds_between(from, until);
  if (away_s <= options_.silence_s - options_.beat_s) return;
  away_s_ = away_s;
  away_from_ = from;
  away_until_ = until;
}

/// Forgives the time during which this process was stopped or had no core; others can't be blamed for it. Both threads
/// notice the same pause, so it is forgiven only once. Forgiven twice, a doubt and the heartbeat before it would both
/// move to now, and the heartbeat would look like an answer.
Clock::duration JobWatchdog::forgive(Clock::time_point looked_at, Clock::time_point now) {
  const auto away = now - looked_at;
  if (away < std::chrono::duration<double>(kAway_s)) return {};
  const auto more = now - std::max(looked_at, forgiven_until_);
  forgiven_until_ = now;
  for (const auto& peer : peers_)
    for (Clock::time_point* at : {&peer->heard_at, &peer->silent_at}) *at = std::min(now, *at + more);
  if (doubtful_since_) doubtful_since_ = std::min(now, *doubtful_since_ + more);
  return away;
}

}  // namespace dptrain
