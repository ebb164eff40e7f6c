#include "comm/process_handle.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <thread>

namespace dptrain {
namespace {

TEST(ProcessHandle, KnowsItsParentAndWhetherItHasEnded) {
  EXPECT_EQ(parent_of_process(::getpid()), ::getppid());
  int held[2];
  ASSERT_EQ(::pipe(held), 0);
  const pid_t pid = ::fork();
  if (pid == 0) {
    char byte;
    ::close(held[1]);
    ::_exit(static_cast<int>(::read(held[0], &byte, 1)));
  }
  EXPECT_EQ(parent_of_process(pid), ::getpid());
  const ProcessHandle handle(pid);
  EXPECT_FALSE(handle.has_ended());
  ::close(held[1]);
  ::waitpid(pid, nullptr, 0);
  ::close(held[0]);
  EXPECT_TRUE(handle.has_ended());
  EXPECT_EQ(process_start(pid), 0);
}

/// The system may refuse to read a file of the process that it has allowed to be opened.
TEST(ProcessHandle, OfAProcessThatEndsWhileItIsReadIsNothing) {
  std::atomic<pid_t> child = 0;
  std::atomic<bool> done = false;
  std::thread reader([&] {
    while (!done) EXPECT_NO_THROW(process_start(child));
  });
  for (int i = 0; i < 2000; ++i) {
    const pid_t pid = ::fork();
    if (pid == 0) ::_exit(0);
    child = pid;
    ::waitpid(pid, nullptr, 0);
  }
  done = true;
  reader.join();
}

}  // namespace
}  // namespace dptrain
