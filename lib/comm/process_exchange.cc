#include "comm/process_exchange.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <utility>

#include "base/check.h"

namespace dptrain {
namespace {

constexpr int kNewsTag = 0;
constexpr int kFirstGroupTag = 16;

// While messages are on their way they are asked for as often as costs little beside what ranks compute; nothing moves
// in between.
constexpr auto kShortestPause = std::chrono::microseconds(10);
constexpr auto kLongestPause = std::chrono::microseconds(200);
/// How long processes that have failed wait to hear of all others.
constexpr double kSettling_s = 1;
/// How long messages are asked for without a pause.
constexpr double kSpin_s = 20e-6;

std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span<const char>(text.data(), text.size()));
}

}  // namespace

/// What a process knows of a failure, as one message.
struct ProcessExchange::News {
  struct Header {
    int64_t step = -1;
    int64_t checkpoint = -1;
    int64_t steps_lost = -1;
    double detected_s = 0;
    int32_t process = 0;  ///< that has failed
    int32_t of = -1;      ///< whose failure it is
    int32_t code = 0;
    uint32_t length = 0;            ///< of the sentence
    uint32_t operation_length = 0;  ///< of the operation's name, behind it
    uint32_t gone_count = 0;
    std::array<int32_t, 64> gone = {};  ///< more are found missing in time
  };
  /// As short as MPI sends at once, without asking the receiver first: who tells it may be gone when it is read.
  static constexpr size_t kBytes = 2048;
  int peer = 0;
  std::array<std::byte, kBytes> bytes{};
  std::unique_ptr<WireMessage> message;

  void write(const Known& known, const std::set<int>& gone) {
    const JobFailure& failure = known.failure;
    Header header{.step = failure.step,
                  .checkpoint = failure.checkpoint,
                  .steps_lost = failure.steps_lost,
                  .detected_s = failure.detected_s,
                  .process = known.process,
                  .of = failure.process,
                  .code = static_cast<int32_t>(failure.code)};
    const std::string text = failure.sentence + failure.operation;
    const size_t length = std::min(text.size(), kBytes - sizeof(Header));
    header.length = static_cast<uint32_t>(std::min(failure.sentence.size(), length));
    header.operation_length = static_cast<uint32_t>(length - header.length);
    for (const int process : gone)
      if (header.gone_count < header.gone.size()) header.gone[header.gone_count++] = process;
    std::memcpy(bytes.data(), &header, sizeof(Header));
    std::memcpy(bytes.data() + sizeof(Header), text.data(), length);
  }
  /// What another process knows; those that are gone are added to `gone`.
  Known read(std::set<int>& gone) const {
    Header header;
    std::memcpy(&header, bytes.data(), sizeof(Header));
    for (size_t i = 0; i < std::min<size_t>(header.gone_count, header.gone.size()); ++i) gone.insert(header.gone[i]);
    const std::string text(reinterpret_cast<const char*>(bytes.data()) + sizeof(Header), kBytes - sizeof(Header));
    const size_t length = std::min<size_t>(header.length, text.size());
    return {.process = header.process,
            .failure = {.code = static_cast<ExitCode>(header.code),
                        .sentence = text.substr(0, length),
                        .process = header.of,
                        .step = header.step,
                        .operation = text.substr(length, header.operation_length),
                        .checkpoint = header.checkpoint,
                        .steps_lost = header.steps_lost,
                        .detected_s = header.detected_s}};
  }
};

/// A transfer whose messages have been started.
class ProcessExchange::UnderWay {
 public:
  UnderWay(ProcessWire& wire, Transfer transfer)
      : transfer_(std::move(transfer)), deadline_(deadline_in(transfer_.timeout_s)) {
    const std::vector<int>& senders = transfer_.header_from;
    headers_.assign(senders.size(), std::string(transfer_.header.size(), '\0'));
    for (size_t i = 0; i < senders.size(); ++i)
      received_headers_.push_back(
          wire.start_receive(std::as_writable_bytes(std::span(headers_[i].data(), headers_[i].size())), senders[i],
                             transfer_.received_header_tag));
    for (const int to : transfer_.header_to)
      sent_.push_back(wire.start_send(bytes_of(transfer_.header), to, transfer_.sent_header_tag));
    for (const ExchangeMessage& message : transfer_.messages) {
      const std::span<std::byte> bytes(static_cast<std::byte*>(message.data), static_cast<size_t>(message.bytes));
      if (message.sends)
        sent_.push_back(wire.start_send(bytes, message.process, transfer_.tag));
      else
        received_.push_back({&message, wire.start_receive(bytes, message.process, transfer_.tag)});
    }
  }

  /// Whether everything is done. What was received is looked at only once the headers are seen to agree. Throws what
  /// ends the job.
  bool is_done() {
    for (; headers_seen_ < received_headers_.size(); ++headers_seen_) {
      if (!received_headers_[headers_seen_]->is_done()) return false;
      const int from = transfer_.header_from[headers_seen_];
      if (const auto failure = transfer_.check(from, headers_[headers_seen_]))
        throw Error(failure->code, failure->sentence);
    }
    for (; receives_seen_ < received_.size(); ++receives_seen_)
      if (!received_[receives_seen_].second->is_done()) return false;
    for (; sends_seen_ < sent_.size(); ++sends_seen_)
      if (!sent_[sends_seen_]->is_done()) return false;
    return true;
  }

  bool is_overdue() const { return Clock::now() >= deadline_; }
  JobFailure overdue() const {
    std::vector<int> missing;
    for (size_t i = headers_seen_; i < received_headers_.size(); ++i) {
      if (!received_headers_[i]->is_done()) missing.push_back(transfer_.header_from[i]);
    }
    if (missing.empty())
      for (const auto& [message, work] : received_)
        if (!work->is_done()) missing.push_back(message->process);
    if (missing.empty())
      for (const ExchangeMessage& message : transfer_.messages)
        if (message.sends) missing.push_back(message.process);
    std::ranges::sort(missing);
    missing.erase(std::unique(missing.begin(), missing.end()), missing.end());
    return transfer_.overdue(missing);
  }
  void done() const { transfer_.on_done(); }

 private:
  Transfer transfer_;
  Clock::time_point deadline_;
  std::vector<std::string> headers_;
  std::vector<std::unique_ptr<WireMessage>> received_headers_;
  std::vector<std::pair<const ExchangeMessage*, std::unique_ptr<WireMessage>>> received_;
  std::vector<std::unique_ptr<WireMessage>> sent_;
  size_t headers_seen_ = 0;
  size_t receives_seen_ = 0;
  size_t sends_seen_ = 0;
};

ProcessExchange::ProcessExchange(std::shared_ptr<ProcessWire> wire, double idle_pause_s)
    : wire_(std::move(wire)), process_(wire_->process()), processes_(wire_->processes()), idle_pause_s_(idle_pause_s) {
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
    if (!transfer.operation.empty()) latest_operation_ = transfer.operation;
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
  return latest_operation_;
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
      own.operation = latest_operation_;
    }
    completed = completed_;
  }
  if (completed) own = completed(std::move(own));
  {
    const std::lock_guard lock(mutex_);
    if (known_) return;
    known_ = Known{.process = process_, .failure = std::move(own)};
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
  for (Transfer& transfer : taken) under_way_.push_back(std::make_unique<UnderWay>(*wire_, std::move(transfer)));
  return !taken.empty();
}

bool ProcessExchange::carry() {
  const std::lock_guard carrying(carrying_);
  if (has_failed_) return false;
  bool moved = take_new();
  for (size_t i = 0; i < under_way_.size();) {
    if (under_way_[i]->is_done()) {
      const std::unique_ptr<UnderWay> done = std::move(under_way_[i]);
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
  return moved;
}

void ProcessExchange::expect_news() {
  for (int other = 0; other < processes_; ++other) {
    if (other == process_) continue;
    expected_news_.push_back(std::make_unique<News>());
    News& news = *expected_news_.back();
    news.peer = other;
    news.message = wire_->start_receive(news.bytes, other, kNewsTag);
  }
}

bool ProcessExchange::hear_news() {
  bool heard = false;
  for (auto& news : expected_news_) {
    if (!news->message || !news->message->is_done()) continue;
    news->message.reset();
    heard = true;
    const std::lock_guard lock(mutex_);
    const Known theirs = news->read(gone_);
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
  const Known known = *known_;
  const std::set<int> gone = gone_;
  lock.unlock();
  for (int other = 0; sent_news_.size() < expected_news_.size(); ++other) {
    if (other == process_) continue;
    sent_news_.push_back(std::make_unique<News>());
    News& news = *sent_news_.back();
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
    return carry() || heard;
  } catch (const Error& error) {
    fail({.code = error.code(), .sentence = error.what()});
  } catch (const std::exception& error) {
    fail({.code = ExitCode::bug, .sentence = error.what()});
  }
  return true;
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
      // Who can't be told any more is gone.
      const std::lock_guard lock(mutex_);
      told_ = true;
      changed_.notify_all();
    }
  }
}

}  // namespace dptrain
