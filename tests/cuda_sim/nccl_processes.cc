// Calls of a world of several processes: a thread gives each rank's part to the others as soon as its stream has come
// to it, as a GPU would by itself, and lets the call run once all have given theirs.
#include <cstdio>
#include <cstdlib>
#include <string_view>
#include <thread>

#include "nccl_world.h"

namespace dptrain::cuda_sim {
namespace {

constexpr auto kPause = std::chrono::microseconds(100);
// After which a call fails whose other processes don't come: NCCL would wait for ever.
constexpr auto kPatience = std::chrono::seconds(300);

void fail_world(World& world, ncclResult_t error, const std::string& why) {
  std::fprintf(stderr, "cuda_sim: nccl: %s\n", why.c_str());
  fail_everyone(world, error, why, nullptr);
  world.shared->fail(error);
}

void give(Lock& lock, World& world, const Rank& rank, Carried& carried) {
  const std::shared_ptr<SharedWorld> shared = world.shared;
  const Call call = carried.call;
  const std::uint64_t number = carried.number;
  carried.given = true;
  lock.unlock();
  shared->give(rank.rank, number, call);
  lock.lock();
}

// All have given: the call may run.
void let_run(World& world, const Rank& rank, const Carried& carried, const OpPtr& op) {
  const std::vector<Call> calls = world.shared->calls(rank.rank, carried.call);
  for (const Call& call : calls) {
    if (match(calls[0], call)) continue;
    return fail_world(world, ncclInvalidArgument, "calls differ: " + describe(calls[0]) + " and " + describe(call));
  }
  op->body = [shared = world.shared, number = carried.number, calls, own = rank.rank] {
    run_calls(calls);
    shared->took(own, number);
    return cudaSuccess;
  };
  op->held = false;
  runtime().changed.notify_all();
}

// One step of a rank's oldest call. Whether there was one to do.
bool go_on(Lock& lock, World& world, Rank& rank) {
  if (rank.carried.empty()) return false;
  Carried& carried = rank.carried.front();
  const OpPtr op = carried.op.lock();
  if (op == nullptr || op->state == OpState::kDone) {
    rank.carried.pop_front();
    return true;
  }
  if (op->state == OpState::kRunning) return false;
  if (!op->held || op->unmet > 0) {
    // What the stream has before it, then the call itself.
    const int unmet = op->unmet;
    make_progress(lock, op);
    return op->unmet != unmet || op->state == OpState::kDone;
  }
  if (std::chrono::steady_clock::now() - carried.begun > kPatience) {
    fail_world(world, ncclRemoteError, describe(carried.call) + ": other processes didn't come");
  } else if (!carried.given && world.shared->may_give(carried.number)) {
    give(lock, world, rank, carried);
  } else if (carried.given && world.shared->all_gave(carried.number)) {
    let_run(world, rank, carried, op);
  } else {
    return false;
  }
  return true;
}

// As long as this process has ranks of the world.
void carry(const std::shared_ptr<World>& world) {
  Lock lock(runtime().mutex);
  while (true) {
    bool there = false, busy = false, moved = false;
    for (std::size_t r = 0; r < world->ranks.size(); ++r) {
      const std::shared_ptr<Rank> rank = world->ranks[r];
      if (rank == nullptr) continue;
      there = true;
      moved |= go_on(lock, *world, *rank);
      busy |= !rank->carried.empty();
    }
    if (!there) return;
    world_state(*world);
    if (!moved) runtime().changed.wait_for(lock, busy ? kPause : 100 * kPause);
  }
}

}  // namespace

std::string enter_shared(World& world, const Rank& rank) {
  const std::string why = world.shared->enter(rank.rank, rank.device);
  const char* debug = std::getenv("NCCL_DEBUG");
  if (why.empty() && debug != nullptr && std::string_view(debug) == "INFO")
    std::fprintf(stderr, "NCCL INFO ncclCommInitRankConfig rank %d nranks %zu cudaDev %d - Init START\n", rank.rank,
                 world.ranks.size(), rank.device);
  return why;
}

std::string share_world(const std::shared_ptr<World>& world, bool make) {
  world->shared = SharedWorld::open(world->id, static_cast<int>(world->ranks.size()), make);
  if (world->shared == nullptr) return make ? "no file to share with other processes can be made" : "";
  for (const auto& rank : world->ranks) {
    if (rank == nullptr) continue;
    if (const std::string why = enter_shared(*world, *rank); !why.empty()) return why;
  }
  std::thread(carry, world).detach();
  return {};
}

void carry_call(const std::shared_ptr<Rank>& rank, const Call& call, const OpPtr& op) {
  op->held = true;
  rank->carried.push_back(
      {.op = op, .call = call, .number = ++rank->collectives, .begun = std::chrono::steady_clock::now()});
  runtime().changed.notify_all();
}

void let_go(Rank& rank) {
  for (const Carried& carried : rank.carried)
    if (const OpPtr op = carried.op.lock()) op->held = false;
  rank.carried.clear();
  runtime().changed.notify_all();
}

}  // namespace dptrain::cuda_sim
