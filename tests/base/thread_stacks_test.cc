#include "base/thread_stacks.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "base/clock.h"
#include "support/sanitizer.h"

namespace dptrain {
namespace {

std::atomic<bool> is_turning = false;
std::atomic<bool> is_over = false;
std::atomic<bool> has_blocked = false;

/// A thread that hangs while it computes: no system call ends it.
[[gnu::noinline]] void turn_for_ever() {
  is_turning = true;
  while (!is_over) continue;
  is_turning = false;
}

/// The paragraph of the text that contains these words: one thread's part.
std::string paragraph_with(const std::string& text, const std::string& words) {
  const size_t at = text.find(words);
  if (at == std::string::npos) return {};
  const size_t begin = text.rfind("thread ", at);
  return text.substr(begin, text.find("\n\n", at) - begin);
}

class ThreadStacksTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (testing::kThreadSanitizer) GTEST_SKIP() << "ThreadSanitizer hands signals on when threads call something";
    is_over = has_blocked = false;
  }
};

TEST_F(ThreadStacksTest, NameWhereEachThreadIs) {
  std::mutex mutex;
  std::condition_variable never;
  std::thread turning(turn_for_ever);
  std::thread waiting([&] {
    std::unique_lock lock(mutex);
    never.wait(lock, [] { return is_over.load(); });
  });
  while (!is_turning) std::this_thread::yield();
  std::string text;
  // The other thread may not have reached its wait yet.
  for (const auto deadline = deadline_in(10); Clock::now() < deadline;) {
    text = describe_stacks(take_thread_stacks(5));
    if (text.find("pthread_cond_wait") != std::string::npos) break;
  }
  {
    const std::lock_guard lock(mutex);
    is_over = true;
  }
  never.notify_all();
  turning.join();
  waiting.join();
  const std::string of_turning = paragraph_with(text, "turn_for_ever()");
  EXPECT_NE(of_turning.find("\n  dptrain::(anonymous namespace)::turn_for_ever() + 0x"), std::string::npos) << text;
  EXPECT_NE(of_turning.find(" (base_test + 0x"), std::string::npos) << text;
  EXPECT_EQ(paragraph_with(text, "pthread_cond_wait").find("turn_for_ever"), std::string::npos) << text;
  EXPECT_NE(text.find("take_thread_stacks(double)"), std::string::npos) << "of the thread that asks, too\n" << text;
}

TEST_F(ThreadStacksTest, AThreadThatDoesNotAnswerIsWaitedForNoLonger) {
  std::thread deaf([] {
    sigset_t all;
    ::sigfillset(&all);
    ::pthread_sigmask(SIG_SETMASK, &all, nullptr);
    has_blocked = true;
    while (!is_over) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  });
  while (!has_blocked) std::this_thread::yield();
  const auto begun = Clock::now();
  // Asks twice: an unanswered request must not affect the next one.
  const std::vector<ThreadStack> first = take_thread_stacks(0.2), second = take_thread_stacks(0.2);
  EXPECT_GE(seconds_since(begun), 0.4);
  is_over = true;
  deaf.join();
  for (const auto& stacks : {first, second}) {
    EXPECT_EQ(std::ranges::count_if(stacks, [](const ThreadStack& one) { return one.addresses.empty(); }), 1);
    EXPECT_EQ(std::ranges::count(stacks, ::getpid(), &ThreadStack::thread), 1) << "this one";
    EXPECT_EQ(stacks.front().thread, ::getpid());
  }
  EXPECT_NE(describe_stacks(first).find(": it did not answer\n"), std::string::npos);
}

TEST_F(ThreadStacksTest, AnAddressOfNoProgramIsANumber) {
  EXPECT_EQ(describe_stacks({{.thread = 7, .name = "x", .state = 'D', .addresses = {0x10}}}),
            "thread 7 (x), waiting for a device or disk:\n  0x10\n");
}

}  // namespace
}  // namespace dptrain
