#include "nccl_world.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>

namespace dptrain::cuda_sim {
namespace {

std::map<std::string, std::shared_ptr<World>>& worlds() {
  static auto& all = *new std::map<std::string, std::shared_ptr<World>>;
  return all;
}

void close(World& world, const Meeting& meeting) {
  for (std::size_t i = 1; i < meeting.calls.size(); ++i) {
    if (match(meeting.calls[0], meeting.calls[i])) continue;
    const std::string why = "calls differ: " + describe(meeting.calls[0]) + " and " + describe(meeting.calls[i]);
    std::fprintf(stderr, "cuda_sim: nccl: %s\n", why.c_str());
    fail_everyone(world, ncclInvalidArgument, why, nullptr);
    fail_rendezvous(meeting.rendezvous);
    return;
  }
  meeting.rendezvous->run = [calls = meeting.calls] { run_calls(calls); };
}

void add(World& world, std::map<std::size_t, Meeting>& open, std::size_t number, std::size_t expected,
         std::size_t place, const Call& call, const OpPtr& op) {
  Meeting& meeting = open[number];
  if (meeting.rendezvous == nullptr) {
    meeting.rendezvous = std::make_shared<Rendezvous>();
    meeting.rendezvous->expected = expected;
    meeting.calls.resize(expected);
  }
  meeting.calls[place] = call;
  join_rendezvous(op, meeting.rendezvous);
  if (!meeting.rendezvous->complete()) return;
  const Meeting whole = std::move(meeting);
  open.erase(number);
  close(world, whole);
}

// An error of another process is an error of all.
void look_at_others(World& world) {
  if (world.shared == nullptr && !world.complete() && maker_of(world.id) == ::getpid()) {
    // Other ranks may have entered meanwhile.
    for (const auto& rank : world.ranks) {
      if (rank == nullptr) continue;
      const std::string why = share_world(rank->world, /*make=*/false);
      if (why.empty()) break;
      std::fprintf(stderr, "cuda_sim: nccl: %s\n", why.c_str());
      world.error = ncclInvalidUsage;
      world.shared->fail(ncclInvalidUsage);
      break;
    }
  }
  if (world.shared == nullptr || world.shared->error() == ncclSuccess || world.aborted) return;
  if (!world.complete()) world.error = world.shared->error();
  fail_everyone(world, world.shared->error(), "another process has failed or aborted", nullptr);
}

}  // namespace

void fail_everyone(World& world, ncclResult_t error, const std::string& why, const Rank* except) {
  for (const auto& rank : world.ranks) {
    if (rank == nullptr || rank.get() == except) continue;
    if (rank->error == ncclSuccess) rank->error = error;
    rank->last_error = why;
    let_go(*rank);
  }
}

std::unordered_set<const ncclComm*>& communicators() {
  static auto& all = *new std::unordered_set<const ncclComm*>;
  return all;
}

ncclResult_t enter_world(const std::string& id, int ranks, const std::shared_ptr<Rank>& rank) {
  std::shared_ptr<World> world = worlds()[id.c_str()];
  if (world == nullptr) {
    world = worlds()[id.c_str()] = std::make_shared<World>();
    world->id = id.c_str();
    world->ranks.resize(static_cast<std::size_t>(ranks));
  }
  rank->world = world;
  const auto place = static_cast<std::size_t>(rank->rank);
  std::string why;
  if (world->ranks.size() != static_cast<std::size_t>(ranks) || world->ranks[place] != nullptr) {
    why = "rank " + std::to_string(rank->rank) + " is there twice, or the ranks gave different sizes";
  }
  for (const auto& other : world->ranks) {
    if (other == nullptr || other->device != rank->device) continue;
    why = "Duplicate GPU detected : rank " + std::to_string(rank->rank) + " and rank " + std::to_string(other->rank) +
          " both on CUDA device " + std::to_string(rank->device);
  }
  if (why.empty()) {
    ++world->present;
    world->ranks[place] = rank;
    if (world->shared != nullptr)
      why = enter_shared(*world, *rank);
    else if (maker_of(id) != ::getpid())
      why = share_world(world, /*make=*/true);
    if (!why.empty()) world->ranks[place] = nullptr;
  }
  if (!why.empty()) {
    std::fprintf(stderr, "cuda_sim: nccl: %s\n", why.c_str());
    world->error = rank->error = ncclInvalidUsage;
    rank->last_error = why;
    fail_everyone(*world, ncclInvalidUsage, why, nullptr);
    if (world->shared != nullptr) world->shared->fail(ncclInvalidUsage);
  } else if (world->present == world->ranks.size()) {
    worlds().erase(id.c_str());
  }
  runtime().changed.notify_all();
  return world_state(*world);
}

void leave_world(const Rank& rank) {
  auto& place = rank.world->ranks;
  if (static_cast<std::size_t>(rank.rank) >= place.size()) return;
  auto& member = place[static_cast<std::size_t>(rank.rank)];
  if (member.get() == &rank) member = nullptr;
  // With several processes it isn't known how many ranks enter here.
  if (rank.world->shared != nullptr && std::ranges::none_of(place, [](const auto& other) { return other != nullptr; }))
    worlds().erase(rank.world->id);
}

ncclResult_t world_state(World& world) {
  look_at_others(world);
  if (world.error != ncclSuccess) return world.error;
  return world.complete() ? ncclSuccess : ncclInProgress;
}

ncclResult_t await_world(Lock& lock, World& world) {
  // Other processes don't notify this one, so it polls.
  while (world_state(world) == ncclInProgress) runtime().changed.wait_for(lock, std::chrono::milliseconds(1));
  return world_state(world);
}

void meet(const std::shared_ptr<Rank>& rank, const Call& call, const OpPtr& op) {
  World& world = *rank->world;
  std::erase_if(rank->work, [](const std::weak_ptr<Op>& weak) { return weak.expired(); });
  rank->work.push_back(op);
  if (world.aborted || rank->error != ncclSuccess) {
    op->rendezvous = std::make_shared<Rendezvous>();
    op->rendezvous->failed = true;
    return;
  }
  if (world.shared != nullptr) {
    carry_call(rank, call, op);
  } else if (call.kind == CallKind::kSend) {
    add(world, world.transfers[{rank->rank, call.peer}], rank->sends[call.peer]++, 2, 0, call, op);
  } else if (call.kind == CallKind::kRecv) {
    add(world, world.transfers[{call.peer, rank->rank}], rank->receives[call.peer]++, 2, 1, call, op);
  } else {
    add(world, world.collectives, rank->collectives++, world.ranks.size(), static_cast<std::size_t>(rank->rank), call,
        op);
  }
}

void abort_world(const std::shared_ptr<Rank>& by) {
  World& world = *by->world;
  world.aborted = true;
  if (world.shared != nullptr) world.shared->fail(ncclRemoteError);
  let_go(*by);
  if (world.error == ncclSuccess && !world.complete()) world.error = ncclRemoteError;
  fail_everyone(world, ncclRemoteError, "rank " + std::to_string(by->rank) + " aborted", by.get());
  for (auto& [number, meeting] : world.collectives) fail_rendezvous(meeting.rendezvous);
  for (auto& [pair, meetings] : world.transfers) {
    for (auto& [number, meeting] : meetings) fail_rendezvous(meeting.rendezvous);
  }
  world.collectives.clear();
  world.transfers.clear();
  runtime().changed.notify_all();
}

}  // namespace dptrain::cuda_sim
