#include "comm/thread_group.h"

#include <algorithm>
#include <numeric>
#include <thread>

#include "base/check.h"
#include "base/error.h"
#include "comm/thread_operation.h"

namespace dptrain {
namespace {

// About what it costs to put a thread to sleep and wake it again. Yielding, so that a rank that shares the core can
// arrive.
constexpr double kSpin_s = 5e-6;

}  // namespace

ThreadGroup::ThreadGroup(int size, const ThreadGroupOptions& options)
    : size_(size),
      timeout_s_(options.timeout_s),
      meet_only_(options.meet_only),
      links_(options.links),
      link_ranks_(options.link_ranks) {
  DPTRAIN_CHECK(size >= 1 && size <= kMaxTreeInputs, "a group of {} ranks, 1 to {} can be", size, kMaxTreeInputs);
  if (link_ranks_.empty()) {
    link_ranks_.resize(static_cast<size_t>(size));
    std::iota(link_ranks_.begin(), link_ranks_.end(), 0);
  }
}

std::shared_ptr<ThreadGroup::Operation> ThreadGroup::start(const OperationKey& key, int rank, const CommCall& call) {
  Lock lock(mutex_);
  if (failure_) throw_failure();
  std::shared_ptr<Operation>& place = gathering_[key];
  if (!place) place = std::make_shared<Operation>(key, size_);
  const std::shared_ptr<Operation> operation = place;
  if (const auto why = operation->disagreement(rank, call)) fail_locked(ExitCode::ranks_disagree, *why);
  if (failure_) throw_failure();
  operation->arrive(rank, call);
  if (operation->all_arrived()) {
    gathering_.erase(key);
    make_ready(operation);
  }
  while (!ready_.empty()) work(lock);
  return operation;
}

void ThreadGroup::make_ready(const std::shared_ptr<Operation>& operation) {
  if (const auto why = operation->disagreement_of_all()) {
    fail_locked(ExitCode::ranks_disagree, *why);
    throw_failure();
  }
  operation->make_ready(meet_only_);
  if (links_) operation->arrives_at = links_->carry(operation->all_calls(), link_ranks_of(*operation));
  if (operation->pieces == 0) {
    operation->done = true;
    changed_.notify_all();
    return;
  }
  ready_.push_back(operation);
  has_pieces_ = true;
  // A single piece is taken by this rank itself.
  if (operation->pieces > 1) changed_.notify_all();
}

std::vector<int> ThreadGroup::link_ranks_of(const Operation& operation) const {
  std::vector<int> ranks;
  for (const int rank : operation.ranks()) ranks.push_back(link_ranks_[static_cast<size_t>(rank)]);
  return ranks;
}

void ThreadGroup::work(Lock& lock) {
  const std::shared_ptr<Operation> operation = ready_.front();
  ++operation->workers;
  lock.unlock();
  const int64_t ran = operation->take_and_run_pieces(failed_);
  lock.lock();
  --operation->workers;
  operation->finished_pieces += ran;
  // Whoever comes back has seen that all pieces are taken (or that the group has failed).
  std::erase(ready_, operation);
  has_pieces_ = !ready_.empty();
  if (operation->finished_pieces == operation->pieces) operation->done = true;
  if (operation->done || operation->workers == 0) changed_.notify_all();
}

void ThreadGroup::finish(Operation& operation, int rank) {
  const Clock::time_point deadline = deadline_in(timeout_s_);
  bool has_spun = false;
  Lock lock(mutex_);
  while (true) {
    if (failure_) {
      // What holds the buffers in use is a piece or less of work by each worker, so this wait needs no deadline.
      changed_.wait(lock, [&] { return operation.workers == 0; });
      throw_failure();
    }
    if (operation.done && Clock::now() >= operation.arrives_at) return;
    if (!ready_.empty()) {
      work(lock);
    } else if (!has_spun) {
      has_spun = true;
      lock.unlock();
      spin(operation);
      lock.lock();
    } else if (operation.done) {
      // On its way over a simulated link, which ends by itself.
      changed_.wait_until(lock, operation.arrives_at);
    } else if (operation.ready) {
      // Its last pieces are in work, nobody is missing: as above, this ends by itself.
      changed_.wait(lock);
    } else if (changed_.wait_until(lock, deadline) == std::cv_status::timeout && !operation.ready && !failure_) {
      fail_locked(ExitCode::peer_lost, operation.overdue(rank, timeout_s_));
    }
  }
}

void ThreadGroup::spin(const Operation& operation) const {
  const Clock::time_point end = deadline_in(kSpin_s);
  while (!operation.done && !failed_ && !has_pieces_ && Clock::now() < end) std::this_thread::yield();
}

bool ThreadGroup::withdraw(Operation& operation, int rank) {
  const Lock lock(mutex_);
  if (operation.ready || failure_) return false;
  operation.leave(rank);
  return true;
}

void ThreadGroup::fail(ExitCode code, const std::string& sentence) {
  const Lock lock(mutex_);
  fail_locked(code, sentence);
}

void ThreadGroup::fail_locked(ExitCode code, const std::string& sentence) {
  if (failure_) return;
  failure_ = Failure{code, sentence};
  failed_ = true;
  gathering_.clear();
  ready_.clear();
  has_pieces_ = false;
  changed_.notify_all();
}

void ThreadGroup::throw_failure() const { throw Error(failure_->code, failure_->sentence); }

}  // namespace dptrain
