#include "comm/meta_communicator.h"

#include <fmt/format.h>

#include <algorithm>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <map>
#include <mutex>
#include <tuple>
#include <utility>

#include "base/check.h"
#include "base/clock.h"
#include "base/error.h"
#include "comm/call_communicator.h"
#include "comm/tree_staging.h"
#include "device/operator_log.h"

namespace dptrain {
namespace {

class MetaWork final : public CommWork {
 public:
  MetaWork(const OperatorLog& operators, CallLog& calls)
      : operators_(operators), calls_(calls), number_(calls.size() - 1) {}
  void wait() override {
    // Logs are emptied between steps, and no call outlasts a step. So this call's entry is gone.
    if (number_ >= calls_.size()) return;
    calls_[number_].awaited_after = operators_.costs().size();
    calls_[number_].awaited_calls = calls_.size();
  }

 private:
  const OperatorLog& operators_;
  CallLog& calls_;
  size_t number_;
};

/// Where the existing ranks of a group meet. It has their barriers, and the messages in host memory that were sent and
/// not yet received. A failing rank ends the waiting, and so does the deadline.
class Meeting {
 public:
  explicit Meeting(size_t ranks) : ranks_(ranks) {}

  /// Blocks until all ranks have come.
  void meet() {
    std::unique_lock lock(mutex_);
    const int64_t round = round_;
    if (++come_ == ranks_) {
      come_ = 0;
      ++round_;
      changed_.notify_all();
      return;
    }
    wait(lock, [&] { return round_ > round || !failure_.empty(); });
    if (round_ == round) throw Error(code_, failure_);
  }
  void put(int from, int to, const CommBuffer& buffer) {
    const auto* bytes = static_cast<const std::byte*>(buffer.data);
    {
      const std::lock_guard lock(mutex_);
      messages_[{from, to}].emplace_back(bytes, bytes + buffer.bytes());
    }
    changed_.notify_all();
  }
  /// Takes the next message. Blocks until there is one.
  void take(int from, int to, const CommBuffer& buffer) {
    std::unique_lock lock(mutex_);
    auto& waiting = messages_[{from, to}];
    wait(lock, [&] { return !waiting.empty() || !failure_.empty(); });
    if (!failure_.empty()) throw Error(code_, failure_);
    DPTRAIN_CHECK(static_cast<int64_t>(waiting.front().size()) == buffer.bytes(), "a message of {} bytes, {} expected",
                  waiting.front().size(), buffer.bytes());
    if (buffer.bytes() > 0) std::memcpy(buffer.data, waiting.front().data(), waiting.front().size());
    waiting.pop_front();
  }
  void fail(const std::string& cause, ExitCode code) {
    {
      const std::lock_guard lock(mutex_);
      if (failure_.empty()) std::tie(failure_, code_) = std::tie(cause, code);
    }
    changed_.notify_all();
  }

 private:
  template <class Condition>
  void wait(std::unique_lock<std::mutex>& lock, const Condition& condition) {
    if (!changed_.wait_until(lock, deadline_in(kDeadline_s), condition))
      throw Error(ExitCode::peer_lost, fmt::format("a planned rank did not arrive within {} s", kDeadline_s));
  }

  /// Long enough, since ranks compute nothing before they meet.
  static constexpr double kDeadline_s = 300;

  const size_t ranks_;
  std::mutex mutex_;
  std::condition_variable changed_;
  size_t come_ = 0;
  int64_t round_ = 0;                                                           ///< barriers that are over
  std::map<std::pair<int, int>, std::deque<std::vector<std::byte>>> messages_;  ///< by sender and receiver
  std::string failure_;
  ExitCode code_ = ExitCode::peer_lost;  ///< exit code of the failure
};

class MetaCommunicator final : public CallCommunicator {
 public:
  MetaCommunicator(Device& device, int rank, const LoggedWorld& world, CallLog& calls, std::shared_ptr<Meeting> meeting)
      : operators_(*device.operator_log()),
        rank_(rank),
        world_(world),
        calls_(calls),
        meeting_(std::move(meeting)),
        staging_(device.allocator()) {
    if (!world.by_tree) return;
    const WorldShape nodes = world.members ? shape_of_ranks(*world.shape, *world.members) : *world.shape;
    if (nodes.processes() > 1) tree_plans_.emplace(RankTreeOptions{.nodes = nodes, .rank = rank});
  }

  int rank() const override { return rank_; }
  int size() const override { return world_.ranks; }

  void abort(const std::string& cause, ExitCode code) override { meeting_->fail(cause, code); }

  CommCounts counts() const override { return counts_; }
  bool can_be_recorded(DType dtype) const override {
    return std::ranges::find(world_.recorded, dtype) != world_.recorded.end();
  }
  void count_replay(const CommCounts& replayed) override { counts_ += replayed; }

 private:
  std::unique_ptr<CommWork> start(const CommCall& call) override {
    check_call(call, rank_, size());
    const bool is_collective =
        call.kind != CommKind::send && call.kind != CommKind::receive && call.kind != CommKind::barrier;
    const size_t given = operators_.costs().size();
    calls_.push_back({.call = call,
                      .ranks = size(),
                      .over_host = world_.over_host,
                      .group = world_.group,
                      .rank = rank_,
                      .members = world_.members,
                      .sent_bytes = sent_bytes(call, rank_, size()),
                      .started_after = given,
                      .awaited_after = given,
                      .awaited_calls = calls_.size() + 1});
    counts_.bytes += calls_.back().sent_bytes;
    counts_.collectives += is_collective ? 1 : 0;
    if (tree_plans_ && goes_by_tree(call, *world_.by_tree))
      for (const CommCall& piece : pieces_of(call, kMostTreeBytes)) staging_.take(tree_plans_->of(piece).staging_bytes);
    auto work = std::make_unique<MetaWork>(operators_, calls_);
    meet(call);
    return work;
  }

  void meet(const CommCall& call) {
    if (call.kind == CommKind::barrier) meeting_->meet();
    if (!world_.over_host) return;
    if (call.kind == CommKind::send) meeting_->put(rank_, call.other, call.in);
    if (call.kind == CommKind::receive) meeting_->take(call.other, rank_, call.out);
  }

  const OperatorLog& operators_;
  const int rank_;
  const LoggedWorld world_;
  CallLog& calls_;
  const std::shared_ptr<Meeting> meeting_;
  std::optional<RankTreePlans> tree_plans_;  ///< set if sums follow these plans
  TreeStaging staging_;
  CommCounts counts_;
};

}  // namespace

std::vector<std::unique_ptr<Communicator>> make_meta_communicators(const std::vector<Device*>& devices,
                                                                   const LoggedWorld& world,
                                                                   const std::vector<int>& log_numbers) {
  DPTRAIN_CHECK(devices.size() == log_numbers.size() && static_cast<int>(devices.size()) <= world.ranks,
                "{} devices and {} logs in a world of {}", devices.size(), log_numbers.size(), world.ranks);
  const auto meeting = std::make_shared<Meeting>(devices.size());
  std::vector<std::unique_ptr<Communicator>> communicators;
  for (size_t i = 0; i < devices.size(); ++i) {
    CallLog& calls = world.calls->at(static_cast<size_t>(log_numbers[i]));
    communicators.push_back(
        std::make_unique<MetaCommunicator>(*devices[i], static_cast<int>(i), world, calls, meeting));
  }
  return communicators;
}

}  // namespace dptrain
