#include "plan/operation.h"

#include <map>
#include <tuple>
#include <utility>

namespace dptrain::plan {
namespace {

/// Identifies an operation: the group, whether it uses host memory, the sender and receiver of a message or -1, and the
/// number among operations with the same other fields.
using Key = std::tuple<int, bool, int, int, int>;

/// These stand for the group of pushes to the servers of a store, and for that of pulls.
constexpr int kPushes = -1, kPulls = -2;

class Numbered {
 public:
  /// The key of a rank's next call.
  Key key_of(const LoggedCall& call) {
    if (call.key)
      return {call.call.kind == CommKind::send ? kPushes : kPulls, false, static_cast<int>(*call.key), -1, 0};
    int from = -1, to = -1;
    if (call.call.kind == CommKind::send) std::tie(from, to) = std::pair(call.rank, call.call.other);
    if (call.call.kind == CommKind::receive) std::tie(from, to) = std::pair(call.call.other, call.rank);
    return {call.group, call.over_host, from, to, ++counts_[{call.group, call.over_host, from, to}]};
  }

 private:
  std::map<std::tuple<int, bool, int, int>, int> counts_;
};

}  // namespace

Operations operations_of(const std::vector<const CallLog*>& calls) {
  Operations operations;
  std::map<Key, size_t> numbers;
  for (size_t r = 0; r < calls.size(); ++r) {
    Numbered numbered;
    std::vector<size_t>& of_rank = operations.of_call.emplace_back();
    for (size_t c = 0; c < calls[r]->size(); ++c) {
      const auto [found, is_new] = numbers.try_emplace(numbered.key_of((*calls[r])[c]), operations.all.size());
      if (is_new) operations.all.emplace_back();
      operations.all[found->second].ends.push_back({.rank = r, .call = c});
      of_rank.push_back(found->second);
    }
  }
  return operations;
}

}  // namespace dptrain::plan
