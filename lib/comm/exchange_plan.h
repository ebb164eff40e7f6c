#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "comm/comm_call.h"
#include "comm/staging_pool.h"
#include "comm/world_shape.h"

namespace dptrain {

/// A message of an operation between this process and another.
struct ExchangeMessage {
  bool sends = false;
  int process = 0;  ///< the other process
  void* data = nullptr;
  int64_t bytes = 0;
};

/// One stage of an operation in one process: sums and copies in its memory, then messages.
struct ExchangeStage {
  std::vector<TreeSum> sums = {};
  std::vector<ExchangeMessage> messages = {};
};

/// One process's part in an operation over ranks of several processes. All processes have the same number of stages.
/// Both ends of a message are in the same stage.
///
/// Each process adds up the subtrees whose ranks it all has, and sends the sums of these subtrees. It never combines
/// them further: a process that needs the whole sum adds up the subtrees' sums in the tree's order. So threads,
/// processes and any mixture of both give bit-identical results.
///   all_reduce      a small buffer, or two processes with one subtree each: each sends everything to all others, in
///                   one round. In all other cases process q adds up the q-th part for all and sends it to all:
///                   2(P-1)/P of the buffer leaves each of P processes, as in a ring, in two rounds
///   reduce          all subtrees go to the root's process
///   reduce_scatter  each process receives its ranks' parts of all subtrees
///   broadcast       from the root's process to every other process
///   all_gather      each rank's part goes to every other process
///   barrier         log2(P) rounds; in each round a process hears of twice as many (Hensgen, Finkel, Manber, 1988)
struct ExchangePlan {
  std::vector<ExchangeStage> stages;
  /// Memory for sums and messages between the ranks' buffers.
  std::vector<StagingPool::Memory> staging = {};
};

/// Plans a collective except gather and scatter. `calls` are those of this process's ranks, in order.
ExchangePlan plan_exchange(std::span<const CommCall> calls, const WorldShape& world, int process, StagingPool& pool);

/// Plans a message that goes to, or comes from, another process. `call` is the call of this process's rank. The message
/// goes through staging memory, so that a rank that gives up can reuse its buffer at once.
ExchangePlan plan_message(const CommCall& call, int process, StagingPool& pool);

}  // namespace dptrain
