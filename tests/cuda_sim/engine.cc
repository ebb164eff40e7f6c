// Work is run as late as CUDA allows: only what a waiting thread needs, and of the work that is ready the last
// submitted first.
#include <algorithm>
#include <queue>
#include <thread>

#include "runtime.h"

namespace dptrain::cuda_sim {
namespace {

bool ready(const Op& op) {
  if (op.state != OpState::kPending || op.unmet != 0 || op.held) return false;
  if (op.rendezvous == nullptr || op.rendezvous->failed) return true;
  const auto& members = op.rendezvous->members;
  return op.rendezvous->complete() &&
         std::all_of(members.begin(), members.end(), [](const OpPtr& member) { return member->unmet == 0; });
}

struct EarlierFirst {
  bool operator()(const OpPtr& a, const OpPtr& b) const { return a->sequence < b->sequence; }
};

// The operations that must run before `targets` are done, and those of them that can run now. Each operation has the
// number of the last search that reached it. If another thread's search has reached it since, this search finds fewer
// successors, and a waiting thread searches again.
class Needed {
 public:
  explicit Needed(const std::vector<OpPtr>& targets) {
    // Pointers into the owning vectors, which don't change before the end.
    std::vector<const OpPtr*> pending;
    const auto add = [&pending](const std::vector<OpPtr>& ops) {
      for (const OpPtr& op : ops) pending.push_back(&op);
    };
    add(targets);
    while (!pending.empty()) {
      const OpPtr& op = *pending.back();
      pending.pop_back();
      if (op == nullptr || op->state != OpState::kPending || op->needed_by == search_) continue;
      op->needed_by = search_;
      add(op->predecessors);
      if (op->rendezvous != nullptr && !op->rendezvous->failed) add(op->rendezvous->members);
      offer(op);
    }
  }

  OpPtr take() {
    while (!ready_.empty()) {
      const OpPtr op = ready_.top();
      ready_.pop();
      if (ready(*op)) return op;  // another thread may have taken it
    }
    return nullptr;
  }
  void offer_successors(const Op& op) {
    for (const auto& weak : op.successors) {
      const OpPtr successor = weak.lock();
      if (successor == nullptr || successor->needed_by != search_) continue;
      offer(successor);
      // A collective becomes ready with its last member, so offering this one is enough.
    }
  }

 private:
  void offer(const OpPtr& op) {
    if (ready(*op)) ready_.push(op);
  }
  const std::uint64_t search_ = runtime().next_search++;
  std::priority_queue<OpPtr, std::vector<OpPtr>, EarlierFirst> ready_;
};

void complete(const OpPtr& op) {
  op->state = OpState::kDone;
  op->done_at = std::chrono::steady_clock::now();
  for (const auto& weak : op->successors) {
    if (const OpPtr successor = weak.lock()) --successor->unmet;
  }
  op->predecessors.clear();
  op->body = nullptr;
}

void run_rendezvous(Lock& lock, const OpPtr& op) {
  const auto rendezvous = op->rendezvous;
  if (rendezvous->failed) {
    complete(op);
    op->rendezvous = nullptr;
    return;
  }
  const auto members = rendezvous->members;
  for (const OpPtr& member : members) member->state = OpState::kRunning;
  lock.unlock();
  rendezvous->run();
  lock.lock();
  for (const OpPtr& member : members) {
    complete(member);
    member->rendezvous = nullptr;
  }
  rendezvous->members.clear();  // breaks the cycle of ownership
}

// Runs a ready operation, and with it a collective's other members. Returns the finished operations.
std::vector<OpPtr> run(Lock& lock, const OpPtr& op) {
  if (op->rendezvous != nullptr) {
    std::vector<OpPtr> done = op->rendezvous->failed ? std::vector<OpPtr>{op} : op->rendezvous->members;
    run_rendezvous(lock, op);
    runtime().changed.notify_all();
    return done;
  }
  op->state = OpState::kRunning;
  Device& device = runtime().devices[static_cast<std::size_t>(op->device)];
  if (op->body && device.sticky == cudaSuccess) {
    Body body = std::move(op->body);
    lock.unlock();
    const cudaError_t error = body();
    body = nullptr;
    lock.lock();
    if (error != cudaSuccess && device.sticky == cudaSuccess) device.sticky = error;
  }
  complete(op);
  runtime().changed.notify_all();
  return {op};
}

bool all_done(const std::vector<OpPtr>& targets) {
  return std::all_of(targets.begin(), targets.end(),
                     [](const OpPtr& op) { return op == nullptr || op->state == OpState::kDone; });
}

}  // namespace

OpPtr make_op(int device, Body body) {
  auto op = std::make_shared<Op>();
  op->sequence = runtime().next_sequence++;
  op->device = device;
  op->body = std::move(body);
  runtime().changed.notify_all();
  return op;
}

void precede(const OpPtr& op, const OpPtr& predecessor) {
  if (predecessor == nullptr || predecessor->state == OpState::kDone) return;
  predecessor->successors.push_back(op);
  op->predecessors.push_back(predecessor);
  ++op->unmet;
}

void join_rendezvous(const OpPtr& op, const std::shared_ptr<Rendezvous>& rendezvous) {
  op->rendezvous = rendezvous;
  rendezvous->members.push_back(op);
  runtime().changed.notify_all();
}

void fail_rendezvous(const std::shared_ptr<Rendezvous>& rendezvous) {
  rendezvous->failed = true;
  rendezvous->members.clear();
  runtime().changed.notify_all();
}

void wait_for(Lock& lock, const std::vector<OpPtr>& targets) {
  while (!all_done(targets)) {
    Needed needed(targets);
    bool ran = false;
    while (const OpPtr op = needed.take()) {
      for (const OpPtr& done : run(lock, op)) needed.offer_successors(*done);
      ran = true;
    }
    if (!ran && !all_done(targets)) runtime().changed.wait(lock);
  }
}

void make_progress(Lock& lock, const OpPtr& target) {
  Needed needed({target});
  if (const OpPtr op = needed.take()) {
    run(lock, op);
    return;
  }
  lock.unlock();  // lets another thread run
  std::this_thread::yield();
  lock.lock();
}

}  // namespace dptrain::cuda_sim
