// Communicators: ranks that find each other by their unique id, and calls that find each other by their order.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include "nccl_call.h"
#include "nccl_shared.h"
#include "runtime.h"

namespace dptrain::cuda_sim {

struct Rank;

// The calls of several ranks that belong together.
struct Meeting {
  std::shared_ptr<Rendezvous> rendezvous;
  std::vector<Call> calls;  // by rank, or the sender's and the receiver's
};

struct World {
  std::string id;
  std::vector<std::shared_ptr<Rank>> ranks;  // null: not entered yet, gone, or in another process
  // Set where other processes also have ranks of the world: then `carry` moves calls between the processes.
  std::shared_ptr<SharedWorld> shared;
  std::size_t present = 0;
  ncclResult_t error = ncclSuccess;
  bool aborted = false;
  // Meetings that aren't complete, by number; transfers first by sender and receiver.
  std::map<std::size_t, Meeting> collectives;
  std::map<std::pair<int, int>, std::map<std::size_t, Meeting>> transfers;
  bool complete() const { return shared != nullptr ? shared->complete() : present == ranks.size(); }
};

// A rank's part in a call between processes.
struct Carried {
  std::weak_ptr<Op> op;
  Call call;
  std::uint64_t number = 0;  // counts the rank's calls from 1
  bool given = false;
  std::chrono::steady_clock::time_point begun = {};
};

struct Rank {
  std::shared_ptr<World> world;
  int rank = 0;
  int device = 0;
  bool blocking = true;
  bool finalizing = false;
  bool polled = false;  // a non-blocking communicator is "in progress" at the first query
  ncclResult_t error = ncclSuccess;
  std::string last_error;
  std::size_t collectives = 0;
  std::map<int, std::size_t> sends, receives;  // by peer
  std::vector<std::weak_ptr<Op>> work;
  // Oldest first: the calls that all ranks make, and for each peer what is sent to it and received from it.
  std::deque<Carried> carried;
  std::map<std::pair<CallKind, int>, std::deque<Carried>> transfers;
  int ranks() const { return static_cast<int>(world->ranks.size()); }
};

// All functions below are called with the lock held.
// The existing communicators.
std::unordered_set<const ncclComm*>& communicators();
// Enters `rank` into the world of `id`; ncclInvalidUsage if another of its ranks uses the same device.
ncclResult_t enter_world(const std::string& id, int ranks, const std::shared_ptr<Rank>& rank);
// Called when a communicator is destroyed: world and rank no longer own each other.
void leave_world(const Rank& rank);
// ncclInProgress until all ranks have entered; an error if they never will. Looks for ranks of other processes.
ncclResult_t world_state(World& world);
// Blocks until the state is no longer ncclInProgress. Unlocks while it waits.
ncclResult_t await_world(Lock& lock, World& world);
// Makes `op` this rank's part of the rank's next call.
void meet(const std::shared_ptr<Rank>& rank, const Call& call, const OpPtr& op);
// Ends pending calls of every rank without running them. The other ranks see it as their async error.
void abort_world(const std::shared_ptr<Rank>& by);
// Gives the ranks an async error, and ends their pending calls without running them.
void fail_everyone(World& world, ncclResult_t error, const std::string& why, const Rank* except);

// Defined in nccl_processes.cc:
// Enters this process's ranks into a world of several processes. A thread then carries the world's calls. Returns "",
// or why that failed.
std::string share_world(const std::shared_ptr<World>& world, bool make);
std::string enter_shared(World& world, const Rank& rank);
void carry_call(const std::shared_ptr<Rank>& rank, const Call& call, const OpPtr& op);
// Ends pending calls without running them.
void let_go(Rank& rank);

}  // namespace dptrain::cuda_sim

struct ncclComm {
  std::shared_ptr<dptrain::cuda_sim::Rank> rank;
};
