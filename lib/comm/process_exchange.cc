#include "comm/process_exchange.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/check.h"

namespace dptrain {
namespace {

constexpr int kNewsTag = 0;
constexpr int kFirstGroupTag = 16;

// Pauses between polls of messages under way, since messages only move when polled. Short enough to keep them moving,
// long enough to cost little beside the ranks' computing.
constexpr auto kShortestPause = std::chrono::microseconds(10);
constexpr auto kLongestPause = std::chrono::microseconds(200);
/// How long a process that knows of a failure waits to hear of all others.
constexpr double kSettling_s = 1;
/// How long the job's watchdog has to find why a message could not be carried. This is longer than it takes to check a
/// doubt (WatchdogOptions::answer_s) and to report the result.
constexpr double kExplained_s = 5;
/// A failure is reported with this many of the latest operations.
constexpr size_t kKeptOperations = 1000;
/// How long messages are polled without a pause.
constexpr double kSpin_s = 20e-6;

}  // namespace

ProcessExchange::ProcessExchange(std::shared_ptr<ProcessWire> wire, double idle_pause_s)
    : wire_(std::move(wire)),
      process_(wire_->process()),
      processes_(wire_->processes()),
      idle_pause_s_(idle_pause_s),
      heard_at_(static_cast<size_t>(processes_)),
      window_(processes_) {
  expect_news();
  thread_ = std::thread([this] { run(); });
}

ProcessExchange::~ProcessExchange() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    stop_at_ = deadline_in(2 * kSettling_s);
  }
  changed_.notify_all();
  thread_.join();
}

int ProcessExchange::next_group() {
  const std::lock_guard lock(mutex_);
  DPTRAIN_CHECK(first_tag(groups_ + 1) < wire_->largest_tag(),
                "{} groups of ranks, for which this MPI has too few tags", groups_ + 1);
  return groups_++;
}

int ProcessExchange::first_tag(int group) const { return kFirstGroupTag + group * kGroupTags; }

void ProcessExchange::join(std::weak_ptr<JobMember> member) {
  std::optional<JobFailure> failure;
  {
    const std::lock_guard lock(mutex_);
    std::erase_if(members_, [](const auto& other) { return other.expired(); });
    members_.push_back(member);
    failure = failure_;
  }
  if (!failure) return;
  if (const auto alive = member.lock()) alive->on_job_failure(*failure);
}

void ProcessExchange::start(Transfer transfer) {
  {
    const std::lock_guard lock(mutex_);
    if (known_) return;
    if (!transfer.operation.empty()) operations_.push_back({transfer.operation, Clock::now()});
    if (operations_.size() > kKeptOperations) operations_.pop_front();
    new_.push_back(std::move(transfer));
  }
  changed_.notify_all();
}

JobFailure ProcessExchange::known_failure() {
  const std::lock_guard lock(mutex_);
  DPTRAIN_CHECK(known_, "the job has not failed");
  return failure_ ? *failure_ : known_->failure;
}

std::string ProcessExchange::latest_operation() {
  const std::lock_guard lock(mutex_);
  return latest_operation_locked();
}

std::string ProcessExchange::latest_operation_locked() const {
  return operations_.empty() ? std::string() : operations_.back().name;
}

std::vector<BegunOperation> ProcessExchange::operations() {
  const std::lock_guard lock(mutex_);
  return {operations_.begin(), operations_.end()};
}

bool ProcessExchange::is_blamed() {
  const std::lock_guard lock(mutex_);
  return known_ && known_->process != process_ && known_->failure.process == process_;
}

void ProcessExchange::complete_failures_by(std::function<JobFailure(JobFailure)> completed) {
  const std::lock_guard lock(mutex_);
  completed_ = std::move(completed);
}

void ProcessExchange::fail(const JobFailure& failure, const std::set<int>& gone) {
  JobFailure own = failure;
  std::function<JobFailure(JobFailure)> completed;
  {
    const std::lock_guard lock(mutex_);
    gone_.insert(gone.begin(), gone.end());
    if (known_) return;
    if (own.process < 0) {
      own.process = process_;
      own.operation = latest_operation_locked();
    }
    completed = completed_;
  }
  if (completed) own = completed(std::move(own));
  {
    const std::lock_guard lock(mutex_);
    if (known_) return;
    known_ = KnownFailure{.process = process_, .failure = std::move(own)};
    settles_at_ = deadline_in(kSettling_s);
    has_failed_ = true;
    new_.clear();
  }
  changed_.notify_all();
}

void ProcessExchange::wait_until_still() {
  if (std::this_thread::get_id() == thread_.get_id()) return;
  const std::lock_guard carrying(carrying_);
}

JobFailure ProcessExchange::settled_failure() {
  std::unique_lock lock(mutex_);
  changed_.wait_until(lock, deadline_in(2 * kSettling_s), [this] { return failure_ && told_; });
  return failure_ ? *failure_ : known_->failure;
}

bool ProcessExchange::take_new() {
  std::deque<Transfer> taken;
  {
    const std::lock_guard lock(mutex_);
    taken.swap(new_);
  }
  for (Transfer& transfer : taken) {
    auto begun = std::make_unique<TransferUnderWay>(*wire_, window_, std::move(transfer), [this](int process) {
      heard_at_[static_cast<size_t>(process)] = Clock::now().time_since_epoch().count();
    });
    const auto behind =
        std::ranges::find_if(under_way_, [&](const auto& other) { return other->priority() < begun->priority(); });
    under_way_.insert(behind, std::move(begun));
  }
  return !taken.empty();
}

bool ProcessExchange::carry() {
  const std::lock_guard carrying(carrying_);
  if (has_failed_) return false;
  bool moved = take_new();
  for (size_t i = 0; i < under_way_.size();) {
    if (under_way_[i]->is_done()) {
      const std::unique_ptr<TransferUnderWay> done = std::move(under_way_[i]);
      under_way_.erase(under_way_.begin() + static_cast<std::ptrdiff_t>(i));
      done->done();
      moved = true;
    } else if (under_way_[i]->is_overdue()) {
      fail(under_way_[i]->overdue());
      return true;
    } else {
      ++i;
    }
  }
  // The window of a process is shared by all transfers, so the transfer that goes first is asked first.
  HeldTags held;
  for (const auto& transfer : under_way_) moved |= transfer->send_on(held);
  return moved;
}

void ProcessExchange::expect_news() {
  for (int other = 0; other < processes_; ++other) {
    if (other == process_) continue;
    expected_news_.push_back(std::make_unique<FailureNews>());
    FailureNews& news = *expected_news_.back();
    news.peer = other;
    news.message = wire_->start_receive(news.bytes, other, kNewsTag);
  }
}

bool ProcessExchange::hear_news() {
  bool heard = false;
  for (auto& news : expected_news_) {
    if (!news->message) continue;
    try {
      if (!news->message->is_done()) continue;
    } catch (const LostMessage&) {
      // Nothing comes from that process any more.
      news->message.reset();
      throw;
    }
    news->message.reset();
    heard = true;
    const std::lock_guard lock(mutex_);
    const KnownFailure theirs = news->read(gone_);
    if (!known_) settles_at_ = deadline_in(kSettling_s);
    if (!known_ || theirs.process < known_->process) known_ = theirs;
    has_failed_ = true;
    new_.clear();
  }
  return heard;
}

void ProcessExchange::tell_news() {
  std::unique_lock lock(mutex_);
  if (told_) return;
  const KnownFailure known = *known_;
  const std::set<int> gone = gone_;
  lock.unlock();
  for (int other = 0; sent_news_.size() < expected_news_.size(); ++other) {
    if (other == process_) continue;
    sent_news_.push_back(std::make_unique<FailureNews>());
    FailureNews& news = *sent_news_.back();
    news.peer = other;
    news.write(known, gone);
    news.message = wire_->start_send(news.bytes, other, kNewsTag);
  }
  const auto is_told = [&gone](const auto& news) { return gone.contains(news->peer) || news->message->is_done(); };
  if (!std::ranges::all_of(sent_news_, is_told)) return;
  lock.lock();
  told_ = true;
  changed_.notify_all();
}

void ProcessExchange::settle() {
  std::vector<std::weak_ptr<JobMember>> members;
  {
    const std::lock_guard lock(mutex_);
    if (failure_ || (!has_heard_of_all() && Clock::now() < settles_at_)) return;
    failure_ = known_->failure;
    members = members_;
  }
  changed_.notify_all();
  for (const auto& member : members)
    if (const auto alive = member.lock()) alive->on_job_failure(*failure_);
}

bool ProcessExchange::has_heard_of_all() const {
  return std::ranges::all_of(expected_news_,
                             [this](const auto& news) { return !news->message || gone_.contains(news->peer); });
}

bool ProcessExchange::has_to_end() const {
  if (!stopping_) return false;
  return !known_ || (told_ && failure_) || Clock::now() >= stop_at_;
}

bool ProcessExchange::move_on() {
  try {
    const bool heard = hear_news();
    if (!loss_) return carry() || heard;
    if (!has_failed_ && Clock::now() >= unexplained_at_) fail(*loss_);
    return heard;
  } catch (const LostMessage& loss) {
    rest_after(loss);
  } catch (const Error& error) {
    fail({.code = error.code(), .sentence = error.what()});
  } catch (const std::exception& error) {
    fail({.code = ExitCode::bug, .sentence = error.what()});
  }
  return true;
}

void ProcessExchange::rest_after(const LostMessage& loss) {
  ++lost_messages_;
  if (loss_) return;
  loss_ = JobFailure{.code = loss.code(), .sentence = loss.what()};
  unexplained_at_ = deadline_in(kExplained_s);
}

void ProcessExchange::run() {
  Clock::time_point moved_at = Clock::now();
  auto pause = kShortestPause;
  while (true) {
    bool is_idle = false;
    {
      std::unique_lock lock(mutex_);
      is_idle = new_.empty() && under_way_.empty() && !known_ && !stopping_;
      if (is_idle) changed_.wait_until(lock, deadline_in(idle_pause_s_));
      if (has_to_end()) return;
    }
    if (move_on()) {
      moved_at = Clock::now();
      pause = kShortestPause;
    } else if (!is_idle && seconds_since(moved_at) > kSpin_s) {
      std::this_thread::sleep_for(pause);
      pause = std::min(2 * pause, kLongestPause);
    }
    if (!has_failed_) continue;
    settle();
    try {
      tell_news();
    } catch (const Error&) {
      // A process that can't be told any more is gone.
      const std::lock_guard lock(mutex_);
      told_ = true;
      changed_.notify_all();
    }
  }
}

}  // namespace dptrain
