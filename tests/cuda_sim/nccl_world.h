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

// Calls of several ranks that belong together.
struct Meeting {
  std::shared_ptr<Rendezvous> rendezvous;
  std::vector<Call> calls;  // by rank, or the sender's and the receiver's
};

struct World {
  std::string id;
  std::vector<std::shared_ptr<Rank>> ranks;  // null: not there yet, gone, or of another process
  // Set where other processes have ranks of it, too: then `carry` brings calls there and back.
  std::shared_ptr<SharedWorld> shared;
  std::size_t present = 0;
  ncclResult_t error = ncclSuccess;
  bool aborted = false;
  // Not complete; by number, transfers by sender and receiver first.
  std::map<std::size_t, Meeting> collectives;
  std::map<std::pair<int, int>, std::map<std::size_t, Meeting>> transfers;
  bool complete() const { return shared != nullptr ? shared->complete() : present == ranks.size(); }
};

// A rank's part in a call between processes.
struct Carried {
  std::weak_ptr<Op> op;
  Call call;
  std::uint64_t number = 0;  // of the rank's calls, from 1
  bool given = false;
  std::chrono::steady_clock::time_point begun = {};
};

struct Rank {
  std::shared_ptr<World> world;
  int rank = 0;
  int device = 0;
  bool blocking = true;
  bool finalizing = false;
  bool polled = false;  // a non-blocking communicator is "in progress" the first time one asks
  ncclResult_t error = ncclSuccess;
  std::string last_error;
  std::size_t collectives = 0;
  std::map<int, std::size_t> sends, receives;  // by peer
  std::vector<std::weak_ptr<Op>> work;
  // Oldest first: calls that all ranks make, and of each peer what is sent to it and received from it.
  std::deque<Carried> carried;
  std::map<std::pair<CallKind, int>, std::deque<Carried>> transfers;
  int ranks() const { return static_cast<int>(world->ranks.size()); }
};

// All with the lock held.
// The communicators that there are.
std::unordered_set<const ncclComm*>& communicators();
// Enters `rank` into the world of `id`; ncclInvalidUsage where another of its ranks has the device.
ncclResult_t enter_world(const std::string& id, int ranks, const std::shared_ptr<Rank>& rank);
// The communicator is gone: world and rank own each other no longer.
void leave_world(const Rank& rank);
// ncclInProgress until everyone is there; an error where that will never be. Looks for ranks of other processes.
ncclResult_t world_state(World& world);
// Blocks until it is another than ncclInProgress. Unlocks meanwhile.
ncclResult_t await_world(Lock& lock, World& world);
// Makes `op` this rank's part of the call that is its next.
void meet(const std::shared_ptr<Rank>& rank, const Call& call, const OpPtr& op);
// Lets pending calls of every rank end without running; the other ranks learn of it by their async error.
void abort_world(const std::shared_ptr<Rank>& by);
// Ranks learn of an error by their async error, and their pending calls end without running.
void fail_everyone(World& world, ncclResult_t error, const std::string& why, const Rank* except);

// nccl_processes.cc:
// Enters the ranks of this process into a world of several, whose calls are then carried by a thread. "", or why not.
std::string share_world(const std::shared_ptr<World>& world, bool make);
std::string enter_shared(World& world, const Rank& rank);
void carry_call(const std::shared_ptr<Rank>& rank, const Call& call, const OpPtr& op);
// Pending calls end without running.
void let_go(Rank& rank);

}  // namespace dptrain::cuda_sim

struct ncclComm {
  std::shared_ptr<dptrain::cuda_sim::Rank> rank;
};
