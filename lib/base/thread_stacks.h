#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace dptrain {

/// The stack of a thread.
struct ThreadStack {
  int64_t thread = 0;  ///< the system's number for it
  std::string name;    ///< the system's name for it
  char state = '?';    ///< the system's letter for it: R running, S sleeping, D waiting for a disk, T stopped, t traced
  /// The next instruction, then the return address of each call, innermost first. Empty if the thread didn't answer.
  std::vector<uintptr_t> addresses = {};
};

/// Returns the stacks of all threads of this process, the first thread's in front. Each thread reports its own stack in
/// the handler of a real-time signal that only this function uses. Blocks until all have answered, `timeout_s` at most.
/// A thread that blocks the signal, or that the system holds, doesn't answer. Takes no lock that such a thread could
/// hold. Interrupted system calls are restarted, as far as the system does that.
std::vector<ThreadStack> take_thread_stacks(double timeout_s);

/// Describes each thread in a paragraph: its number, name and state, and a line for each call. A line has the
/// function's name, if the program's files contain it, and the place in the file as addr2line takes it. May wait for
/// the loader's lock.
std::string describe_stacks(const std::vector<ThreadStack>& stacks);

}  // namespace dptrain
