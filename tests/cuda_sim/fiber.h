// Stacks that one host thread switches between: what a simulated thread waits on at a barrier.
#pragma once

#include <cstddef>
#include <memory>

namespace dptrain::cuda_sim {

// A stack with a guard page below it, and the point where execution left it. Belongs to the host thread that made it.
class Fiber {
 public:
  Fiber();
  ~Fiber();
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  // The next enter() calls entry() on the empty stack. Whatever was left on the stack is dropped without destructors.
  // entry must never return: it ends by leave().
  void reset(void (*entry)());
  // Runs the fiber until it leaves. Called from the host thread's own stack.
  void enter();
  // Called on the fiber: goes back to the stack that entered it.
  void leave();

 private:
  friend struct FiberEntry;
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace dptrain::cuda_sim
