#include "grid.h"

#include <cuda_sim_device.h>
#include <cxxabi.h>
#include <dlfcn.h>

#include <memory>
#include <sstream>
#include <string_view>
#include <vector>

#include "fiber.h"

__thread uint3 threadIdx = {0, 0, 0};
__thread uint3 blockIdx = {0, 0, 0};
__thread dim3 blockDim;
__thread dim3 gridDim;

namespace dptrain::cuda_sim {
namespace {

constexpr unsigned kWarp = 32;

enum class State : unsigned char { kNew, kReady, kAtBarrier, kInExchange, kDone };

struct Thread {
  State state = State::kNew;
  bool predicate = false;
  Exchange kind = Exchange::kSync;
  unsigned mask = 0;
  int source_lane = 0;
  std::uint64_t value = 0;  // given, then received
  Fiber* fiber = nullptr;
};

// A host thread's executor. Threads of a block that end without waiting share one stack, one after the other; a thread
// that waits keeps the stack it is on, and the next thread begins on another.
class Executor {
 public:
  std::string run(const Grid& grid);

  Votes barrier(bool predicate);
  std::uint64_t exchange(unsigned mask, std::uint64_t value, int source_lane, Exchange kind);
  int lane() const { return static_cast<int>(current_ % kWarp); }
  bool running() const { return grid_ != nullptr; }

 private:
  void run_block();
  void run_new_threads();  // on a fiber
  void place(unsigned thread) {
    current_ = thread;
    threadIdx = places_[thread];
  }
  unsigned nth(unsigned i) const { return reverse_ ? static_cast<unsigned>(threads_.size()) - 1 - i : i; }
  bool resume_ready();
  bool release_barrier();
  void complete_exchange(unsigned warp, unsigned mask);
  void fail(const std::string& what);
  void suspend(State state);
  std::string position(unsigned thread) const;
  std::string stuck() const;
  Fiber* take_fiber();

  const Grid* grid_ = nullptr;
  bool reverse_ = false;
  std::vector<uint3> places_;
  std::vector<Thread> threads_;
  unsigned started_ = 0;
  unsigned done_ = 0;
  unsigned at_barrier_ = 0;
  unsigned ready_ = 0;
  unsigned current_ = 0;
  Votes votes_;
  std::string error_;
  std::vector<std::unique_ptr<Fiber>> fibers_;
  std::vector<Fiber*> free_fibers_;
};

thread_local Executor executor;

std::string text(const uint3& place) {
  std::ostringstream out;
  out << '(' << place.x << ", " << place.y << ", " << place.z << ')';
  return out.str();
}

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

std::string Executor::position(unsigned thread) const {
  return kernel_name(grid_->kernel) + " block " + text(blockIdx) + " thread " + text(places_[thread]);
}

void Executor::fail(const std::string& what) {
  if (error_.empty()) error_ = what;
}

void Executor::suspend(State state) {
  Thread& thread = threads_[current_];
  thread.state = state;
  thread.fiber->leave();
}

Votes Executor::barrier(bool predicate) {
  threads_[current_].predicate = predicate;
  ++at_barrier_;
  suspend(State::kAtBarrier);
  return votes_;
}

std::uint64_t Executor::exchange(unsigned mask, std::uint64_t value, int source_lane, Exchange kind) {
  const unsigned self = current_;
  Thread& thread = threads_[self];
  thread.mask = mask;
  thread.value = value;
  thread.source_lane = source_lane;
  thread.kind = kind;
  const unsigned first = self / kWarp * kWarp;
  // Lanes past the block's end do not exist; CUDA lets a full mask stand for the lanes there are.
  const unsigned lanes = std::min(kWarp, static_cast<unsigned>(threads_.size()) - first);
  const unsigned existing = lanes == kWarp ? ~0u : (1u << lanes) - 1;
  if ((mask >> (self % kWarp) & 1) == 0) {
    fail(position(self) + ": a warp exchange whose mask does not name the calling lane");
    suspend(State::kInExchange);
  }
  for (unsigned rest = mask & existing & ~(1u << (self % kWarp)); rest != 0; rest &= rest - 1) {
    const Thread& other = threads_[first + static_cast<unsigned>(std::countr_zero(rest))];
    if (other.state != State::kInExchange || other.mask != mask) {
      suspend(State::kInExchange);
      return thread.value;
    }
    if (other.kind != kind) {
      fail(position(self) + ": lanes of one mask are in different warp exchanges");
      suspend(State::kInExchange);
    }
  }
  complete_exchange(first, mask & existing);
  return thread.value;
}

// The last lane goes on without a switch; the others become ready.
void Executor::complete_exchange(unsigned first, unsigned mask) {
  std::uint64_t given[kWarp];
  std::uint64_t ballot = 0;
  for (unsigned rest = mask; rest != 0; rest &= rest - 1) {
    const auto lane = static_cast<unsigned>(std::countr_zero(rest));
    given[lane] = threads_[first + lane].value;
    if (given[lane] != 0) ballot |= 1ull << lane;
  }
  for (unsigned rest = mask; rest != 0; rest &= rest - 1) {
    const auto lane = static_cast<unsigned>(std::countr_zero(rest));
    Thread& thread = threads_[first + lane];
    if (thread.kind == Exchange::kBallot) {
      thread.value = ballot;
    } else if (thread.kind == Exchange::kShuffle) {
      const auto source = static_cast<unsigned>(thread.source_lane) % kWarp;
      // The value of a lane outside the mask is undefined: all ones, a NaN.
      thread.value = (mask >> source & 1) != 0 ? given[source] : ~0ull;
    }
    if (first + lane != current_) {
      thread.state = State::kReady;
      ++ready_;
    }
  }
}

void Executor::run_new_threads() {
  // The stack of a thread that waits is not in the pool, so this fiber stays the same in the whole loop.
  Fiber* self = threads_[nth(started_)].fiber;
  while (started_ < threads_.size()) {
    const unsigned thread = nth(started_++);
    threads_[thread].fiber = self;
    threads_[thread].state = State::kReady;
    place(thread);
    grid_->thread();
    // Here again, perhaps after waits: current_ is this thread.
    threads_[current_].state = State::kDone;
    ++done_;
  }
  self->leave();
}

bool Executor::resume_ready() {
  if (ready_ == 0) return false;
  for (unsigned i = 0; i < started_ && error_.empty(); ++i) {
    const unsigned t = nth(i);
    if (threads_[t].state != State::kReady) continue;
    --ready_;
    Fiber* fiber = threads_[t].fiber;
    place(t);
    fiber->enter();
    if (threads_[t].state == State::kDone) free_fibers_.push_back(fiber);
  }
  return true;
}

bool Executor::release_barrier() {
  if (at_barrier_ == 0 || at_barrier_ + done_ != threads_.size()) return false;
  votes_ = {};
  for (Thread& thread : threads_) {
    if (thread.state != State::kAtBarrier) continue;
    ++votes_.total;
    votes_.yes += thread.predicate;
    thread.state = State::kReady;
    ++ready_;
  }
  at_barrier_ = 0;
  return true;
}

std::string Executor::stuck() const {
  std::ostringstream out;
  unsigned exchanging = 0, shown = 0;
  for (unsigned t = 0; t < threads_.size(); ++t) {
    if (threads_[t].state != State::kInExchange) continue;
    ++exchanging;
    if (shown++ == 0) {
      out << position(t) << ": a warp exchange with mask 0x" << std::hex << threads_[t].mask << std::dec
          << " waits for ever:";
      for (unsigned lane = 0; lane < kWarp; ++lane) {
        const unsigned other = t / kWarp * kWarp + lane;
        if ((threads_[t].mask >> lane & 1) == 0 || other >= threads_.size()) continue;
        if (threads_[other].state == State::kDone) out << " lane " << lane << " has returned;";
        if (threads_[other].state == State::kAtBarrier) out << " lane " << lane << " is at __syncthreads;";
        if (threads_[other].state == State::kInExchange && threads_[other].mask != threads_[t].mask) {
          out << " lane " << lane << " gave mask 0x" << std::hex << threads_[other].mask << std::dec << ';';
        }
      }
    }
  }
  out << " (" << exchanging << " threads in warp exchanges, " << at_barrier_ << " at __syncthreads, " << done_
      << " returned)";
  return out.str();
}

void Executor::run_block() {
  std::fill(threads_.begin(), threads_.end(), Thread{});
  started_ = done_ = at_barrier_ = ready_ = 0;
  const auto count = static_cast<unsigned>(threads_.size());
  // A ready thread of an earlier warp waits until every thread of the block has begun: a legal schedule.
  while (started_ < count && error_.empty()) {
    Fiber* fiber = take_fiber();
    threads_[nth(started_)].fiber = fiber;
    fiber->enter();
    if (threads_[current_].state == State::kDone) free_fibers_.push_back(fiber);
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
  if (!error_.empty()) {  // stacks of threads that will never go on
    free_fibers_.clear();
    for (const auto& fiber : fibers_) free_fibers_.push_back(fiber.get());
  }
  grid_ = nullptr;
  return error_;
}

}  // namespace

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

}  // namespace dptrain::cuda_sim
