#include "plan/plan_totals.h"

#include <fmt/format.h>

#include <map>

#include "comm/comm_call.h"

namespace dptrain::plan {
namespace {

/// Counts equal things of a step, in the order in which they first appear.
template <class Key, class Value>
class Totals {
 public:
  Value& of(const Key& key) {
    const auto [place, is_new] = places_.try_emplace(key, rows_.size());
    if (is_new) rows_.emplace_back(key, Value());
    return rows_[place->second].second;
  }
  std::vector<std::pair<Key, Value>> rows() && { return std::move(rows_); }

 private:
  std::map<Key, size_t> places_;
  std::vector<std::pair<Key, Value>> rows_;
};

constexpr const char *kPush = "push", *kPull = "pull";

/// The name of a call. Messages to and from the servers of a store have names of their own.
std::string name_of(const LoggedCall& logged) {
  if (logged.key) return logged.call.kind == CommKind::send ? kPush : kPull;
  return std::string(comm_kind_name(logged.call.kind));
}

}  // namespace

std::vector<std::pair<std::string, OperatorTotal>> operator_totals(const PlannedRank& rank) {
  Totals<std::string, OperatorTotal> totals;
  for (const OperatorCost& cost : rank.operators) {
    OperatorTotal& total = totals.of(cost.name);
    ++total.calls;
    total.flops += cost.flops;
    total.bytes += cost.bytes;
  }
  return std::move(totals).rows();
}

std::vector<std::pair<MessageKey, MessageTotal>> message_totals(const PlannedRank& rank) {
  Totals<MessageKey, MessageTotal> totals;
  for (const LoggedCall& logged : rank.calls) {
    if (logged.call.kind == CommKind::barrier) continue;
    const CommBuffer& payload = logged.call.payload();
    MessageTotal& total = totals.of({name_of(logged), payload.dtype, logged.call.other, logged.over_host});
    ++total.calls;
    total.elements += payload.elements;
    total.sent_bytes += logged.sent_bytes;
  }
  return std::move(totals).rows();
}

std::string message_name(const MessageKey& key) {
  const auto& [call, dtype, other, over_host] = key;
  std::string name = fmt::format("{} {}", call, dtype_name(dtype));
  if (call == kPush) return name + " to servers";
  if (call == kPull) return name + " from servers";
  const auto is = [&call](CommKind kind) { return call == comm_kind_name(kind); };
  const bool goes = is(CommKind::reduce) || is(CommKind::gather) || is(CommKind::send);
  if (other >= 0) name += fmt::format(", {} {}", goes ? "to" : "from", other);
  return over_host ? name + ", in host memory" : name;
}

}  // namespace dptrain::plan
