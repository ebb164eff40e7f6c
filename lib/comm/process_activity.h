#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <mutex>
#include <string>
#include <vector>

namespace dptrain {

/// What those threads of a process are at that a training advances by: that of each rank, the trainer's, and those that
/// serve processes which train. A watch asks it who has made no progress. One object a process; may be used by any
/// thread.
class ProcessActivity {
 public:
  enum class State : int { idle, at_work, waiting };
  struct Thread {
    std::string name;  ///< "rank 3"; "" of the trainer's
    std::atomic<State> state = State::idle;
    std::atomic<int64_t> step = 0;  ///< of the training, that it is in while it is at work or waits; 0: in none
    std::atomic<int64_t> own_changes = 0;
    std::atomic<int64_t>* changes = nullptr;  ///< what its steps are counted in
  };

  /// The place of another thread. Stays where it is.
  Thread& add(const std::string& name);
  /// The same of a thread that answers others, "server 0": whether it goes on has nothing to do with this process's own
  /// training.
  Thread& add_service(const std::string& name);
  /// Grows with every step that a thread makes, into a wait for others and out of it too; services aside.
  int64_t changes() const { return changes_; }
  struct AtWork {
    bool any = false;                ///< somebody is, and nobody else is to blame where nothing moves
    std::vector<std::string> ranks;  ///< those that are; none where only the trainer's thread is
    int64_t step = 0;                ///< the first that one of these ranks is in; 0: none is in a step
  };
  /// Who is at work rather than idle or waiting: ranks, else the trainer's thread where no rank waits for others.
  AtWork at_work();
  struct Service {
    std::string name;
    int64_t changes = 0;  ///< as of the process, of it alone
    bool is_at_work = false;
  };
  /// All, in the order in which they were added.
  std::vector<Service> services();

 private:
  std::mutex mutex_;
  std::deque<Thread> threads_;
  std::deque<Thread> services_;
  std::atomic<int64_t> changes_ = 0;
};

/// While it lives this thread is in that place, at work, in that step of the training where it is in one.
class ActivePlace {
 public:
  explicit ActivePlace(ProcessActivity::Thread* place, int64_t step = 0);
  ~ActivePlace();
  ActivePlace(const ActivePlace&) = delete;
  ActivePlace& operator=(const ActivePlace&) = delete;

 private:
  ProcessActivity::Thread* before_;
};

/// While it lives this thread waits for other ranks. Of a thread that has no place nothing is known.
class WaitForOthers {
 public:
  WaitForOthers();
  ~WaitForOthers();
  WaitForOthers(const WaitForOthers&) = delete;
  WaitForOthers& operator=(const WaitForOthers&) = delete;
};

/// This thread has done a part of what it is at.
void note_progress();

}  // namespace dptrain
