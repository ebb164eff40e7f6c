#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <mutex>
#include <string>
#include <vector>

namespace dptrain {

/// What the threads that advance training in a process are doing: the thread of each rank, the trainer's thread, and
/// the threads that serve other processes. A watchdog asks it who has made no progress. Each process has one object,
/// which any thread may use.
class ProcessActivity {
 public:
  enum class State : int { idle, at_work, waiting };
  struct Thread {
    std::string name;  ///< "rank 3"; "" for the trainer's thread
    std::atomic<State> state = State::idle;
    std::atomic<int64_t> step = 0;  ///< the training step that it is in while it is at work or waits; 0: none
    std::atomic<int64_t> own_changes = 0;
    std::atomic<int64_t>* changes = nullptr;  ///< the counter for its progress
  };

  /// Adds a thread. The result stays valid as long as this object.
  Thread& add(const std::string& name);
  /// Adds a thread that answers others, such as "server 0". Its progress is independent of this process's own training.
  Thread& add_service(const std::string& name);
  /// Grows whenever a thread makes progress, and when it begins or ends a wait for others. Services don't count.
  int64_t changes() const { return changes_; }
  struct AtWork {
    bool any = false;                ///< somebody is at work, and nobody else is to blame if nothing moves
    std::vector<std::string> ranks;  ///< the ranks at work; empty if only the trainer's thread is
    int64_t step = 0;                ///< the first step that one of these ranks is in; 0: none
  };
  /// Who is at work and neither idle nor waiting: ranks, or else the trainer's thread if no rank waits for others.
  AtWork at_work();
  struct Service {
    std::string name;
    int64_t changes = 0;  ///< counts this thread's progress only
    bool is_at_work = false;
  };
  /// All services, in the order in which they were added.
  std::vector<Service> services();

 private:
  std::mutex mutex_;
  std::deque<Thread> threads_;
  std::deque<Thread> services_;
  std::atomic<int64_t> changes_ = 0;
};

/// While it lives, this thread is at work in that place, in training step `step` (0: none).
class ActivePlace {
 public:
  explicit ActivePlace(ProcessActivity::Thread* place, int64_t step = 0);
  ~ActivePlace();
  ActivePlace(const ActivePlace&) = delete;
  ActivePlace& operator=(const ActivePlace&) = delete;

 private:
  ProcessActivity::Thread* before_;
};

/// While it lives, this thread waits for other ranks. Has no effect for a thread that has no place.
class WaitForOthers {
 public:
  WaitForOthers();
  ~WaitForOthers();
  WaitForOthers(const WaitForOthers&) = delete;
  WaitForOthers& operator=(const WaitForOthers&) = delete;
};

/// Notes that this thread has made progress.
void note_progress();

}  // namespace dptrain
