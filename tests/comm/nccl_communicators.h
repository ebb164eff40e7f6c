#pragma once

#include <algorithm>
#include <exception>
#include <memory>
#include <numeric>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "comm/communicator_kind.h"
#include "comm/communicators.h"
#include "comm/gpu_communicators.h"
#include "comm/process_pair.h"
#include "device/cuda_probe.h"
#include "device/with_cuda.h"
#include "support/memory_wires.h"

namespace dptrain {

/// Adds NCCL's needs to a kind: a build with NCCL, and a separate GPU for each rank.
inline CommunicatorKind of_nccl(CommunicatorKind kind) {
  if (!kWithNccl) return {.name = kind.name, .absence = "no communicators of NCCL: it isn't built in", .make = {}};
  kind.most_ranks = static_cast<int>(cuda_devices().size());
  kind.needs = "a GPU of its own";
  // Within the deadline the GPUs must also find each other, while other tests run.
  kind.soon_s = 0.5;
  return kind;
}

/// Ranks of one process whose f32 all-reduces NCCL computes.
inline CommunicatorKind nccl_communicators(const std::string& name) {
  return of_nccl(gpu_communicators(
      name, [](int) { return DeviceKind::cuda; }, /*deterministic=*/false));
}

inline constexpr double kIdlePause = 0.0005;  ///< pause of an idle ProcessExchange, in seconds

/// How ranks of several processes sum over NCCL.
struct NcclSums {
  bool deterministic = false;
  int ranks_of_node = 8;
  int64_t most_bytes = kMostTreeBytes;
  bool neighbors_have_lanes = false;  ///< ranks 0 and 1, 2 and 3, ... send each other messages from GPU to GPU
};

/// The rank on `device` of a process that has one rank. All `size` processes of the world must call this function.
inline std::unique_ptr<Communicator> nccl_rank_of_process(int size, double timeout_s, const NcclSums& sums,
                                                          Device& device, ProcessExchange& exchange) {
  std::vector<int> ranks_of_nodes;
  for (int begin = 0; begin < size; begin += sums.ranks_of_node)
    ranks_of_nodes.push_back(std::min(sums.ranks_of_node, size - begin));
  std::vector<RankPair> messages;
  for (int rank = 0; sums.neighbors_have_lanes && rank < size; ++rank)
    if ((rank ^ 1) < size) messages.push_back({rank, rank ^ 1});
  std::vector<int> processes(static_cast<size_t>(size));
  std::iota(processes.begin(), processes.end(), 0);
  const RanksOfProcesses world{
      .exchange = &exchange, .processes = processes, .shape = WorldShape(std::vector<int>(processes.size(), 1))};
  return std::move(make_communicators({&device}, {.timeout_s = timeout_s,
                                                  .deterministic = sums.deterministic,
                                                  .world = world,
                                                  .world_over_nccl = true,
                                                  .nodes = WorldShape(ranks_of_nodes),
                                                  .most_bytes = sums.most_bytes,
                                                  .messages = messages})
                       .front());
}

/// One process for each rank, played by threads of this process, with one NCCL communicator over all ranks.
inline RankList nccl_ranks_of_processes(int size, double timeout_s, const NcclSums& sums) {
  const auto exchanges = std::make_shared<std::vector<std::unique_ptr<ProcessExchange>>>();
  for (const auto& wire : MemoryWires::make(size))
    exchanges->push_back(std::make_unique<ProcessExchange>(wire, kIdlePause));
  const auto devices = devices_of_ranks(size, [](int) { return DeviceKind::cuda; });
  std::vector<std::unique_ptr<Communicator>> ranks(devices->size());
  std::vector<std::exception_ptr> failures(devices->size());
  std::vector<std::thread> threads;
  for (size_t rank = 0; rank < devices->size(); ++rank) {
    // Each rank waits for the others' part of the communicator, so each needs a thread.
    threads.emplace_back([&, rank] {
      try {
        Device& device = *(*devices)[rank];
        device.enter_thread();
        ranks[rank] = std::make_unique<FinishedCommunicator>(
            devices, nccl_rank_of_process(size, timeout_s, sums, device, *(*exchanges)[rank]));
      } catch (...) {
        failures[rank] = std::current_exception();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const std::exception_ptr& failure : failures)
    if (failure) std::rethrow_exception(failure);
  RankList list(std::move(ranks));
  list.ground = exchanges;
  return list;
}

inline CommunicatorKind nccl_process_communicators(const std::string& name, const NcclSums& sums = {}) {
  if (cuda_devices().empty()) return of_nccl(gpu_communicators(name, {}));
  return of_nccl({.name = name,
                  .meets_at_start = true,
                  .make = [sums](int size, double timeout_s) { return nccl_ranks_of_processes(size, timeout_s, sums); },
                  .ranks_of_process = 1,
                  .memory = &PinnedValues::instance()});
}

/// Two real processes that share this machine's first GPU; this process is one of them. In the list, the other
/// process's rank is null.
inline CommunicatorKind nccl_pair_communicators(const std::string& name, ProcessPair& pair, const NcclSums& sums = {}) {
  const auto make = [sums, &pair](int size, double timeout_s) {
    const auto exchange = std::make_shared<ProcessExchange>(pair.new_wire(), kIdlePause);
    const auto devices = std::make_shared<std::vector<std::unique_ptr<Device>>>(static_cast<size_t>(size));
    const auto own = static_cast<size_t>(pair.process());
    (*devices)[own] = open_device({DeviceKind::cuda, 0}, {.rank = pair.process()});
    (*devices)[own]->enter_thread();
    std::vector<std::unique_ptr<Communicator>> ranks(devices->size());
    ranks[own] = std::make_unique<FinishedCommunicator>(
        devices, nccl_rank_of_process(size, timeout_s, sums, *(*devices)[own], *exchange));
    // No rank may begin its test, and perhaps abort, while the other is being made. Threads ensure this by joining.
    pair.exchange("made");
    RankList list(std::move(ranks));
    list.ground = exchange;
    return list;
  };
  return {.name = name,
          .meets_at_start = true,
          .make = make,
          .least_ranks = 2,
          .most_ranks = 2,
          .ranks_of_process = 1,
          .memory = &PinnedValues::instance(),
          .soon_s = 5};
}

}  // namespace dptrain
