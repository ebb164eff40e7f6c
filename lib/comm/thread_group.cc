#include "comm/thread_group.h"

#include <algorithm>
#include <numeric>
#include <thread>

#include "base/check.h"
#include "base/error.h"
#include "comm/group_exchange.h"
#include "comm/process_activity.h"
#include "comm/thread_operation.h"

namespace dptrain {
namespace {

// About the time that it costs to put a thread to sleep and wake it again. Meanwhile the rank yields, so that another
// rank on the same core can arrive.
constexpr double kSpinForRanks_s = 5e-6;

}  // namespace

ThreadGroup::ThreadGroup(int size, const ThreadGroupOptions& options)
    : ranks_{0, size},
      timeout_s_(options.timeout_s),
      meet_only_(options.meet_only),
      links_(options.links),
      link_ranks_(options.link_ranks) {
  DPTRAIN_CHECK(size >= 1 && size <= kMostRanks, "a group of {} ranks, 1 to {} can be", size, kMostRanks);
  if (link_ranks_.empty()) {
    link_ranks_.resize(static_cast<size_t>(size));
    std::iota(link_ranks_.begin(), link_ranks_.end(), 0);
  }
}

ThreadGroup::ThreadGroup(const RanksOfProcesses& world, double timeout_s, bool meet_only)
    : ranks_(world.own_ranks()),
      exchange_(std::make_unique<GroupExchange>(world, timeout_s)),
      timeout_s_(timeout_s),
      meet_only_(meet_only) {}

ThreadGroup::~ThreadGroup() = default;

void ThreadGroup::join_job() {
  if (exchange_) exchange_->processes().join(weak_from_this());
}

int ThreadGroup::size() const { return exchange_ ? exchange_->world().shape.ranks() : ranks_.size(); }

std::shared_ptr<ThreadGroup::Operation> ThreadGroup::start(const OperationKey& key, int rank, const CommCall& call) {
  Lock lock(mutex_);
  if (failure_) throw_failure();
  std::shared_ptr<Operation>& place = gathering_[key];
  if (!place) place = std::make_shared<Operation>(key, ranks_);
  const std::shared_ptr<Operation> operation = place;
  if (const auto why = operation->disagreement(rank, call)) fail_and_throw(lock, ExitCode::ranks_disagree, *why);
  operation->arrive(rank, call);
  if (operation->all_arrived()) {
    gathering_.erase(key);
    make_ready(lock, operation);
  }
  while (!ready_.empty()) work(lock);
  return operation;
}

void ThreadGroup::make_ready(Lock& lock, const std::shared_ptr<Operation>& operation) {
  if (const auto why = operation->disagreement_of_all()) fail_and_throw(lock, ExitCode::ranks_disagree, *why);
  operation->make_ready(plan_of(*operation));
  if (links_) operation->on_links = links_->carry(operation->all_calls(), link_ranks_of(*operation));
  begin_stage(operation);
}

ExchangePlan ThreadGroup::plan_of(const Operation& operation) const {
  ExchangePlan plan;
  if (meet_only_) return plan;
  if (is_exchanged(operation)) return exchange_->plan_of(operation);
  plan.stages.push_back({.sums = sums_of(operation.all_calls())});
  return plan;
}

bool ThreadGroup::is_exchanged(const Operation& operation) const {
  return exchange_ && exchange_->takes(operation.key());
}

void ThreadGroup::begin_stage(const std::shared_ptr<Operation>& operation) {
  if (operation->pieces == 0) return go_on(operation);
  ready_.push_back(operation);
  has_pieces_ = true;
  // This rank takes a single piece itself.
  if (operation->pieces > 1) changed_.notify_all();
}

void ThreadGroup::go_on(const std::shared_ptr<Operation>& operation) {
  // Processes compare an operation when they begin it, even if one has nothing to send.
  const bool is_begin = operation->stage_number() == 0 && is_exchanged(*operation);
  if (!is_begin && operation->stage().messages.empty()) return end_stage(operation);
  // An operation under way keeps the group alive.
  exchange_->start(operation, [group = shared_from_this(), operation] { group->on_messages_done(operation); });
}

void ThreadGroup::end_stage(const std::shared_ptr<Operation>& operation) {
  if (!operation->is_last_stage() && !operation->withdrawn) {
    operation->next_stage();
    return begin_stage(operation);
  }
  if (is_exchanged(*operation)) exchange_->end(operation->key());
  operation->times.done = Clock::now();
  operation->done = true;
  changed_.notify_all();
}

void ThreadGroup::on_messages_done(const std::shared_ptr<Operation>& operation) {
  Lock lock(mutex_);
  if (failure_) return;
  end_stage(operation);
  while (!ready_.empty()) work(lock);
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
  // A thread that comes back has seen that all pieces are taken, or that the group has failed.
  std::erase(ready_, operation);
  has_pieces_ = !ready_.empty();
  // The pieces of the next stage replace these, so all threads must have left them first.
  if (operation->workers > 0) return;
  if (failure_)
    changed_.notify_all();
  else if (operation->finished_pieces == operation->pieces)
    go_on(operation);
}

OperationTimes ThreadGroup::finish(Operation& operation, int rank) {
  const Clock::time_point deadline = deadline_in(timeout_s_);
  const WaitForOthers waiting;
  bool has_spun = false;
  Lock lock(mutex_);
  while (true) {
    if (failure_) {
      // Each thread at work uses the buffers for one piece at most, so this wait needs no deadline.
      changed_.wait(lock, [&] { return operation.workers == 0; });
      lock.unlock();
      if (exchange_) exchange_->processes().wait_until_still();
      throw_failure();
    }
    Clock::time_point arrival = Clock::time_point::min();
    if (operation.done && links_) arrival = links_->arrival(operation.on_links);
    if (operation.done && Clock::now() >= arrival)
      return {.ready = operation.times.ready, .done = std::max(operation.times.done, arrival)};
    if (!ready_.empty()) {
      work(lock);
    } else if (!has_spun) {
      has_spun = true;
      lock.unlock();
      spin(operation);
      lock.lock();
    } else if (operation.done) {
      // The data is on its way over a simulated link. This ends by itself.
      changed_.wait_until(lock, arrival);
    } else if (operation.ready) {
      // Its last pieces are being run, which ends by itself as above, or the exchange carries it, which has the
      // deadline.
      changed_.wait(lock);
    } else if (changed_.wait_until(lock, deadline) == std::cv_status::timeout && !operation.ready && !failure_) {
      fail_and_throw(lock, ExitCode::peer_lost, operation.overdue(rank, timeout_s_));
    }
  }
}

void ThreadGroup::spin(const Operation& operation) const {
  const Clock::time_point end = deadline_in(kSpinForRanks_s);
  while (!operation.done && !failed_ && !has_pieces_ && Clock::now() < end) std::this_thread::yield();
}

bool ThreadGroup::withdraw(Operation& operation, int rank) {
  const Lock lock(mutex_);
  if (failure_) return false;
  if (!operation.ready) {
    operation.leave(rank);
    return true;
  }
  // The exchange carries the staging copy of a message. What arrives will not be copied to the rank's buffer.
  const bool is_away =
      operation.key().is_message() && is_exchanged(operation) && operation.finished_pieces == operation.pieces;
  if (is_away) operation.withdrawn = true;
  return is_away;
}

void ThreadGroup::fail(ExitCode code, const std::string& sentence) {
  // The exchange settles on one failure for all processes and all groups, this one included.
  if (exchange_) return exchange_->processes().fail({.code = code, .sentence = sentence});
  const Lock lock(mutex_);
  fail_locked({.code = code, .sentence = sentence});
}

void ThreadGroup::on_job_failure(const JobFailure& failure) {
  const Lock lock(mutex_);
  fail_locked(failure);
}

void ThreadGroup::fail_locked(const JobFailure& failure) {
  if (failure_) return;
  failure_ = failure;
  failed_ = true;
  gathering_.clear();
  ready_.clear();
  has_pieces_ = false;
  changed_.notify_all();
}

void ThreadGroup::fail_and_throw(Lock& lock, ExitCode code, const std::string& sentence) {
  lock.unlock();
  fail(code, sentence);
  const auto settled = exchange_ ? std::optional(exchange_->processes().settled_failure()) : std::nullopt;
  lock.lock();
  if (settled) fail_locked(*settled);
  throw_failure();
}

void ThreadGroup::throw_failure() const {
  if (exchange_) throw JobError(*failure_);
  throw Error(failure_->code, failure_->sentence);
}

}  // namespace dptrain
