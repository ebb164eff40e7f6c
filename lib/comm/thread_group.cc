#include "comm/thread_group.h"

#include <fmt/format.h>

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

// Tags of a group's messages, below ProcessExchange::kGroupTags: a collective's by its number, of which no more are
// under way at once, then those of what the processes compare first; messages between ranks by both ends' places in
// their processes, which keeps the order of each pair's.
constexpr int kMostCollectives = 2048;
constexpr int kHeaderTags = kMostCollectives;
constexpr int kMostRanksOfProcess = 64;
constexpr int kMessageTags = 2 * kMostCollectives;
constexpr int kPairs = kMostRanksOfProcess * kMostRanksOfProcess;
constexpr int kSenderTags = kMessageTags + kPairs;
constexpr int kReceiverTags = kSenderTags + kPairs;

/// What processes compare of an operation, "all_reduce f32[128]", has this length.
constexpr size_t kHeaderBytes = 96;

/// Up to so many processes each compares with all others, so that all wait for all; of more with the next one.
constexpr int kFewProcesses = 8;

/// Of a message only what both ends say.
std::string header_of(const CommCall& call) {
  std::string text = describe(call);
  if (call.kind == CommKind::send || call.kind == CommKind::receive) text = text.substr(text.find(' ') + 1);
  text.resize(kHeaderBytes, '\0');
  return text;
}

}  // namespace

ThreadGroup::ThreadGroup(int size, const ThreadGroupOptions& options)
    : ranks_{0, size},
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

ThreadGroup::ThreadGroup(const RanksOfProcesses& world, double timeout_s)
    : place_(world.place()),
      ranks_(world.shape.ranks_of(place_)),
      world_(world),
      first_tag_(world.exchange->first_tag(world.exchange->next_group())),
      timeout_s_(timeout_s),
      meet_only_(false) {
  DPTRAIN_CHECK(world.shape.ranks() <= kMaxTreeInputs, "a world of {} ranks, {} can be", world.shape.ranks(),
                kMaxTreeInputs);
  for (int p = 0; p < world.shape.processes(); ++p)
    DPTRAIN_CHECK(world.shape.ranks_of(p).size() >= 1 && world.shape.ranks_of(p).size() <= kMostRanksOfProcess,
                  "{} ranks of one process, 1 to {} can be", world.shape.ranks_of(p).size(), kMostRanksOfProcess);
}

void ThreadGroup::join_job() {
  if (world_) world_->exchange->join(weak_from_this());
}

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
  if (links_) operation->arrives_at = links_->carry(operation->all_calls(), link_ranks_of(*operation));
  begin_stage(operation);
}

ExchangePlan ThreadGroup::plan_of(const Operation& operation) const {
  ExchangePlan plan;
  if (meet_only_) return plan;
  const std::vector<CommCall> calls = operation.all_calls();
  const OperationKey& key = operation.key();
  if (!world_ || (key.is_message() && calls.size() == 2)) {
    plan.stages.push_back({.sums = sums_of(calls)});
    return plan;
  }
  if (!key.is_message()) return plan_exchange(calls, world_->shape, place_, *staging_);
  return plan_message(calls[0], world_->shape.process_of(calls[0].other), *staging_);
}

void ThreadGroup::begin_stage(const std::shared_ptr<Operation>& operation) {
  if (operation->pieces == 0) return go_on(operation);
  ready_.push_back(operation);
  has_pieces_ = true;
  // A single piece is taken by this rank itself.
  if (operation->pieces > 1) changed_.notify_all();
}

void ThreadGroup::go_on(const std::shared_ptr<Operation>& operation) {
  const bool is_begin = operation->stage_number() == 0 && is_exchanged(*operation);
  if (is_begin && operation->key().is_message())
    send_in_order(operation);
  else if (is_begin || !operation->stage().messages.empty())
    world_->exchange->start(transfer_of(operation));
  else
    end_stage(operation);
}

void ThreadGroup::send_in_order(const std::shared_ptr<Operation>& operation) {
  const OperationKey& key = operation->key();
  PairOfRanks& pair = pairs_[{key.from, key.to}];
  pair.copied[key.number] = operation;
  for (auto next = pair.copied.begin(); next != pair.copied.end() && next->first == pair.started + 1;
       next = pair.copied.erase(next)) {
    ++pair.started;
    world_->exchange->start(transfer_of(next->second));
  }
}

void ThreadGroup::end_stage(const std::shared_ptr<Operation>& operation) {
  if (!operation->is_last_stage() && !operation->withdrawn) {
    operation->next_stage();
    return begin_stage(operation);
  }
  if (!operation->key().is_message()) exchanged_.erase(operation->key().number);
  operation->done = true;
  changed_.notify_all();
}

bool ThreadGroup::is_exchanged(const Operation& operation) const {
  const OperationKey& key = operation.key();
  return world_ && !(ranks_.contains(key.from) && ranks_.contains(key.to));
}

Transfer ThreadGroup::transfer_of(const std::shared_ptr<Operation>& operation) {
  const OperationKey& key = operation->key();
  Transfer transfer{.tag = first_tag_ + static_cast<int>(key.number % kMostCollectives),
                    .messages = {},
                    .timeout_s = timeout_s_,
                    .on_done = {},
                    .overdue = {}};
  if (key.is_message()) {
    const WorldShape& shape = world_->shape;
    const auto place = [&](int rank) { return rank - shape.ranks_of(shape.process_of(rank)).begin; };
    transfer.tag = first_tag_ + kMessageTags + place(key.from) * kMostRanksOfProcess + place(key.to);
  }
  for (ExchangeMessage message : operation->stage().messages) {
    message.process = world_->processes[static_cast<size_t>(message.process)];
    transfer.messages.push_back(message);
  }
  if (operation->stage_number() == 0) add_header(transfer, operation);
  // What waits for this group keeps it alive: whoever has an operation has the group.
  transfer.on_done = [group = shared_from_this(), operation] { group->on_messages_done(operation); };
  transfer.overdue = [this, group = shared_from_this(), operation](const std::vector<int>& processes) {
    std::vector<int> missing;
    for (const int process : processes) {
      const auto place = std::ranges::find(world_->processes, process) - world_->processes.begin();
      const RankRun ranks = world_->shape.ranks_of(static_cast<int>(place));
      for (int rank = ranks.begin; rank < ranks.end; ++rank) missing.push_back(rank);
    }
    const OperationKey& late = operation->key();
    if (late.is_message()) missing = {ranks_.contains(late.from) ? late.to : late.from};
    return JobFailure{.code = ExitCode::peer_lost,
                      .sentence = operation->overdue(operation->rank_of(0), timeout_s_, missing)};
  };
  return transfer;
}

void ThreadGroup::add_header(Transfer& transfer, const std::shared_ptr<Operation>& operation) {
  const OperationKey& key = operation->key();
  const int processes = static_cast<int>(world_->processes.size());
  if (key.is_message()) {
    // Both ends compare. Two processes may have a pair of such places each way, so the ends have tags of their own.
    const bool sends = transfer.messages.front().sends;
    const int pair = transfer.tag - kMessageTags;
    transfer.sent_header_tag = pair + (sends ? kSenderTags : kReceiverTags);
    transfer.received_header_tag = pair + (sends ? kReceiverTags : kSenderTags);
    transfer.header_to = transfer.header_from = {transfer.messages.front().process};
  } else {
    DPTRAIN_CHECK(exchanged_.empty() || key.number - *exchanged_.begin() < kMostCollectives,
                  "collective #{} begins while #{} is under way", key.number, *exchanged_.begin());
    exchanged_.insert(key.number);
    transfer.sent_header_tag = transfer.received_header_tag = transfer.tag + kHeaderTags;
    const int neighbours = processes <= kFewProcesses ? processes - 1 : 1;
    for (int distance = 1; distance <= neighbours; ++distance) {
      transfer.header_to.push_back(world_->processes[static_cast<size_t>((place_ + distance) % processes)]);
      transfer.header_from.push_back(
          world_->processes[static_cast<size_t>((place_ + processes - distance) % processes)]);
    }
  }
  const CommCall call = operation->all_calls().front();
  transfer.header = header_of(call);
  transfer.check = [this, group = shared_from_this(), operation, call, own = transfer.header](
                       int process, const std::string& theirs) -> std::optional<JobFailure> {
    if (theirs == own) return std::nullopt;
    const OperationKey& of = operation->key();
    const auto place = std::ranges::find(world_->processes, process) - world_->processes.begin();
    int rank = world_->shape.ranks_of(static_cast<int>(place)).begin;
    std::string called = theirs.c_str();
    if (of.is_message()) {
      rank = call.kind == CommKind::send ? of.to : of.from;
      called = (call.kind == CommKind::send ? "receive " : "send ") + called;
    }
    return JobFailure{.code = ExitCode::ranks_disagree,
                      .sentence = fmt::format("rank {} called {} as {}, rank {} {}", operation->rank_of(0),
                                              describe(call), operation->name(), rank, called)};
  };
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
  // Whoever comes back has seen that all pieces are taken (or that the group has failed).
  std::erase(ready_, operation);
  has_pieces_ = !ready_.empty();
  // Pieces of another stage may take the place of these, so whoever is still at work on them comes back first.
  if (operation->workers > 0) return;
  if (failure_)
    changed_.notify_all();
  else if (operation->finished_pieces == operation->pieces)
    go_on(operation);
}

void ThreadGroup::finish(Operation& operation, int rank) {
  const Clock::time_point deadline = deadline_in(timeout_s_);
  bool has_spun = false;
  Lock lock(mutex_);
  while (true) {
    if (failure_) {
      // What holds the buffers in use is a piece or less of work by each worker, so this wait needs no deadline.
      changed_.wait(lock, [&] { return operation.workers == 0; });
      lock.unlock();
      if (world_) world_->exchange->wait_until_still();
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
      // Its last pieces are in work: as above, this ends by itself. Or it is with the exchange, which has the deadline.
      changed_.wait(lock);
    } else if (changed_.wait_until(lock, deadline) == std::cv_status::timeout && !operation.ready && !failure_) {
      fail_and_throw(lock, ExitCode::peer_lost, operation.overdue(rank, timeout_s_));
    }
  }
}

void ThreadGroup::spin(const Operation& operation) const {
  const Clock::time_point end = deadline_in(kSpin_s);
  while (!operation.done && !failed_ && !has_pieces_ && Clock::now() < end) std::this_thread::yield();
}

bool ThreadGroup::withdraw(Operation& operation, int rank) {
  const Lock lock(mutex_);
  if (failure_) return false;
  if (!operation.ready) {
    operation.leave(rank);
    return true;
  }
  // A message is with the exchange between its copies: what comes is not brought to the rank.
  const bool is_away =
      operation.key().is_message() && is_exchanged(operation) && operation.finished_pieces == operation.pieces;
  if (is_away) operation.withdrawn = true;
  return is_away;
}

void ThreadGroup::fail(ExitCode code, const std::string& sentence) {
  // The exchange settles with the other processes what all groups fail with, this one too.
  if (world_) return world_->exchange->fail({.code = code, .sentence = sentence});
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
  const JobFailure settled = world_ ? world_->exchange->settled_failure() : JobFailure{};
  lock.lock();
  if (world_) fail_locked(settled);
  throw_failure();
}

void ThreadGroup::throw_failure() const {
  if (world_) throw JobError(*failure_);
  throw Error(failure_->code, failure_->sentence);
}

}  // namespace dptrain
