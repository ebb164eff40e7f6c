#include "grid.h"

#include <cxxabi.h>
#include <dlfcn.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <sstream>
#include <string_view>

#include "executor.h"

__thread uint3 threadIdx = {0, 0, 0};
__thread uint3 blockIdx = {0, 0, 0};
__thread dim3 blockDim;
__thread dim3 gridDim;

namespace dptrain::cuda_sim {
namespace {

thread_local Executor executor;

}  // namespace

Fiber* Executor::take_fiber() {
  if (free_fibers_.empty()) {
    fibers_.push_back(std::make_unique<Fiber>());
    free_fibers_.push_back(fibers_.back().get());
  }
  Fiber* fiber = free_fibers_.back();
  free_fibers_.pop_back();
  fiber->reset([] { executor.run_new_threads(); });
  return fiber;
}

void Executor::run_new_threads() {
  // A waiting thread's stack is not in the pool, so this fiber stays the same in the whole loop.
  Fiber* self = threads_[nth(started_)].fiber;
  while (started_ < threads_.size()) {
    const unsigned thread = nth(started_++);
    threads_[thread].fiber = self;
    threads_[thread].state = ThreadState::kReady;
    place(thread);
    grid_->thread();
    // Back here, perhaps after waits: current_ is this thread.
    threads_[current_].state = ThreadState::kDone;
    ++done_;
  }
  self->leave();
}

bool Executor::resume_ready() {
  if (ready_ == 0) return false;
  for (unsigned i = 0; i < started_ && error_.empty(); ++i) {
    const unsigned t = nth(i);
    if (threads_[t].state != ThreadState::kReady) continue;
    --ready_;
    Fiber* fiber = threads_[t].fiber;
    place(t);
    fiber->enter();
    if (threads_[t].state == ThreadState::kDone) free_fibers_.push_back(fiber);
  }
  return true;
}

void Executor::run_block() {
  std::fill(threads_.begin(), threads_.end(), Thread{});
  started_ = done_ = at_barrier_ = ready_ = 0;
  const auto count = static_cast<unsigned>(threads_.size());
  // A ready thread of an earlier warp waits until every thread of the block has begun, which is a legal schedule.
  while (started_ < count && error_.empty()) {
    Fiber* fiber = take_fiber();
    threads_[nth(started_)].fiber = fiber;
    fiber->enter();
    if (threads_[current_].state == ThreadState::kDone) free_fibers_.push_back(fiber);
  }
  while (done_ < count && error_.empty()) {
    if (!resume_ready() && !release_barrier()) fail(stuck());
  }
}

std::string Executor::run(const Grid& grid) {
  grid_ = &grid;
  const char* order = std::getenv("DPTRAIN_CUDA_SIM_ORDER");
  reverse_ = order != nullptr && std::string_view(order) == "reverse";
  blockDim = grid.block;
  gridDim = grid.grid;
  error_.clear();
  places_.clear();
  for (unsigned z = 0; z < grid.block.z; ++z) {
    for (unsigned y = 0; y < grid.block.y; ++y) {
      for (unsigned x = 0; x < grid.block.x; ++x) places_.push_back({x, y, z});
    }
  }
  threads_.resize(places_.size());
  const std::uint64_t blocks = std::uint64_t{grid.grid.x} * grid.grid.y * grid.grid.z;
  for (std::uint64_t i = 0; i < blocks && error_.empty(); ++i) {
    const std::uint64_t b = reverse_ ? blocks - 1 - i : i;
    blockIdx = {static_cast<unsigned>(b % grid.grid.x), static_cast<unsigned>(b / grid.grid.x % grid.grid.y),
                static_cast<unsigned>(b / grid.grid.x / grid.grid.y)};
    run_block();
  }
  if (!error_.empty()) {  // stacks of threads that will never continue
    free_fibers_.clear();
    for (const auto& fiber : fibers_) free_fibers_.push_back(fiber.get());
  }
  grid_ = nullptr;
  return error_;
}

std::string kernel_name(const void* kernel) {
  Dl_info info{};
  if (dladdr(kernel, &info) != 0 && info.dli_sname != nullptr && info.dli_saddr == kernel) {
    int status = 0;
    const std::unique_ptr<char, void (*)(void*)> name(abi::__cxa_demangle(info.dli_sname, nullptr, nullptr, &status),
                                                      std::free);
    return status == 0 ? name.get() : info.dli_sname;
  }
  std::ostringstream out;
  out << "kernel at " << kernel;
  return out.str();
}

std::string run_grid(const Grid& grid) { return executor.run(grid); }

Votes barrier(bool predicate) { return executor.barrier(predicate); }
std::uint64_t exchange(unsigned mask, std::uint64_t value, int source_lane, Exchange kind) {
  return executor.exchange(mask, value, source_lane, kind);
}
int lane() { return executor.lane(); }
void fault(const char* what) { executor.fault(what); }

}  // namespace dptrain::cuda_sim
