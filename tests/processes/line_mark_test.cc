// A launcher mixes the output of its processes; a mark on each line tells which process wrote it.
#include "processes/watched_training.h"

namespace dptrain::testing {
namespace {

class LineMarkTest : public WatchdogTest {
 protected:
  /// Expects that a process has written something, and that every line begins with its mark.
  static void expect_marked(const std::string& said, const std::string& mark) {
    EXPECT_NE(said, "");
    for (const std::string& line : lines_of(said))
      EXPECT_TRUE(line.empty() || line.starts_with(mark + "dptrain: ")) << line;
  }
};

TEST_F(LineMarkTest, IsTheFirstRankOfItsProcess) {
  const auto diverging = [this](int devices) {
    return training("job", "lenet_ddp_2cpu", devices,
                    {"--set", "learning_rate=1e30", "--set", "dataset.limit=320", "--set", "batch_size=60"});
  };
  Launch launch({.processes = {diverging(2), diverging(1), diverging(1)}, .folder = folder_.path(), .grace_s = 1});
  const Launched job = launch.wait();
  expect_marked(launch.err(0), "");
  expect_marked(launch.err(1), "[rank 2] ");
  expect_marked(launch.err(2), "[rank 3] ");
  for (const std::string& sentence : last_sentences(job, 79)) EXPECT_EQ(sentence, job.processes[0].last_error());
}

TEST_F(LineMarkTest, IsTheProcessBeforeItsRanksAreKnown) {
  Command wrong = program("run", 1);
  wrong.insert(wrong.end(), {"--set", "batch_size=0", "--set", "epochs=-1"});
  Launch launch({.processes = {wrong, wrong}, .folder = folder_.path(), .grace_s = 1});
  const Launched job = launch.wait();
  EXPECT_GT(lines_of(launch.err(1)).size(), 2u) << "a line a mistake, and a last one";
  expect_marked(launch.err(0), "");
  expect_marked(launch.err(1), "[process 1] ");
  EXPECT_EQ(job.processes[1].exit, 78);
}

/// Covers the output of a signal's handler, and processes that have no rank.
TEST_F(LineMarkTest, IsTheProcessOfAServerAndOfTheScheduler) {
  LaunchOptions options = job(/*grace_s=*/3, /*steps=*/"100000");
  for (Command& command : options.processes)
    command.insert(command.end(), {"--set", "strategy={name: kvstore, type: dist_sync, servers: 1}"});
  options.processes.resize(4, options.processes[0]);
  Launch launch(options);
  wait_until_trained(launch.launcher());
  for (const size_t process : {0u, 1u, 2u, 3u}) ASSERT_EQ(::kill(launch.pid(process), SIGTERM), 0);
  launch.wait();
  const std::vector<std::string> marks = {"", "[rank 1] ", "[process 2] ", "[process 3] "};
  for (size_t i = 0; i < marks.size(); ++i) {
    expect_marked(launch.err(i), marks[i]);
    EXPECT_NE(launch.err(i).find(marks[i] + "dptrain: stopping after the current step"), std::string::npos)
        << launch.err(i);
  }
}

}  // namespace
}  // namespace dptrain::testing
