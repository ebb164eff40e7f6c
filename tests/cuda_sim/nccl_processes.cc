// Calls of a world of several processes. As soon as a stream has reached a call, a thread gives the rank's part to the
// others, as a GPU would by itself. The call runs once all ranks have given their parts.
#include <cstdio>
#include <cstdlib>
#include <string_view>
#include <thread>

#include "nccl_world.h"

namespace dptrain::cuda_sim {
namespace {

constexpr auto kPause = std::chrono::microseconds(100);
// The time after which a call fails if other processes don't arrive; NCCL would wait forever.
constexpr auto kPatience = std::chrono::seconds(300);

void fail_world(World& world, ncclResult_t error, const std::string& why) {
  std::fprintf(stderr, "cuda_sim: nccl: %s\n", why.c_str());
  fail_everyone(world, error, why, nullptr);
  world.shared->fail(error);
}

// Gives the others what the call sends, without the lock.
template <class Give>
void give(Lock& lock, Carried& carried, const Give& give_to) {
  carried.given = true;
  lock.unlock();
  give_to();
  lock.lock();
}

void let_run(const OpPtr& op, Body body) {
  op->body = std::move(body);
  op->held = false;
  runtime().changed.notify_all();
}

bool agree(World& world, const Call& a, const Call& b) {
  if (match(a, b)) return true;
  fail_world(world, ncclInvalidArgument, "calls differ: " + describe(a) + " and " + describe(b));
  return false;
}

// Makes one step of a collective that its stream has reached. Returns whether there was one to make.
bool go_on_with_all(Lock& lock, World& world, const Rank& rank, Carried& carried, const OpPtr& op) {
  const std::shared_ptr<SharedWorld> shared = world.shared;
  const std::uint64_t number = carried.number;
  if (!carried.given) {
    if (!shared->may_give(number)) return false;
    give(lock, carried, [&, call = carried.call] { shared->give(rank.rank, number, call); });
    return true;
  }
  if (!shared->all_gave(number)) return false;
  const std::vector<Call> calls = shared->calls(rank.rank, carried.call);
  for (const Call& call : calls)
    if (!agree(world, calls[0], call)) return true;
  let_run(op, [shared, number, calls, own = rank.rank] {
    run_calls(calls);
    shared->took(own, number);
    return cudaSuccess;
  });
  return true;
}

// Makes one step of a transfer. Its sender waits for the receiver, as without any buffer between them.
bool go_on_with_transfer(Lock& lock, World& world, const Rank& rank, Carried& carried, const OpPtr& op) {
  const std::shared_ptr<SharedWorld> shared = world.shared;
  const std::uint64_t number = carried.number;
  const Call call = carried.call;
  if (call.kind == CallKind::kSend) {
    const SharedWorld::Pair pair{rank.rank, call.peer};
    if (!carried.given) {
      if (!shared->may_send(pair, number)) return false;
      give(lock, carried, [&] { shared->send(pair, number, call); });
      return true;
    }
    if (!shared->is_received(pair, number)) return false;
    let_run(op, [] { return cudaSuccess; });
    return true;
  }
  const SharedWorld::Pair pair{call.peer, rank.rank};
  if (!shared->is_sent(pair, number)) return false;
  const Call sent = shared->sent(pair);
  if (!agree(world, sent, call)) return true;
  let_run(op, [shared, pair, number, sent, call] {
    run_calls({sent, call});
    shared->received(pair, number);
    return cudaSuccess;
  });
  return true;
}

// Makes one step of the oldest call of a line. Returns whether there was one to make.
bool go_on(Lock& lock, World& world, const Rank& rank, std::deque<Carried>& line) {
  if (line.empty()) return false;
  Carried& carried = line.front();
  const OpPtr op = carried.op.lock();
  if (op == nullptr || op->state == OpState::kDone) {
    line.pop_front();
    return true;
  }
  if (op->state == OpState::kRunning) return false;
  if (!op->held || op->unmet > 0) {
    // Runs earlier work of the stream, then the call itself.
    const int unmet = op->unmet;
    make_progress(lock, op);
    return op->unmet != unmet || op->state == OpState::kDone;
  }
  if (std::chrono::steady_clock::now() - carried.begun > kPatience) {
    fail_world(world, ncclRemoteError, describe(carried.call) + ": other processes didn't come");
    return true;
  }
  return &line == &rank.carried ? go_on_with_all(lock, world, rank, carried, op)
                                : go_on_with_transfer(lock, world, rank, carried, op);
}

// Runs as long as this process has ranks of the world.
void carry(const std::shared_ptr<World>& world) {
  Lock lock(runtime().mutex);
  while (true) {
    bool there = false, busy = false, moved = false;
    for (std::size_t r = 0; r < world->ranks.size(); ++r) {
      const std::shared_ptr<Rank> rank = world->ranks[r];
      if (rank == nullptr) continue;
      there = true;
      moved |= go_on(lock, *world, *rank, rank->carried);
      busy |= !rank->carried.empty();
      // Lines are added, but never removed.
      for (auto& [peer, line] : rank->transfers) {
        moved |= go_on(lock, *world, *rank, line);
        busy |= !line.empty();
      }
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
  Carried carried{.op = op, .call = call, .begun = std::chrono::steady_clock::now()};
  if (call.kind == CallKind::kSend || call.kind == CallKind::kRecv) {
    carried.number = ++(call.kind == CallKind::kSend ? rank->sends : rank->receives)[call.peer];
    rank->transfers[{call.kind, call.peer}].push_back(carried);
  } else {
    carried.number = ++rank->collectives;
    rank->carried.push_back(carried);
  }
  runtime().changed.notify_all();
}

void let_go(Rank& rank) {
  const auto let_go_of = [](std::deque<Carried>& line) {
    for (const Carried& carried : line)
      if (const OpPtr op = carried.op.lock()) op->held = false;
    line.clear();
  };
  let_go_of(rank.carried);
  for (auto& [peer, line] : rank.transfers) let_go_of(line);
  runtime().changed.notify_all();
}

}  // namespace dptrain::cuda_sim
