#include "base/thread_stacks.h"

#include <dirent.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <unwind.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <fstream>
#include <mutex>
#include <string_view>
#include <thread>
#include <utility>

#include "base/clock.h"
#include "base/function_names.h"

namespace dptrain {
namespace {

/// One of the signals that the system leaves to programs.
int own_signal() { return SIGRTMIN + 5; }

constexpr size_t kMostThreads = 512;
constexpr size_t kMostAddresses = 64;
/// Frames to skip at the top of a stack: the handler's own, and the system's for the return from it.
constexpr size_t kOfHandler = 2;

enum class Answer : int { none, asked, given_up, answering, answered };

/// The place of a thread's answer. A handler can't get arguments and may run late, so slots are global and stay valid.
struct Slot {
  std::atomic<Answer> answer = Answer::none;
  std::atomic<pid_t> thread = 0;
  size_t count = 0;
  std::array<uintptr_t, kMostAddresses> addresses = {};
};
std::array<Slot, kMostThreads> slots;

_Unwind_Reason_Code add_address(_Unwind_Context* context, void* to) {
  Slot& slot = *static_cast<Slot*>(to);
  if (slot.count == slot.addresses.size()) return _URC_END_OF_STACK;
  const uintptr_t address = _Unwind_GetIP(context);
  if (address == 0) return _URC_END_OF_STACK;  // the start of a thread has no caller
  slot.addresses[slot.count++] = address;
  return _URC_NO_REASON;
}

/// The signal handler. It runs in the thread that is asked, wherever that thread is, so it must not allocate.
void tell_stack(int) {
  const int before = errno;
  const auto own = static_cast<pid_t>(::syscall(SYS_gettid));
  for (Slot& slot : slots) {
    Answer asked = Answer::asked;
    if (slot.thread != own || !slot.answer.compare_exchange_strong(asked, Answer::answering)) continue;
    slot.count = 0;
    _Unwind_Backtrace(add_address, &slot);
    slot.answer = Answer::answered;
    break;
  }
  errno = before;
}

std::vector<pid_t> threads_of_process() {
  std::vector<pid_t> threads;
  DIR* folder = ::opendir("/proc/self/task");
  if (folder == nullptr) return threads;
  while (const dirent* entry = ::readdir(folder)) {
    const std::string_view name = entry->d_name;
    pid_t thread = 0;
    if (std::from_chars(name.data(), name.data() + name.size(), thread).ec == std::errc()) threads.push_back(thread);
  }
  ::closedir(folder);
  // The first thread, whose number is the process's, goes first. Other threads' numbers may be smaller if the system
  // has started again from low numbers.
  std::ranges::sort(threads, {}, [first = ::getpid()](pid_t thread) { return std::pair(thread != first, thread); });
  return threads;
}

/// What the system says about a thread, which may have ended.
ThreadStack known_of(pid_t thread) {
  ThreadStack known{.thread = thread, .name = {}};
  std::ifstream file(fmt::format("/proc/self/task/{}/stat", thread));
  std::string line;
  std::getline(file, line, '\0');  // unlike an iterator, getline tolerates that reading fails for an ended thread
  // The line is "4711 (name) S ...", where the name may contain anything.
  const size_t begin = line.find('('), end = line.rfind(')');
  if (begin == std::string::npos || end == std::string::npos || end + 2 >= line.size()) return known;
  known.name = line.substr(begin + 1, end - begin - 1);
  known.state = line[end + 2];
  return known;
}

/// Asks a thread and returns the slot for its answer. If no slot is free, returns null and doesn't ask.
Slot* ask(pid_t thread) {
  const auto is_free = [](const Slot& slot) {
    const Answer answer = slot.answer;
    return answer == Answer::none || answer == Answer::given_up;
  };
  const auto slot = std::ranges::find_if(slots, is_free);
  if (slot == slots.end()) return nullptr;
  slot->thread = thread;
  slot->answer = Answer::asked;
  if (::syscall(SYS_tgkill, ::getpid(), thread, own_signal()) != 0) slot->answer = Answer::given_up;
  return &*slot;
}

const char* state_words(char state) {
  switch (state) {
    case 'R': return "running";
    case 'S': return "sleeping";
    case 'D': return "waiting for a device or disk";
    case 'T': return "stopped";
    case 't': return "stopped by its tracer";
    default: return "in an unknown state";
  }
}

}  // namespace

std::vector<ThreadStack> take_thread_stacks(double timeout_s) {
  static std::mutex one_at_a_time;
  const std::lock_guard lock(one_at_a_time);
  const auto deadline = deadline_in(timeout_s);
  struct sigaction action = {};
  action.sa_handler = tell_stack;
  action.sa_flags = SA_RESTART | SA_ONSTACK;
  // The handler stays installed, because a signal may come late.
  ::sigaction(own_signal(), &action, nullptr);
  // These answered too late for the last call.
  for (Slot& slot : slots)
    if (slot.answer == Answer::answered) slot.answer = Answer::none;
  std::vector<ThreadStack> stacks;
  std::vector<Slot*> asked;
  for (const pid_t thread : threads_of_process()) {
    stacks.push_back(known_of(thread));
    asked.push_back(ask(thread));
  }
  const auto is_open = [](const Slot* slot) {
    if (slot == nullptr) return false;
    const Answer answer = slot->answer;
    return answer == Answer::asked || answer == Answer::answering;
  };
  while (std::ranges::any_of(asked, is_open) && Clock::now() < deadline)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  for (size_t i = 0; i < asked.size(); ++i) {
    if (asked[i] == nullptr) continue;
    Slot& slot = *asked[i];
    Answer open = Answer::asked;
    slot.answer.compare_exchange_strong(open, Answer::given_up);
    if (slot.answer != Answer::answered) continue;
    const auto begin = slot.addresses.begin();
    stacks[i].addresses.assign(begin + std::min(kOfHandler, slot.count), begin + slot.count);
    slot.answer = Answer::none;
  }
  return stacks;
}

std::string describe_stacks(const std::vector<ThreadStack>& stacks) {
  FunctionNames names;
  std::string text;
  for (const ThreadStack& stack : stacks) {
    text += fmt::format("{}thread {} ({}), {}{}\n", text.empty() ? "" : "\n", stack.thread, stack.name,
                        state_words(stack.state), stack.addresses.empty() ? ": it did not answer" : ":");
    for (size_t i = 0; i < stack.addresses.size(); ++i)
      // A call may be the last instruction of its function. The return address then belongs to the next function.
      text += fmt::format("  {}\n", names.place(stack.addresses[i] - (i == 0 ? 0 : 1)));
  }
  return text;
}

}  // namespace dptrain
