#include "comm/thread_communicator.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <exception>
#include <utility>

#include "base/check.h"
#include "base/error.h"
#include "comm/call_communicator.h"
#include "comm/exchange_span.h"
#include "comm/thread_group.h"
#include "device/timeline.h"

namespace dptrain {
namespace {

/// A call on its rank's timeline, from its start to the operation's end, even if the rank looks at it later.
class ShownExchange {
 public:
  ShownExchange(Timeline& timeline, TimelineSpan span) : timeline_(&timeline), span_(std::move(span)) {
    span_.begin = Clock::now();
  }
  void end(const OperationTimes& times) {
    span_.end = times.done;
    span_.alone = std::max(Clock::duration::zero(), times.ready - span_.begin);
    timeline_->add(std::move(span_));
  }

 private:
  Timeline* timeline_;
  TimelineSpan span_;
};

/// One rank's end of an operation. The constructor publishes the call. The buffer is free again when `wait` returns or
/// throws, or at the latest when this object is destroyed.
///
/// The destructor waits if `wait` was never called. While an exception leaves the rank, it withdraws the call instead,
/// if that is still possible. It can't wait for the other ranks, which may be waiting for this rank elsewhere. And they
/// must not learn of a failure before `abort` tells them the root cause, once the exception is handled.
class ThreadWork final : public CommWork {
 public:
  ThreadWork(std::shared_ptr<ThreadGroup> group, const OperationKey& key, int rank, const CommCall& call,
             std::optional<ShownExchange> shown)
      : group_(std::move(group)), shown_(std::move(shown)), rank_(rank), exceptions_(std::uncaught_exceptions()) {
    operation_ = group_->start(key, rank, call);
  }
  ThreadWork(const ThreadWork&) = delete;
  ThreadWork& operator=(const ThreadWork&) = delete;

  ~ThreadWork() override {
    if (!operation_) return;
    if (std::uncaught_exceptions() > exceptions_ && group_->withdraw(*operation_, rank_)) return;
    try {
      group_->finish(*operation_, rank_);
    } catch (const std::exception&) {
      // The group has failed. Every later call of this rank reports it.
    }
  }

  void wait() override {
    if (!operation_) return;
    const OperationTimes times = group_->finish(*operation_, rank_);
    if (shown_) shown_->end(times);
    operation_.reset();
  }

 private:
  std::shared_ptr<ThreadGroup> group_;
  std::shared_ptr<ThreadGroup::Operation> operation_;  // null once it is done and was waited for
  std::optional<ShownExchange> shown_;
  int rank_;
  int exceptions_;
};

class ThreadCommunicator final : public CallCommunicator {
 public:
  ThreadCommunicator(std::shared_ptr<ThreadGroup> group, int rank)
      : group_(std::move(group)), rank_(rank), sent_to_(group_->size()), received_from_(group_->size()) {}

  int rank() const override { return rank_; }
  int size() const override { return group_->size(); }

  void abort(const std::string& cause, ExitCode code) override { group_->fail(code, cause); }
  void show_on(Timeline* timeline, const std::string& other) override {
    timeline_ = timeline;
    shown_other_ = other;
  }

  CommCounts counts() const override { return counts_; }
  CommWays ways() const override {
    return {.between_devices = group_->own_ranks() > 1 ? "memory" : "",
            .between_processes = group_->spans_processes() ? "mpi" : ""};
  }

 private:
  std::unique_ptr<CommWork> start(const CommCall& call) override {
    check_call(call, rank_, size());
    OperationKey key;
    if (call.kind == CommKind::send) {
      key = {.number = ++sent_to_[call.other], .from = rank_, .to = call.other};
    } else if (call.kind == CommKind::receive) {
      key = {.number = ++received_from_[call.other], .from = call.other, .to = rank_};
    } else {
      key = {.number = ++collectives_};
    }
    auto work = std::make_unique<ThreadWork>(group_, key, rank_, call, shown(call));
    counts_.bytes += sent_bytes(call, rank_, size());
    counts_.collectives += key.is_message() || call.kind == CommKind::barrier ? 0 : 1;
    return work;
  }

  std::optional<ShownExchange> shown(const CommCall& call) const {
    if (timeline_ == nullptr || !timeline_->is_wanted()) return std::nullopt;
    return ShownExchange(*timeline_, exchange_span(call, shown_other_));
  }

  /// The root doesn't know the sizes of parts in other processes. So all ranks exchange the sizes, and then each part
  /// is a message.
  void move_parts(const CommCall& call) override {
    if (!group_->spans_processes()) return start(call)->wait();
    check_call(call, rank_, size());
    CommCounts counts = counts_;
    counts.bytes += sent_bytes(call, rank_, size());
    ++counts.collectives;
    const std::string name = fmt::format("collective #{}", collectives_ + 1);
    const std::vector<CommCall> calls = calls_of_all(call);
    for (int r = 1; r < size(); ++r)
      if (!calls_agree(calls[0], calls[r]))
        disagree(fmt::format("rank {} called {} as {}, but rank 0 called {}", r, describe(calls[r]), name,
                             describe(calls[0])));
    if (const auto why = sizes_disagree(calls, name)) disagree(*why);
    const bool gathers = call.kind == CommKind::gather;
    if (rank_ != call.other) {
      (gathers ? start_send(call.in, call.other) : start_receive(call.out, call.other))->wait();
    } else {
      move_parts_as_root(calls);
    }
    counts_ = counts;
  }

  void move_parts_as_root(const std::vector<CommCall>& calls) {
    const CommCall& own = calls[static_cast<size_t>(rank_)];
    const bool gathers = own.kind == CommKind::gather;
    CommBuffer part = gathers ? own.out : own.in;
    std::vector<std::unique_ptr<CommWork>> messages;
    for (int r = 0; r < size(); ++r) {
      part.elements = calls[r].payload().elements;
      if (r != rank_)
        messages.push_back(gathers ? start_receive(part, r) : start_send(part, r));
      else if (part.elements > 0)
        std::memcpy(gathers ? part.data : own.out.data, gathers ? own.in.data : part.data, part.bytes());
      part.data = static_cast<std::byte*>(part.data) + part.bytes();
    }
    for (const auto& message : messages) message->wait();
  }

  /// This call as each rank has made it. Other ranks' buffers have only sizes.
  std::vector<CommCall> calls_of_all(const CommCall& call) {
    constexpr int kNumbers = 5;
    const CommBuffer& whole = call.kind == CommKind::gather ? call.out : call.in;
    const std::array<int64_t, kNumbers> own = {static_cast<int64_t>(call.kind), call.other, call.payload().elements,
                                               static_cast<int64_t>(call.payload().dtype), whole.elements};
    std::vector<int64_t> all(static_cast<size_t>(kNumbers * size()));
    all_gather({.data = const_cast<int64_t*>(own.data()), .elements = kNumbers, .dtype = DType::i64},
               {.data = all.data(), .elements = kNumbers * size(), .dtype = DType::i64});
    std::vector<CommCall> calls;
    for (int r = 0; r < size(); ++r) {
      const int64_t* numbers = all.data() + kNumbers * r;
      const auto kind = static_cast<CommKind>(numbers[0]);
      const auto dtype = static_cast<DType>(numbers[3]);
      const CommBuffer part{.elements = numbers[2], .dtype = dtype}, of_root{.elements = numbers[4], .dtype = dtype};
      const bool gathers = kind == CommKind::gather;
      calls.push_back({.kind = kind,
                       .in = gathers ? part : of_root,
                       .out = gathers ? of_root : part,
                       .other = static_cast<int>(numbers[1])});
    }
    calls[static_cast<size_t>(rank_)] = call;
    return calls;
  }

  [[noreturn]] void disagree(const std::string& sentence) {
    group_->fail(ExitCode::ranks_disagree, sentence);
    barrier();  // throws the job's failure
    throw Error(ExitCode::ranks_disagree, sentence);
  }

  std::shared_ptr<ThreadGroup> group_;
  int rank_;
  Timeline* timeline_ = nullptr;
  std::string shown_other_;
  int64_t collectives_ = 0;       // number of the latest one, barriers included
  std::vector<int64_t> sent_to_;  // number of the latest message, by peer
  std::vector<int64_t> received_from_;
  CommCounts counts_;
};

}  // namespace

std::vector<std::unique_ptr<Communicator>> make_thread_communicators(int size, const ThreadGroupOptions& options) {
  const auto group = std::make_shared<ThreadGroup>(size, options);
  std::vector<std::unique_ptr<Communicator>> ranks;
  for (int rank = 0; rank < size; ++rank) ranks.push_back(std::make_unique<ThreadCommunicator>(group, rank));
  return ranks;
}

int RanksOfProcesses::place_of(int process) const {
  const auto found = std::ranges::find(processes, process);
  DPTRAIN_CHECK(found != processes.end(), "process {} has no rank of this group", process);
  return static_cast<int>(found - processes.begin());
}

std::vector<std::unique_ptr<Communicator>> make_process_communicators(const RanksOfProcesses& world, double timeout_s,
                                                                      bool meet_only) {
  const auto group = std::make_shared<ThreadGroup>(world, timeout_s, meet_only);
  group->join_job();
  const RankRun own = world.own_ranks();
  std::vector<std::unique_ptr<Communicator>> ranks;
  for (int rank = own.begin; rank < own.end; ++rank) ranks.push_back(std::make_unique<ThreadCommunicator>(group, rank));
  return ranks;
}

}  // namespace dptrain
