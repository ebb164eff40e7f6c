#include "fiber.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>

#if !defined(__x86_64__)
#include <ucontext.h>
#endif
#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif
#if defined(__SANITIZE_THREAD__)
#include <sanitizer/tsan_interface.h>
#endif

namespace dptrain::cuda_sim {
namespace {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr std::size_t kStackBytes = 256 * 1024;
#else
constexpr std::size_t kStackBytes = 64 * 1024;
#endif

#if defined(__x86_64__)
// Pushes the registers that a callee must preserve in the System V ABI, swaps stacks, and pops the other side's
// registers.
asm(R"(
.text
.p2align 4
.type dptrain_cuda_sim_switch, @function
dptrain_cuda_sim_switch:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size dptrain_cuda_sim_switch, .-dptrain_cuda_sim_switch
)");
extern "C" void dptrain_cuda_sim_switch(void** save_sp, void* load_sp);
#endif

}  // namespace

struct Fiber::State {
  char* base = nullptr;  // the mapping; it begins with the guard page
  std::size_t page = 0;
  void (*entry)() = nullptr;
#if defined(__x86_64__)
  void* inside = nullptr;
  void* outside = nullptr;
#else
  ucontext_t inside{};
  ucontext_t outside{};
#endif
#if defined(__SANITIZE_ADDRESS__)
  void* inside_fake = nullptr;
  const void* outer_stack = nullptr;
  std::size_t outer_bytes = 0;
#endif
#if defined(__SANITIZE_THREAD__)
  void* tsan_inside = nullptr;
  void* tsan_outside = nullptr;
#endif
  char* stack() const { return base + page; }
};

namespace {
thread_local Fiber* entered = nullptr;
}

struct FiberEntry {
  static void start() {
    Fiber* fiber = entered;
#if defined(__SANITIZE_ADDRESS__)
    __sanitizer_finish_switch_fiber(nullptr, &fiber->state_->outer_stack, &fiber->state_->outer_bytes);
#endif
    fiber->state_->entry();
    std::abort();
  }
};

Fiber::Fiber() : state_(std::make_unique<State>()) {
  state_->page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  void* base = mmap(nullptr, kStackBytes + state_->page, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (base == MAP_FAILED || mprotect(base, state_->page, PROT_NONE) != 0) {
    std::perror("cuda_sim: no stack for a simulated thread");
    std::abort();
  }
  state_->base = static_cast<char*>(base);
}

Fiber::~Fiber() {
#if defined(__SANITIZE_ADDRESS__)
  __asan_unpoison_memory_region(state_->stack(), kStackBytes);
#endif
#if defined(__SANITIZE_THREAD__)
  if (state_->tsan_inside != nullptr) __tsan_destroy_fiber(state_->tsan_inside);
#endif
  munmap(state_->base, kStackBytes + state_->page);
}

void Fiber::reset(void (*entry)()) {
  state_->entry = entry;
#if defined(__SANITIZE_ADDRESS__)
  __asan_unpoison_memory_region(state_->stack(), kStackBytes);
  state_->inside_fake = nullptr;
#endif
#if defined(__SANITIZE_THREAD__)
  if (state_->tsan_inside != nullptr) __tsan_destroy_fiber(state_->tsan_inside);
  state_->tsan_inside = __tsan_create_fiber(0);
#endif
#if defined(__x86_64__)
  // Six registers of any value, the address start() that is "returned" to, and a return address for start(). After that
  // `ret` the stack pointer is 8 below a multiple of 16, as the ABI requires at a function's first instruction.
  auto* top = reinterpret_cast<void**>(state_->stack() + kStackBytes) - 8;
  for (int i = 0; i < 6; ++i) top[i] = nullptr;
  top[6] = reinterpret_cast<void*>(&FiberEntry::start);
  top[7] = nullptr;
  state_->inside = top;
#else
  getcontext(&state_->inside);
  state_->inside.uc_stack.ss_sp = state_->stack();
  state_->inside.uc_stack.ss_size = kStackBytes;
  state_->inside.uc_link = nullptr;
  makecontext(&state_->inside, &FiberEntry::start, 0);
#endif
}

void Fiber::enter() {
  entered = this;
#if defined(__SANITIZE_ADDRESS__)
  void* outside_fake = nullptr;
  __sanitizer_start_switch_fiber(&outside_fake, state_->stack(), kStackBytes);
#endif
#if defined(__SANITIZE_THREAD__)
  state_->tsan_outside = __tsan_get_current_fiber();
  __tsan_switch_to_fiber(state_->tsan_inside, 0);
#endif
#if defined(__x86_64__)
  dptrain_cuda_sim_switch(&state_->outside, state_->inside);
#else
  swapcontext(&state_->outside, &state_->inside);
#endif
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_finish_switch_fiber(outside_fake, nullptr, nullptr);
#endif
}

void Fiber::leave() {
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_start_switch_fiber(&state_->inside_fake, state_->outer_stack, state_->outer_bytes);
#endif
#if defined(__SANITIZE_THREAD__)
  __tsan_switch_to_fiber(state_->tsan_outside, 0);
#endif
#if defined(__x86_64__)
  dptrain_cuda_sim_switch(&state_->inside, state_->outside);
#else
  swapcontext(&state_->inside, &state_->outside);
#endif
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_finish_switch_fiber(state_->inside_fake, &state_->outer_stack, &state_->outer_bytes);
#endif
}

}  // namespace dptrain::cuda_sim
