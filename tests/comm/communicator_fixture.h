#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <exception>
#include <functional>
#include <memory>
#include <memory_resource>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "base/error.h"
#include "comm/communicator.h"
#include "comm/gpu_communicators.h"
#include "comm/link_communicators.h"
#include "comm/nccl_communicators.h"
#include "comm/process_communicators.h"
#include "comm/process_pair.h"
#include "comm/thread_communicator.h"

namespace dptrain {

/// The kinds that don't use NCCL; a new one is a new row. In a process of a pair the list is empty: there only what
/// needs the other process is tested.
inline std::vector<CommunicatorKind> kinds_without_nccl() {
  if (ProcessPair::instance() != nullptr) return {};
  return {
      {.name = "threads",
       .make = [](int size, double timeout_s) { return make_thread_communicators(size, {.timeout_s = timeout_s}); }},
      link_communicators("threads_over_links", {.latency_s = 1e-6, .bytes_per_s = 1e9}),
      process_communicators("processes", 1),
      process_communicators("processes_of_two", 2),
      process_communicators("processes_of_three", 3),
      gpu_communicators("cuda", [](int) { return DeviceKind::cuda; }),
      gpu_communicators("cuda_and_cpu", [](int rank) { return rank % 2 == 0 ? DeviceKind::cuda : DeviceKind::cpu; })};
}

/// The kinds that add in the tree's order.
inline std::vector<CommunicatorKind> kinds_in_tree_order() {
  if (ProcessPair* const pair = ProcessPair::instance())
    return {nccl_pair_communicators("nccl_pair_tree", *pair, {.deterministic = true})};
  std::vector<CommunicatorKind> kinds = kinds_without_nccl();
  kinds.push_back(nccl_process_communicators("cuda_nccl_tree", {.deterministic = true}));
  kinds.push_back(nccl_process_communicators("cuda_nccl_tree_of_hosts",
                                             {.deterministic = true, .ranks_of_node = 2, .most_bytes = 64 << 10}));
  return kinds;
}

/// All kinds. NCCL's own sums have an order that NCCL chooses.
inline std::vector<CommunicatorKind> communicator_kinds() {
  std::vector<CommunicatorKind> kinds = kinds_in_tree_order();
  if (ProcessPair* const pair = ProcessPair::instance()) {
    kinds.push_back(nccl_pair_communicators("nccl_pair", *pair, {.neighbors_have_lanes = true}));
    return kinds;
  }
  kinds.push_back(nccl_communicators("cuda_nccl"));
  kinds.push_back(nccl_process_communicators("cuda_nccl_processes", {.neighbors_have_lanes = true}));
  return kinds;
}

/// The kinds whose ranks start a collective without waiting for each other.
inline std::vector<CommunicatorKind> kinds_that_start_alone() {
  std::vector<CommunicatorKind> kinds = kinds_without_nccl();
  std::erase_if(kinds, [](const CommunicatorKind& kind) { return kind.meets_at_start; });
  return kinds;
}

using KindAndSize = std::tuple<CommunicatorKind, int>;
inline constexpr int kMostTestedRanks = 8;

/// World sizes from `smallest` on of these kinds, as far as this machine has them. absent_kinds_test.cc reports the
/// missing ones once.
inline std::vector<KindAndSize> present(const std::vector<CommunicatorKind>& kinds, int smallest) {
  std::vector<KindAndSize> all;
  for (const CommunicatorKind& kind : kinds)
    for (int size = std::max(smallest, kind.least_ranks);
         kind.absence.empty() && size <= std::min(kMostTestedRanks, kind.most_ranks); ++size)
      all.emplace_back(kind, size);
  return all;
}

template <class T>
using Values = std::pmr::vector<T>;

template <class T>
CommBuffer buffer_of(Values<T>& values) {
  return {.data = values.data(), .elements = static_cast<int64_t>(values.size()), .dtype = dtype_of<T>()};
}

/// How a rank ended: ok with an empty text, or the error that it threw.
struct Outcome {
  ExitCode code = ExitCode::ok;
  std::string text;

  bool operator==(const Outcome&) const = default;
};

inline void PrintTo(const Outcome& outcome, std::ostream* out) {
  *out << static_cast<int>(outcome.code) << " '" << outcome.text << "'";
}

using RankFunction = std::function<void(Communicator&)>;

/// Converts an outcome to text for the other process of a pair.
inline std::string told(const Outcome& outcome) {
  return std::to_string(static_cast<int>(outcome.code)) + ' ' + outcome.text;
}
inline Outcome outcome_of(const std::string& told) {
  const size_t space = told.find(' ');
  return {static_cast<ExitCode>(std::stoi(told.substr(0, space))), told.substr(space + 1)};
}

/// Calls `function` on a thread for each rank, and returns how the ranks ended.
inline std::vector<Outcome> outcomes_of(std::vector<std::unique_ptr<Communicator>>& ranks,
                                        const RankFunction& function) {
  std::vector<Outcome> outcomes(ranks.size());
  std::vector<std::thread> threads;
  for (size_t r = 0; r < ranks.size(); ++r) {
    if (ranks[r] == nullptr) continue;
    threads.emplace_back([&, r] {
      try {
        function(*ranks[r]);
      } catch (const Error& error) {
        outcomes[r] = {error.code(), error.what()};
      } catch (const std::exception& error) {
        outcomes[r] = {ExitCode::bug, error.what()};
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  if (ProcessPair* const pair = ProcessPair::instance()) {
    const std::string theirs = pair->exchange(told(outcomes[static_cast<size_t>(pair->process())]));
    outcomes[static_cast<size_t>(pair->other())] = outcome_of(theirs);
  }
  return outcomes;
}

/// Parameters: the kind and the world size.
class CommunicatorTest : public ::testing::TestWithParam<KindAndSize> {
 protected:
  const CommunicatorKind& kind() const { return std::get<0>(GetParam()); }
  int size() const { return std::get<1>(GetParam()); }

  RankList make(double timeout_s = 60) const { return kind().make(size(), timeout_s); }

  /// `count` values, element i is value(i).
  template <class T, class F>
  Values<T> values(int64_t count, F value) const {
    Values<T> result(count, kind().memory);
    for (int64_t i = 0; i < count; ++i) result[i] = static_cast<T>(value(i));
    return result;
  }

  /// Runs `function` on every rank; each must end without an exception.
  void run(const RankFunction& function) const {
    auto ranks = make();
    for (const Outcome& outcome : outcomes_of(ranks, function)) EXPECT_EQ(outcome, Outcome{});
  }

  /// Runs `function` on every rank, expects that all end with the same error, and returns it.
  Outcome common_failure(std::vector<std::unique_ptr<Communicator>>& ranks, const RankFunction& function) const {
    const std::vector<Outcome> outcomes = outcomes_of(ranks, function);
    for (const Outcome& outcome : outcomes) EXPECT_EQ(outcome, outcomes[0]);
    return outcomes[0];
  }
};

inline std::string name_of(const ::testing::TestParamInfo<KindAndSize>& info) {
  return std::get<0>(info.param).name + "_" + std::to_string(std::get<1>(info.param));
}

/// Tests of faults need `smallest` to be 2 or more.
#define DPTRAIN_COMMUNICATORS(kinds, suite, smallest) \
  INSTANTIATE_TEST_SUITE_P(Kinds, suite, ::testing::ValuesIn(present(kinds, smallest)), name_of)
#define DPTRAIN_EVERY_COMMUNICATOR(suite, smallest) DPTRAIN_COMMUNICATORS(communicator_kinds(), suite, smallest)

}  // namespace dptrain
