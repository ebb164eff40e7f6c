// Runs a grid's blocks on a host thread (grid.cc), and lets their threads wait for each other (executor_waits.cc).
#pragma once

#include <cuda_sim_device.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "fiber.h"
#include "grid.h"

namespace dptrain::cuda_sim {

inline constexpr unsigned kWarp = 32;

enum class ThreadState : unsigned char { kNew, kReady, kAtBarrier, kInExchange, kDone };

struct Thread {
  ThreadState state = ThreadState::kNew;
  bool predicate = false;
  Exchange kind = Exchange::kSync;
  unsigned mask = 0;
  int source_lane = 0;
  std::uint64_t value = 0;  // first the given value, then the received one
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
  void fault(const char* what);

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
  void suspend(ThreadState state);
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

}  // namespace dptrain::cuda_sim
