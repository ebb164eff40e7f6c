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
  int process = 0;  ///< the other one
  void* data = nullptr;
  int64_t bytes = 0;
};

/// What follows on each other in one process: sums and copies in its memory, then messages.
struct ExchangeStage {
  std::vector<TreeSum> sums = {};
  std::vector<ExchangeMessage> messages = {};
};

/// An operation of ranks of several processes, as one process takes part in it. All have as many stages, and the
/// messages of a stage have their other ends in the same stage there.
///
/// Each process adds up the subtrees that it has whole and sends their sums, never more of them; whoever needs the
/// whole sum adds these up in the tree's order. So threads, processes and any mixture of both end in the same bits.
///   all_reduce      of little, or between two processes of a subtree each: everything to everybody, one round.
///                   Otherwise process q adds up the q-th part of it for all, which then get it: twice (P-1)/P of the
///                   buffer leave each of P processes, as in a ring, in two rounds
///   reduce          all subtrees to the root's process
///   reduce_scatter  each process is sent its ranks' parts of all subtrees
///   broadcast       from the root's process to each other
///   all_gather      each rank's part to each other process
///   barrier         log2(P) rounds, in which each process hears of twice as many (Hensgen, Finkel, Manber, 1988)
struct ExchangePlan {
  std::vector<ExchangeStage> stages;
  /// What sums and messages between the ranks' buffers lie in.
  std::vector<StagingPool::Memory> staging = {};
};

/// `calls`: those of this process's ranks, in order, not a gather, a scatter or a message.
ExchangePlan plan_exchange(std::span<const CommCall> calls, const WorldShape& world, int process, StagingPool& pool);

/// The call of a rank whose message goes to, or comes from, another process. It goes by way of staging, so that a rank
/// that gives up has its buffer back.
ExchangePlan plan_message(const CommCall& call, int process, StagingPool& pool);

}  // namespace dptrain
