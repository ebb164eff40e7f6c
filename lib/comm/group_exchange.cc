#include "comm/group_exchange.h"

#include <fmt/format.h>

#include "base/check.h"
#include "comm/thread_operation.h"

namespace dptrain {
namespace {

// Tags of a group's messages, below ProcessExchange::kGroupTags. A collective's tag follows from its number; at most
// kMostCollectives are under way at once. Headers of collectives have the next tags. The tag of a message between ranks
// follows from both ends' places in their processes, which keeps the order of each pair's messages.
constexpr int kMostCollectives = 2048;
constexpr int kHeaderTags = kMostCollectives;
constexpr int kMessageTags = 2 * kMostCollectives;
constexpr int kPairs = kMostRanksOfProcess * kMostRanksOfProcess;
constexpr int kSenderTags = kMessageTags + kPairs;
constexpr int kReceiverTags = kSenderTags + kPairs;
static_assert(kReceiverTags + kPairs <= ProcessExchange::kGroupTags);

/// Length of the header that processes compare, "all_reduce f32[128]".
constexpr size_t kHeaderBytes = 96;

/// Up to this many processes, each compares headers with all others, so that all wait for all. With more, each compares
/// with its neighbors.
constexpr int kFewProcesses = 8;

/// For a message, only the part that is the same at both ends.
std::string header_of(const CommCall& call) {
  std::string text = describe(call);
  if (call.kind == CommKind::send || call.kind == CommKind::receive) text = text.substr(text.find(' ') + 1);
  text.resize(kHeaderBytes, '\0');
  return text;
}

}  // namespace

GroupExchange::GroupExchange(const RanksOfProcesses& world, double timeout_s)
    : world_(world),
      place_(world.place()),
      ranks_(world.own_ranks()),
      first_tag_(world.exchange->first_tag(world.group ? *world.group : world.exchange->next_group())),
      timeout_s_(timeout_s) {
  for (int p = 0; p < world.shape.processes(); ++p) {
    const int ranks = world.shape.ranks_of(p).size();
    DPTRAIN_CHECK(ranks >= 1 && ranks <= kMostRanksOfProcess, "{} ranks of one process, 1 to {} can be", ranks,
                  kMostRanksOfProcess);
  }
}

ExchangePlan GroupExchange::plan_of(const ThreadGroup::Operation& operation) const {
  const std::vector<CommCall> calls = operation.all_calls();
  if (!operation.key().is_message()) return plan_exchange(calls, world_.shape, place_, *staging_);
  return plan_message(calls[0], world_.shape.process_of(calls[0].other), *staging_);
}

void GroupExchange::start(const Operation& operation, std::function<void()> done) {
  const OperationKey& key = operation->key();
  if (!key.is_message()) return processes().start(transfer_of({operation, std::move(done)}));
  PairOfRanks& pair = pairs_[{key.from, key.to}];
  pair.held[key.number] = {operation, std::move(done)};
  for (auto next = pair.held.begin(); next != pair.held.end() && next->first == pair.latest + 1;
       next = pair.held.erase(next)) {
    ++pair.latest;
    processes().start(transfer_of(next->second));
  }
}

Transfer GroupExchange::transfer_of(const Started& started) {
  const Operation& operation = started.operation;
  const OperationKey& key = operation->key();
  Transfer transfer{.tag = key.is_message() ? first_tag_ + kMessageTags + pair_tag(key)
                                            : first_tag_ + static_cast<int>(key.number % kMostCollectives),
                    .messages = {},
                    .priority = operation->all_calls().front().priority,
                    .shares_tag = key.is_message(),
                    .timeout_s = timeout_s_,
                    .on_done = started.done,
                    .overdue = {}};
  for (ExchangeMessage message : operation->stage().messages) {
    message.process = world_.processes[static_cast<size_t>(message.process)];
    transfer.messages.push_back(message);
  }
  // The callback for the end keeps the group alive, and with it this object.
  transfer.overdue = [this, operation](const std::vector<int>& processes) { return overdue(*operation, processes); };
  if (operation->stage_number() > 0) return transfer;
  transfer.operation = fmt::format("{}, {}", operation->name(), describe(operation->all_calls().front()));
  if (key.is_message())
    compare_message(transfer, operation->all_calls().front());
  else
    compare_collective(transfer, key);
  transfer.header = header_of(operation->all_calls().front());
  transfer.check = [this, operation, own = transfer.header](int process,
                                                            const std::string& theirs) -> std::optional<JobFailure> {
    if (theirs == own) return std::nullopt;
    return disagreement(*operation, process, theirs);
  };
  return transfer;
}

int GroupExchange::pair_tag(const OperationKey& key) const {
  const auto place_in_process = [&](int rank) {
    return rank - world_.shape.ranks_of(world_.shape.process_of(rank)).begin;
  };
  return place_in_process(key.from) * kMostRanksOfProcess + place_in_process(key.to);
}

void GroupExchange::compare_message(Transfer& transfer, const CommCall& call) const {
  // Both ends compare. Two processes may have such a pair of places in each direction, so each end has tags of its own.
  const bool sends = call.kind == CommKind::send;
  const int pair = transfer.tag - kMessageTags;
  transfer.sent_header_tag = pair + (sends ? kSenderTags : kReceiverTags);
  transfer.received_header_tag = pair + (sends ? kReceiverTags : kSenderTags);
  transfer.header_to =
      transfer.header_from = {world_.processes[static_cast<size_t>(world_.shape.process_of(call.other))]};
}

void GroupExchange::compare_collective(Transfer& transfer, const OperationKey& key) {
  DPTRAIN_CHECK(under_way_.empty() || key.number - *under_way_.begin() < kMostCollectives,
                "collective #{} begins while #{} is under way", key.number, *under_way_.begin());
  under_way_.insert(key.number);
  transfer.sent_header_tag = transfer.received_header_tag = transfer.tag + kHeaderTags;
  const int processes = static_cast<int>(world_.processes.size());
  const int neighbors = processes <= kFewProcesses ? processes - 1 : 1;
  for (int distance = 1; distance <= neighbors; ++distance) {
    transfer.header_to.push_back(world_.processes[static_cast<size_t>((place_ + distance) % processes)]);
    transfer.header_from.push_back(world_.processes[static_cast<size_t>((place_ + processes - distance) % processes)]);
  }
}

JobFailure GroupExchange::disagreement(const ThreadGroup::Operation& operation, int process,
                                       const std::string& theirs) const {
  const OperationKey& key = operation.key();
  const CommCall call = operation.all_calls().front();
  int rank = ranks_of_process(process).begin;
  std::string called = theirs.c_str();
  if (key.is_message()) {
    rank = call.kind == CommKind::send ? key.to : key.from;
    called = (call.kind == CommKind::send ? "receive " : "send ") + called;
  }
  return {.code = ExitCode::ranks_disagree,
          .sentence = fmt::format("rank {} called {} as {}, but rank {} called {}", operation.rank_of(0),
                                  describe(call), operation.name(), rank, called)};
}

JobFailure GroupExchange::overdue(const ThreadGroup::Operation& operation, const std::vector<int>& processes) const {
  const OperationKey& key = operation.key();
  std::vector<int> missing;
  for (const int process : processes) {
    const RankRun ranks = ranks_of_process(process);
    for (int rank = ranks.begin; rank < ranks.end; ++rank) missing.push_back(rank);
  }
  if (key.is_message()) missing = {ranks_.contains(key.from) ? key.to : key.from};
  return {.code = ExitCode::peer_lost, .sentence = operation.overdue(operation.rank_of(0), timeout_s_, missing)};
}

}  // namespace dptrain
