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
  double warning_s = 3;  ///< a longer silence is reported once it is over
  double silence_s = 9;  ///< a process that is silent for longer is lost
  double answer_s = 3;   ///< as `silence_s`, counted from a reason to doubt (WatchdogHooks)
  double leave_s = 1.5;  ///< time that this process has to end by itself after the job has failed
  int largest_mesh = 8;  ///< up to this many processes all exchange heartbeats; in larger jobs each exchanges them with
                         ///< process 0 only
};

/// What a watchdog asks of its program. The hooks are called on the watchdog's threads.
struct WatchdogHooks {
  /// The name of a process: "process 1 (host b, pid 77, rank 1)".
  std::function<std::string(int process)> name;
  /// How many connections have ended so far. Each is a reason to ask whether all other processes are alive. A signal to
  /// stop and messages that could not be carried are such reasons too.
  std::function<int()> doubts;
  std::function<void(const std::string& sentence)> warn;
  /// Called when this process itself makes no progress. Its threads are still where they hang, and nobody has been told
  /// yet.
  std::function<void()> on_stuck = {};
  /// Ends the process if it has not ended by itself after the job has failed with this failure. Must not wait for any
  /// thread.
  std::function<void(const JobFailure&)> leave;
};

/// Watches over the processes of a job, of which this is one. No process waits for another that has died, is stopped,
/// is cut off or makes no progress. The job fails with exit code 75, and then this process ends, whatever its other
/// threads do. A signal that asks one process to stop asks all of them.
///
/// The watchdog has two threads. The first sends and receives heartbeats; it uses a wire, and MPI may hold it there.
/// The second uses no wire. It looks for processes of this host that have ended (the launcher included), for silence,
/// and for a failure after which this process hasn't ended in time.
class JobWatchdog {
 public:
  struct Watched {
    std::vector<JobProcess> processes;  ///< of the job, by number
    int64_t launcher = 0;               ///< pid of the process that has to stay alive, 0: none
    /// The signal that asks this process to stop, 0: none. The watchdog sets it when another process is asked to stop.
    /// A signal is also a reason to ask whether all other processes are alive. Outlives the watchdog.
    std::atomic<int>* stop = nullptr;
  };
  /// The watchdog needs `wire` for itself alone. `exchange` and `progress` outlive it.
  JobWatchdog(std::shared_ptr<ProcessWire> wire, ProcessExchange& exchange, JobProgress& progress, Watched watched,
              WatchdogHooks hooks, const WatchdogOptions& options = {});
  /// Stops the watchdog without telling the others, who take the end of this process for a death. If MPI holds a
  /// thread, the process ends as after a failure.
  ~JobWatchdog();
  JobWatchdog(const JobWatchdog&) = delete;
  JobWatchdog& operator=(const JobWatchdog&) = delete;

  /// Ends the watch regularly; every process calls it. From now on a process that ends is no failure. Blocks until all
  /// others have called it, and then for `answer_s` at most until they know that this process has. Throws the job's
  /// failure, or an error with exit code 75 if the others don't call it within `timeout_s`.
  void finish(double timeout_s);

 private:
  struct Beat;
  struct Peer;
  using Lock = std::unique_lock<std::mutex>;

  bool is_linked(int other) const;
  // On the thread that uses the wire:
  void beat();
  void hear(Peer& peer);
  void take_beat(Peer& peer);
  void tell_of_silence(Peer& peer);
  void tell(Peer& peer, bool is_time);
  bool may_say_goodbye() const;
  // On the thread that uses no wire:
  void guard();
  void look_for_ends(Clock::time_point now);
  /// Notes that this thread was paused, stopped together with its process. Others may have left without this process.
  void note_long_pause(Clock::time_point from, Clock::time_point until);
  /// Finds a process or launcher that is lost by now. Adds every process that is lost to `gone`.
  std::optional<JobFailure> find_lost(std::set<int>& gone);
  std::optional<JobFailure> find_silent(std::set<int>& gone);
  /// Finds whether this process itself makes no progress while it waits for no other process.
  std::optional<JobFailure> find_stuck();
  std::optional<JobFailure> find_stuck_service();
  JobFailure stuck(const std::string& who, double still_s, const std::string& where) const;
  JobFailure failure_of(const Peer& peer, const std::string& what) const;
  // On both threads:
  /// The last sign of life of another process: a heartbeat or any other message. Messages count because heartbeats wait
  /// behind large ones.
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
  int64_t changes_ = 0;         ///< of its activity, at moved_at_
  struct SeenService {
    int64_t changes = 0;
    Clock::time_point moved_at;
  };
  std::vector<SeenService> services_;  ///< of this process
  std::optional<Clock::time_point> launcher_ended_at_;
  std::atomic<int> lost_beats_ = 0;  ///< heartbeats that could not be carried
  int doubts_ = 0;
  std::optional<Clock::time_point> doubtful_since_;  ///< time of the latest doubt
  Clock::time_point forgiven_until_;                 ///< the end of the latest pause
  double away_s_ = 0;  ///< how long this process's latest long pause was; other processes have to take it for a loss
  Clock::time_point away_from_, away_until_;
  bool parting_ = false;    ///< `finish` was called
  bool ending_ = false;     ///< the threads are to end
  bool wire_left_ = false;  ///< the wire's thread has ended

  std::thread beating_;
  std::thread guarding_;
};

}  // namespace dptrain
