#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "comm/job.h"
#include "comm/job_progress.h"
#include "comm/process_exchange.h"
#include "comm/process_handle.h"
#include "comm/process_wire.h"

namespace dptrain {

struct WatchdogOptions {
  double beat_s = 0.25;  ///< between two heartbeats
  double warning_s = 3;  ///< silence that is told of once it is over
  double silence_s = 9;  ///< after which a process is lost
  double answer_s = 3;   ///< the same from a reason to doubt on (WatchdogHooks)
  double leave_s = 1.5;  ///< that this process has to end by itself once the job has failed
  int largest_mesh = 8;  ///< up to so many processes all hear of all; of more process 0 does, and all others of it
};

/// What a watchdog asks of its program. Called on its threads.
struct WatchdogHooks {
  /// "process 1 (host b, pid 77, rank 1)"
  std::function<std::string(int process)> name;
  /// How many reasons there have been to ask whether all others are there, beside a stop and messages that could not be
  /// carried: connections that have ended.
  std::function<int()> doubts;
  std::function<void(const std::string& sentence)> warn;
  /// This process itself makes no progress: called while its threads are where they hang, before anybody is told.
  std::function<void()> on_stuck = {};
  /// The job has failed in these words, and the process has not ended by itself: ends it. No thread is waited for.
  std::function<void(const JobFailure&)> leave;
};

/// Watches over the processes of a job, of which this is one, so that none waits for one that has died, is stopped or
/// is cut off, or makes no progress: the job fails with 75, and then this process ends, whatever its other threads do.
/// A signal that asks one of them to stop asks all.
///
/// Two threads. One sends heartbeats and hears those of others; it asks a wire, where MPI may hold it. The other one
/// asks none: it looks for processes of this host that have ended, among them the launcher, for silence, and for a
/// failure that this process hasn't ended after in time.
class JobWatchdog {
 public:
  struct Watched {
    std::vector<JobProcess> processes;  ///< of the job, by number
    int64_t launcher = 0;               ///< pid of the process that has to live on, 0: none
    /// The signal that asks this process to stop, 0: none. Set where another process is asked to, and a reason to ask
    /// whether all others are there. Outlives the watch.
    std::atomic<int>* stop = nullptr;
  };
  /// The wire is this object's own. `exchange` and `progress` outlive it.
  JobWatchdog(std::shared_ptr<ProcessWire> wire, ProcessExchange& exchange, JobProgress& progress, Watched watched,
              WatchdogHooks hooks, const WatchdogOptions& options = {});
  /// Stops it without a word to the others, for whom this is a death if the process ends. Where MPI holds a thread the
  /// process is left, as after a failure.
  ~JobWatchdog();
  JobWatchdog(const JobWatchdog&) = delete;
  JobWatchdog& operator=(const JobWatchdog&) = delete;

  /// The regular end, which every process calls: from now on the end of a process is none to tell of. Blocks until all
  /// others have called it, too, and for `answer_s` at most until those know it that have; throws the job's failure, 75
  /// where they don't within `timeout_s`.
  void finish(double timeout_s);

 private:
  struct Beat;
  struct Peer;
  using Lock = std::unique_lock<std::mutex>;

  bool is_linked(int other) const;
  // On the thread that asks the wire:
  void beat();
  void hear(Peer& peer);
  void take_beat(Peer& peer);
  void tell_of_silence(Peer& peer);
  void tell(Peer& peer, bool is_time);
  bool may_say_goodbye() const;
  // On the other one:
  void guard();
  void look_for_ends(Clock::time_point now);
  /// This thread was away for as long: stopped with its process, so that others may have left without it.
  void note_long_pause(Clock::time_point from, Clock::time_point until);
  /// What is found lost by now, and which processes.
  std::optional<JobFailure> find_lost(std::set<int>& gone);
  std::optional<JobFailure> find_silent(std::set<int>& gone);
  /// Whether this process itself makes no progress, and waits for no other.
  std::optional<JobFailure> find_stuck();
  std::optional<JobFailure> find_stuck_service();
  JobFailure stuck(const std::string& who, double still_s, const std::string& where) const;
  JobFailure failure_of(const Peer& peer, const std::string& what) const;
  // On both:
  /// When there was the last sign of life of another process: a heartbeat, or any message, as heartbeats wait behind
  /// large ones.
  Clock::time_point heard_at(const Peer& peer) const;
  int stop_signal() const { return stop_ != nullptr ? stop_->load() : 0; }
  Clock::duration forgive(Clock::time_point looked_at, Clock::time_point now);
  void join();

  const std::shared_ptr<ProcessWire> wire_;
  ProcessExchange& exchange_;
  JobProgress& progress_;
  const WatchdogHooks hooks_;
  const WatchdogOptions options_;
  const int process_;
  const bool is_mesh_;
  std::atomic<int>* const stop_;
  std::string launcher_name_;
  ProcessHandle launcher_;

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::unique_ptr<Peer>> peers_;
  Clock::time_point asked_at_;  ///< when the wire was last asked
  Clock::time_point moved_at_;  ///< when this process last made progress
  int64_t changes_ = 0;         ///< of its activity, as of then
  struct SeenService {
    int64_t changes = 0;
    Clock::time_point moved_at;
  };
  std::vector<SeenService> services_;  ///< of this process
  std::optional<Clock::time_point> launcher_ended_at_;
  std::atomic<int> lost_beats_ = 0;  ///< heartbeats that could not be carried
  int doubts_ = 0;
  std::optional<Clock::time_point> doubtful_since_;  ///< the latest doubt
  Clock::time_point forgiven_until_;                 ///< the end of the latest pause
  double away_s_ = 0;  ///< how long the latest pause of the guard was that others have to take for a loss
  Clock::time_point away_from_, away_until_;
  bool parting_ = false;    ///< `finish` was called
  bool ending_ = false;     ///< the threads are to end
  bool wire_left_ = false;  ///< the wire's has ended

  std::thread beating_;
  std::thread guarding_;
};

}  // namespace dptrain
