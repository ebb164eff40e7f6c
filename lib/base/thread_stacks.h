#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace dptrain {

/// Where a thread was.
struct ThreadStack {
  int64_t thread = 0;  ///< as the system numbers it
  std::string name;    ///< as the system knows it
  char state = '?';    ///< as the system tells it: R running, S sleeping, D waiting for a disk, T stopped, t traced
  /// The next instruction, then what each call returns to, innermost first; none of a thread that didn't answer.
  std::vector<uintptr_t> addresses = {};
};

/// Where all threads of this process are, its first one before all others, each of which tells that itself, in the
/// handler of a real-time signal that is this function's own. Blocks until all have, and for no longer than
/// `timeout_s`: a thread that blocks the signal, or that the system holds, doesn't answer. Waits for no lock that such
/// a thread could have. Calls that the signal interrupts are begun again, as far as the system does that.
std::vector<ThreadStack> take_thread_stacks(double timeout_s);

/// A paragraph a thread: its number, name and state, and a line a call, with the function's name as far as the
/// program's files tell it and the place in the file, as addr2line takes it. May wait for the loader's lock.
std::string describe_stacks(const std::vector<ThreadStack>& stacks);

}  // namespace dptrain
