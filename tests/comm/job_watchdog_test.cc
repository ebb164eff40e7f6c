// The watch over a job's processes, which threads of this process play.
#include "comm/job_watchdog.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <string>
#include <thread>

#include "base/file_progress.h"
#include "support/memory_wires.h"

namespace dptrain {
namespace {

/// A wire that loses messages while it is cut, never finishes sending while it is held, and fails to send while it is
/// broken.
class CutWire final : public ProcessWire {
 public:
  explicit CutWire(std::shared_ptr<ProcessWire> wire) : wire_(std::move(wire)) {}
  int process() const override { return wire_->process(); }
  int processes() const override { return wire_->processes(); }
  int largest_tag() const override { return wire_->largest_tag(); }
  std::unique_ptr<WireMessage> start_send(std::span<const std::byte> bytes, int to, int tag) override {
    if (is_broken) throw LostMessage("MPI could not carry it");
    if (is_cut || is_held) return std::make_unique<Unsent>(is_cut);
    return wire_->start_send(bytes, to, tag);
  }
  std::unique_ptr<WireMessage> start_receive(std::span<std::byte> bytes, int from, int tag) override {
    return wire_->start_receive(bytes, from, tag);
  }

  std::atomic<bool> is_cut = false;
  std::atomic<bool> is_held = false;
  std::atomic<bool> is_broken = false;

 private:
  class Unsent final : public WireMessage {
   public:
    explicit Unsent(bool is_lost) : is_lost_(is_lost) {}
    bool is_done() override { return is_lost_; }
    int64_t bytes() const override { return 0; }

   private:
    bool is_lost_;
  };
  std::shared_ptr<ProcessWire> wire_;
};

/// A child process that does nothing until it is killed. It plays a watched process.
class Child {
 public:
  Child() : pid_(::fork()) {
    while (pid_ == 0) ::pause();
  }
  ~Child() {
    kill();
    ::waitpid(pid_, nullptr, 0);
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;
  pid_t pid() const { return pid_; }
  void kill() const { ::kill(pid_, SIGKILL); }

 private:
  pid_t pid_;
};

class WatchdogJob {
 public:
  explicit WatchdogJob(int processes, const WatchdogOptions& options) : options_(options) {
    const auto exchange_wires = MemoryWires::make(processes), wires = MemoryWires::make(processes);
    for (int p = 0; p < processes; ++p) {
      members_.push_back(std::make_unique<Member>());
      Member& member = *members_.back();
      member.wire = std::make_shared<CutWire>(wires[static_cast<size_t>(p)]);
      member.exchange = std::make_unique<ProcessExchange>(exchange_wires[static_cast<size_t>(p)]);
      // Each process has a host of its own by default.
      places.push_back({.host = "h" + std::to_string(p), .pid = 100 + p});
    }
  }

  void watch() {
    for (const auto& member : members_) watch(*member);
  }
  void watch_all_but(int absent) {
    for (const auto& member : members_)
      if (member->wire->process() != absent) watch(*member);
  }
  void cut(int process, bool is_cut) { members_[static_cast<size_t>(process)]->wire->is_cut = is_cut; }
  void hold(int process) { members_[static_cast<size_t>(process)]->wire->is_held = true; }
  void break_wire(int process) { members_[static_cast<size_t>(process)]->wire->is_broken = true; }
  void reach_step(int process, int64_t step, JobPhase phase = JobPhase::step) {
    JobProgress& progress = members_[static_cast<size_t>(process)]->progress;
    progress.phase = phase;
    progress.step = step;
  }
  void limit(int process, double timeout_s) { members_[static_cast<size_t>(process)]->progress.timeout_s = timeout_s; }
  /// Sends a message of the job itself, not of the watch, and waits until it has arrived.
  void send_message(int from, int to) {
    std::atomic<int> done = 0;
    std::byte sent{1}, received{0};
    const auto transfer = [&](int other, std::byte* data, bool sends) {
      return Transfer{.tag = 1000,
                      .messages = {{.sends = sends, .process = other, .data = data, .bytes = 1}},
                      .on_done = [&done] { ++done; },
                      .overdue = {}};
    };
    members_[static_cast<size_t>(from)]->exchange->start(transfer(to, &sent, true));
    members_[static_cast<size_t>(to)]->exchange->start(transfer(from, &received, false));
    while (done < 2) sleep(0.001);
    EXPECT_EQ(received, sent);
  }
  ProcessActivity& activity(int process) { return members_[static_cast<size_t>(process)]->exchange->activity(); }
  void doubt(int process) { ++members_[static_cast<size_t>(process)]->doubts; }
  std::atomic<int>& stop_signal(int process) { return members_[static_cast<size_t>(process)]->stop; }
  void fail(int process, const std::string& sentence) {
    members_[static_cast<size_t>(process)]->exchange->fail({.code = ExitCode::io, .sentence = sentence});
  }
  bool has_failed(int process) const { return members_[static_cast<size_t>(process)]->exchange->has_failed(); }
  JobFailure failure(int process) {
    const auto deadline = deadline_in(20);
    while (!has_failed(process) && Clock::now() < deadline) sleep(0.005);
    EXPECT_TRUE(has_failed(process)) << "process " << process << " heard of no failure";
    return has_failed(process) ? members_[static_cast<size_t>(process)]->exchange->settled_failure() : JobFailure();
  }
  std::string left_with(int process) {
    Member& member = *members_[static_cast<size_t>(process)];
    const auto deadline = deadline_in(20);
    while (!member.has_left && Clock::now() < deadline) sleep(0.005);
    return member.has_left ? member.left_with : "still there";
  }
  std::string launcher_died(int process) const {
    return "the launcher of the job on host " + places[static_cast<size_t>(process)].host + " (pid " +
           std::to_string(launcher) + ") has died";
  }
  /// Whether a process's own watch has found it stuck, and reported that before the job failed.
  bool was_stuck(int process) const { return members_[static_cast<size_t>(process)]->was_stuck; }
  bool is_blamed(int process) const { return members_[static_cast<size_t>(process)]->exchange->is_blamed(); }
  bool has_left(int process) const { return members_[static_cast<size_t>(process)]->has_left; }
  std::vector<std::string> warnings(int process) {
    Member& member = *members_[static_cast<size_t>(process)];
    const std::lock_guard lock(member.mutex);
    return member.warnings;
  }
  /// Ends a process normally. Returns "", or the error that it threw.
  std::string finish(int process, double timeout_s = 20) {
    try {
      members_[static_cast<size_t>(process)]->watchdog->finish(timeout_s);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::peer_lost);
      return error.what();
    }
    return "";
  }
  static void sleep(double seconds) { std::this_thread::sleep_for(std::chrono::duration<double>(seconds)); }

  std::vector<JobProcess> places;
  int64_t launcher = 0;

 private:
  struct Member {
    std::shared_ptr<CutWire> wire;
    std::unique_ptr<ProcessExchange> exchange;
    JobProgress progress;
    std::mutex mutex;
    std::vector<std::string> warnings;
    std::string left_with;
    std::atomic<bool> has_left = false;
    std::atomic<bool> was_stuck = false;
    std::atomic<int> doubts = 0;
    std::atomic<int> stop = 0;
    std::unique_ptr<JobWatchdog> watchdog;
  };

  void watch(Member& member) {
    member.watchdog = std::make_unique<JobWatchdog>(
        member.wire, *member.exchange, member.progress,
        JobWatchdog::Watched{.processes = places, .launcher = launcher, .stop = &member.stop},
        WatchdogHooks{.name = [](int process) { return "process " + std::to_string(process); },
                      .doubts = [&member] { return member.doubts.load(); },
                      .warn =
                          [&member](const std::string& text) {
                            const std::lock_guard lock(member.mutex);
                            member.warnings.push_back(text);
                          },
                      .on_stuck = [&member] { member.was_stuck = !member.exchange->has_failed(); },
                      .leave =
                          [&member](const JobFailure& failure) {
                            member.left_with = failure.sentence;
                            member.has_left = true;
                          }},
        options_);
  }

  WatchdogOptions options_;
  std::vector<std::unique_ptr<Member>> members_;
};

/// The silence is long compared with the time that a busy machine may delay a thread.
constexpr WatchdogOptions kShort = {.beat_s = 0.02, .warning_s = 0.3, .silence_s = 1.5, .answer_s = 1, .leave_s = 0.2};
constexpr WatchdogOptions kNeverSilent = {
    .beat_s = 0.02, .warning_s = 100, .silence_s = 100, .answer_s = 1, .leave_s = 0.2};

TEST(JobWatchdogTest, ASilentProcessEndsAllInTheSameWords) {
  WatchdogJob job(3, kShort);
  job.reach_step(2, 37);
  job.watch();
  WatchdogJob::sleep(0.1);
  job.cut(2, true);
  const JobFailure failure = job.failure(0);
  EXPECT_EQ(failure.code, ExitCode::peer_lost);
  EXPECT_EQ(failure.process, 2);
  EXPECT_EQ(failure.step, 37);
  EXPECT_TRUE(failure.sentence.starts_with("process 2 was silent for 1.")) << failure.sentence;
  EXPECT_TRUE(failure.sentence.ends_with("; it was last heard from in step 37")) << failure.sentence;
  for (int process = 1; process < 3; ++process) EXPECT_EQ(job.failure(process).sentence, failure.sentence);
  for (int process = 0; process < 3; ++process) {
    EXPECT_FALSE(job.was_stuck(process));
    EXPECT_EQ(job.is_blamed(process), process == 2) << "by others, while it lives";
  }
  // No process ends by itself, so the watch ends each of them.
  for (int process = 0; process < 3; ++process) EXPECT_EQ(job.left_with(process), failure.sentence);
}

TEST(JobWatchdogTest, AProcessThatIsHeardOfAgainIsToldOfOnce) {
  WatchdogJob job(2, kShort);
  job.watch();
  job.cut(1, true);
  WatchdogJob::sleep(0.6);
  EXPECT_EQ(job.warnings(0), std::vector<std::string>());
  job.cut(1, false);
  WatchdogJob::sleep(0.4);
  const auto warnings = job.warnings(0);
  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_TRUE(warnings[0].starts_with("process 1 was silent for 0.")) << warnings[0];
  EXPECT_EQ(job.warnings(1), std::vector<std::string>());
  EXPECT_FALSE(job.has_failed(0));
  EXPECT_FALSE(job.has_failed(1));
}

/// Heartbeats may be delayed behind large messages.
TEST(JobWatchdogTest, WhoseMessagesComeIsNotSilent) {
  WatchdogJob job(2, kShort);
  job.watch();
  job.cut(1, true);
  for (const auto end = deadline_in(2 * kShort.silence_s); Clock::now() < end && !job.has_failed(0);) {
    job.send_message(1, 0);
    WatchdogJob::sleep(0.1);
  }
  EXPECT_FALSE(job.has_failed(0));
  const JobFailure failure = job.failure(0);
  EXPECT_TRUE(failure.sentence.starts_with("process 1 was silent for 1.")) << failure.sentence;
  EXPECT_GE(failure.detected_s, kShort.silence_s);
  EXPECT_LT(failure.detected_s, 2 * kShort.silence_s);
}

TEST(JobWatchdogTest, WhoIsHeardOfAfterTheFailureIsNotToldOf) {
  WatchdogOptions options = kShort;
  options.leave_s = 10;
  WatchdogJob job(2, options);
  job.watch();
  WatchdogJob::sleep(0.1);
  job.cut(1, true);
  EXPECT_EQ(job.failure(0).process, 1);
  job.cut(1, false);
  WatchdogJob::sleep(0.5);
  EXPECT_EQ(job.warnings(0), std::vector<std::string>());
}

TEST(JobWatchdogTest, AStarIsWatchedByProcess0ForAll) {
  WatchdogOptions options = kShort;
  options.largest_mesh = 2;
  WatchdogJob job(4, options);
  job.watch();
  WatchdogJob::sleep(0.1);
  job.cut(3, true);
  const JobFailure failure = job.failure(0);
  EXPECT_EQ(failure.process, 3);
  EXPECT_TRUE(failure.sentence.ends_with("before the first step")) << failure.sentence;
  for (int process = 1; process < 3; ++process) EXPECT_EQ(job.failure(process).sentence, failure.sentence);
}

TEST(JobWatchdogTest, ADeathOnTheSameHostIsSeenWithoutSilence) {
  const Child child;
  WatchdogJob job(3, kNeverSilent);
  for (JobProcess& place : job.places) place.host = "a";
  job.places[2] = {.host = "a", .pid = child.pid(), .start = process_start(child.pid())};
  job.reach_step(2, 5);
  job.watch();
  WatchdogJob::sleep(0.3);
  EXPECT_FALSE(job.has_failed(0));
  child.kill();
  for (int process = 0; process < 2; ++process)
    EXPECT_EQ(job.failure(process).sentence, "process 2 has died; it was last heard from in step 5");
}

TEST(JobWatchdogTest, APidOfAnotherProcessIsNotWatched) {
  const Child child;
  WatchdogJob job(2, kNeverSilent);
  for (JobProcess& place : job.places) place.host = "a";
  job.places[1] = {.host = "a", .pid = child.pid(), .start = process_start(child.pid()) + 1};
  job.watch();
  child.kill();
  WatchdogJob::sleep(0.5);
  EXPECT_FALSE(job.has_failed(0));
}

TEST(JobWatchdogTest, TheLaunchersDeathEndsAll) {
  const Child child;
  WatchdogJob job(2, kNeverSilent);
  job.launcher = child.pid();
  job.watch();
  WatchdogJob::sleep(0.2);
  EXPECT_FALSE(job.has_failed(0));
  child.kill();
  const std::string sentence = job.failure(0).sentence;
  EXPECT_EQ(job.failure(1).sentence, sentence);
  // Here both processes watch the same child, so either may see its death first.
  EXPECT_TRUE(sentence == job.launcher_died(0) || sentence == job.launcher_died(1)) << sentence;
}

TEST(JobWatchdogTest, WhoIsNotHeardOfInADoubtIsLost) {
  WatchdogJob job(3, kNeverSilent);
  job.watch();
  WatchdogJob::sleep(0.1);
  job.doubt(0);
  WatchdogJob::sleep(1.5);
  EXPECT_FALSE(job.has_failed(0)) << "all have answered";
  job.cut(2, true);
  // Messages that were already on their way don't answer a doubt.
  WatchdogJob::sleep(0.2);
  job.doubt(1);
  const JobFailure failure = job.failure(1);
  EXPECT_EQ(failure.process, 2);
  EXPECT_TRUE(failure.sentence.starts_with("process 2 was silent for 1.")) << failure.sentence;
  EXPECT_EQ(job.failure(0).sentence, failure.sentence);
}

/// Process 0's message about the end of another process on its host. All processes are stopped, before or after that
/// end, for longer than a silence that counts as a loss.
enum class Stops { after_the_end, before_the_end };
std::string said_of_an_end(Stops stops) {
  std::array<int, 2> ends = {};
  EXPECT_EQ(::pipe(ends.data()), 0);
  const Child other;
  const pid_t stopped = ::fork();
  if (stopped == 0) {
    const std::string said = [&] {
      WatchdogJob job(2, kShort);
      for (JobProcess& place : job.places) place.host = "a";
      job.places[1] = {.host = "a", .pid = other.pid(), .start = process_start(other.pid())};
      job.watch();
      WatchdogJob::sleep(0.3);
      if (stops == Stops::after_the_end) {
        other.kill();
        // The end has been seen, and the watch waits for news of its cause.
        WatchdogJob::sleep(0.12);
      }
      ::raise(SIGSTOP);
      return job.failure(0).sentence;
    }();
    ::_exit(::write(ends[1], said.data(), said.size()) == static_cast<ssize_t>(said.size()) ? 0 : 1);
  }
  int status = 0;
  EXPECT_EQ(::waitpid(stopped, &status, WUNTRACED), stopped);
  EXPECT_TRUE(WIFSTOPPED(status)) << status;
  if (stops == Stops::before_the_end) other.kill();
  WatchdogJob::sleep(2);
  ::kill(stopped, SIGCONT);
  ::close(ends[1]);
  std::string said(200, '\0');
  said.resize(static_cast<size_t>(std::max<ssize_t>(0, ::read(ends[0], said.data(), said.size()))));
  ::close(ends[0]);
  ::waitpid(stopped, nullptr, 0);
  return said;
}

TEST(JobWatchdogTest, WhoWasAwayBlamesItselfForThoseThatLeftMeanwhileAlone) {
  EXPECT_TRUE(said_of_an_end(Stops::before_the_end).starts_with("process 0 was silent for "));
  EXPECT_TRUE(said_of_an_end(Stops::after_the_end).starts_with("process 1 has died"));
}

/// All processes are stopped for a while after a doubt, as on a suspended host. The pause neither answers the doubt nor
/// drops it.
TEST(JobWatchdogTest, ADoubtOutlivesAPause) {
  const pid_t stopped = ::fork();
  if (stopped == 0) {
    const auto lost = [] {
      WatchdogJob job(3, kNeverSilent);
      job.watch();
      WatchdogJob::sleep(0.1);
      job.cut(2, true);
      // Messages that were already on their way don't answer a doubt.
      WatchdogJob::sleep(0.2);
      job.doubt(1);
      return job.failure(1).process;
    };
    ::_exit(lost() == 2 ? 0 : 1);
  }
  WatchdogJob::sleep(0.5);
  ::kill(stopped, SIGSTOP);
  WatchdogJob::sleep(1);
  ::kill(stopped, SIGCONT);
  int status = 0;
  ASSERT_EQ(::waitpid(stopped, &status, 0), stopped);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
}

TEST(JobWatchdogTest, WhatAsksOneToStopAsksAll) {
  for (const int largest_mesh : {8, 2}) {
    SCOPED_TRACE(largest_mesh);
    WatchdogOptions options = kNeverSilent;
    options.largest_mesh = largest_mesh;
    WatchdogJob job(4, options);
    job.watch();
    job.stop_signal(3) = SIGINT;
    for (int process = 0; process < 4; ++process) {
      const auto deadline = deadline_in(20);
      while (job.stop_signal(process) == 0 && Clock::now() < deadline) WatchdogJob::sleep(0.005);
      EXPECT_EQ(job.stop_signal(process), SIGINT) << process;
      EXPECT_FALSE(job.has_failed(process)) << process;
    }
  }
}

TEST(JobWatchdogTest, WhoIsSilentWhenAllAreAskedToStopIsLost) {
  WatchdogJob job(3, kNeverSilent);
  job.watch();
  WatchdogJob::sleep(0.1);
  job.cut(2, true);
  job.stop_signal(1) = SIGTERM;
  const JobFailure failure = job.failure(0);
  EXPECT_EQ(failure.code, ExitCode::peer_lost);
  EXPECT_EQ(failure.process, 2);
}

/// Rank 1 works without making progress. Rank 0 waits for it, and the trainers' threads, a step ahead, wait for both.
TEST(JobWatchdogTest, WhoMakesNoProgressIsLostAndNotWhoWaitsForIt) {
  WatchdogJob job(2, kNeverSilent);
  for (int process = 0; process < 2; ++process) {
    job.reach_step(process, 37);
    job.limit(process, 0.5);
  }
  std::atomic<bool> is_over = false;
  std::vector<std::thread> threads;
  for (int process = 0; process < 2; ++process) {
    for (const std::string& name : {std::string(), "rank " + std::to_string(process)})
      threads.emplace_back([&job, &is_over, process, name] {
        const ActivePlace place(&job.activity(process).add(name), name.empty() ? 0 : 36);
        std::optional<WaitForOthers> waiting;
        if (process == 0 && !name.empty()) waiting.emplace();
        while (!is_over) WatchdogJob::sleep(0.01);
      });
  }
  WatchdogJob::sleep(0.1);
  job.watch();
  const JobFailure failure = job.failure(0);
  EXPECT_EQ(failure.code, ExitCode::peer_lost);
  EXPECT_EQ(failure.process, 1);
  EXPECT_TRUE(failure.sentence.starts_with("rank 1 of process 1 made no progress for 0.")) << failure.sentence;
  for (int process = 0; process < 2; ++process) {
    EXPECT_EQ(job.was_stuck(process), process == 1);
    EXPECT_FALSE(job.is_blamed(process)) << "its own watch has said so";
  }
  EXPECT_NE(failure.sentence.find(" s, in step 36;"), std::string::npos) << "the rank's: " << failure.sentence;
  EXPECT_GE(failure.detected_s, 0.5);
  is_over = true;
  for (auto& thread : threads) thread.join();
}

TEST(JobWatchdogTest, WhoDoesAPartNowAndThenMakesProgress) {
  WatchdogJob job(2, kNeverSilent);
  job.reach_step(1, 37);
  job.limit(1, 0.5);
  job.watch();
  {
    const ActivePlace place(&job.activity(1).add("rank 1"));
    for (int i = 0; i < 20; ++i) {
      WatchdogJob::sleep(0.05);
      note_progress();
    }
    EXPECT_FALSE(job.has_failed(1));
    EXPECT_EQ(job.failure(0).process, 1) << "and then no more";
  }
}

/// Reading before the first step, or writing a checkpoint, may take long but must make progress.
TEST(JobWatchdogTest, WhatIsReadOrWrittenMakesProgressUntilItHangs) {
  for (const auto& [phase, words] : {std::pair(JobPhase::start, " s, before the first step;"),
                                     {JobPhase::checkpoint, " s, in the checkpoint after step 37;"}}) {
    SCOPED_TRACE(words);
    WatchdogJob job(2, kNeverSilent);
    job.reach_step(1, phase == JobPhase::start ? 0 : 37, phase);
    job.limit(1, 0.5);
    const ActivePlace place(&job.activity(1).add(""));
    job.watch();
    for (int i = 0; i < 20; ++i) {
      WatchdogJob::sleep(0.05);
      count_file_piece();
    }
    EXPECT_FALSE(job.has_failed(1));
    const JobFailure failure = job.failure(0);
    EXPECT_EQ(failure.process, 1);
    EXPECT_TRUE(failure.sentence.starts_with("process 1 made no progress for 0.")) << failure.sentence;
    EXPECT_NE(failure.sentence.find(words), std::string::npos) << failure.sentence;
  }
}

/// Two threads of a server, each for one worker, and a rank in the same process.
TEST(JobWatchdogTest, AThreadOfAServerThatHangsIsFoundWhileOthersMoveOn) {
  WatchdogJob job(2, kNeverSilent);
  job.reach_step(1, 37);
  job.limit(1, 0.5);
  job.watch();
  ProcessActivity& activity = job.activity(1);
  std::atomic<bool> hangs = false, is_over = false;
  std::vector<std::thread> threads;
  for (ProcessActivity::Thread* one : {&activity.add("rank 1"), &activity.add_service("server 0")})
    threads.emplace_back([&is_over, one] {
      const ActivePlace place(one);
      for (; !is_over; WatchdogJob::sleep(0.01)) note_progress();
    });
  threads.emplace_back([&, one = &activity.add_service("server 1")] {
    const ActivePlace place(one);
    {
      const WaitForOthers waiting;
      while (!hangs) WatchdogJob::sleep(0.01);
    }
    while (!is_over) WatchdogJob::sleep(0.01);
  });
  WatchdogJob::sleep(1);
  EXPECT_FALSE(job.has_failed(1)) << "it waits to be asked";
  hangs = true;
  const JobFailure failure = job.failure(0);
  EXPECT_EQ(failure.process, 1);
  EXPECT_TRUE(failure.sentence.starts_with("server 1 of process 1 made no progress for 0.")) << failure.sentence;
  is_over = true;
  for (auto& thread : threads) thread.join();
}

TEST(JobWatchdogTest, AFailureOfARankEndsAProcessThatDoesNotEndByItself) {
  WatchdogJob job(2, kNeverSilent);
  job.watch();
  job.fail(1, "the disk is full");
  for (int process = 0; process < 2; ++process) EXPECT_EQ(job.left_with(process), "the disk is full");
}

TEST(JobWatchdogTest, TheEndWaitsForAllAndIsNoDeath) {
  for (const int largest_mesh : {8, 2}) {
    SCOPED_TRACE(largest_mesh);
    const Child child;
    WatchdogOptions options = kNeverSilent;
    options.largest_mesh = largest_mesh;
    WatchdogJob job(3, options);
    for (JobProcess& place : job.places) place.host = "a";
    job.places[2] = {.host = "a", .pid = child.pid(), .start = process_start(child.pid())};
    job.watch();
    std::atomic<int> ended = 0;
    std::vector<std::thread> threads;
    for (const int process : {0, 1})
      threads.emplace_back([&, process] {
        EXPECT_EQ(job.finish(process), "");
        ++ended;
      });
    WatchdogJob::sleep(0.2);
    EXPECT_EQ(ended, 0);
    EXPECT_EQ(job.finish(2), "");
    child.kill();
    for (auto& thread : threads) thread.join();
    for (int process = 0; process < 3; ++process) EXPECT_FALSE(job.has_failed(process));
  }
}

/// MPI notices the death first, on another host than the dead process's, but doesn't know what it has noticed.
TEST(JobWatchdogTest, AHeartbeatThatIsNotCarriedIsADoubtFirst) {
  WatchdogJob job(2, kNeverSilent);
  job.watch();
  WatchdogJob::sleep(0.2);
  job.break_wire(1);
  const JobFailure failure = job.failure(1);
  EXPECT_TRUE(failure.sentence.starts_with("process 0 was silent for 1.")) << failure.sentence;
  EXPECT_EQ(failure.process, 0);
}

TEST(JobWatchdogTest, ADeathBeforeTheEndIsOneForThoseThatAreThere) {
  const Child child;
  WatchdogJob job(2, kNeverSilent);
  for (JobProcess& place : job.places) place.host = "a";
  job.places[1] = {.host = "a", .pid = child.pid(), .start = process_start(child.pid())};
  job.watch_all_but(1);
  std::thread killer([&] {
    WatchdogJob::sleep(0.1);
    child.kill();
  });
  EXPECT_EQ(job.finish(0), "process 1 has died");
  killer.join();
}

/// Messages to the dead process no longer arrive, whether MPI reports that or not.
TEST(JobWatchdogTest, WhoDiesAfterItsGoodbyeHoldsNobody) {
  for (const auto& lose : {&WatchdogJob::break_wire, &WatchdogJob::hold}) {
    WatchdogJob job(2, kNeverSilent);
    job.watch();
    WatchdogJob::sleep(0.1);
    (job.*lose)(0);
    EXPECT_EQ(job.finish(1, 0.3), "process 0 did not reach the end of the job within 0.3 s");
    const auto begun = Clock::now();
    EXPECT_EQ(job.finish(0), "");
    EXPECT_LT(seconds_since(begun), kNeverSilent.answer_s + 3);
  }
}

TEST(JobWatchdogTest, TheEndNamesWhoDoesNotCome) {
  WatchdogJob job(2, kNeverSilent);
  job.watch();
  EXPECT_EQ(job.finish(0, 0.2), "process 1 did not reach the end of the job within 0.2 s");
}

}  // namespace
}  // namespace dptrain
