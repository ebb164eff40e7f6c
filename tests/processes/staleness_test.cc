// Two asynchronous workers, one of which gets a tenth of its processor's time: how far the other one goes ahead, and
// what limits it.
#include "processes/job_training.h"
#include "processes/slowed_process.h"

namespace dptrain::testing {
namespace {

class StalenessTest : public JobTrainingTest {
 protected:
  /// The staleness in an epoch of 50 steps with two workers. The server has a process of its own, since a server inside
  /// the slow worker would delay the other one.
  json staleness_with(const std::string& max_staleness) const {
    const Command settings = {
        "--set",      "epochs=1",
        "--set",      "eval_every=0",
        "--set",      "dataset.limit=3200",
        "--set",      "batch_size=64",
        "--set",      "strategy={name: kvstore, type: dist_async, servers: 1" + max_staleness + "}",
        "--overwrite"};
    Launch launch({.processes = std::vector<Command>(4, training("job", "lenet_ddp_2cpu", 1, settings)),
                   .folder = folder_.path(),
                   .grace_s = 1,
                   .timeout_s = 240});
    Launched job;
    {
      const SlowedProcess slowed(launch, 1);
      job = launch.wait();
    }
    for (const Finished& process : job.processes) EXPECT_EQ(process.exit, 0) << process.err;
    return last_epoch(run("job"))["staleness"];
  }
  static void expect_figures_of_histogram(const json& staleness) {
    int64_t pushes = 0, missed = 0, updates = 0;
    for (const json& count : staleness["histogram"]) {
      pushes += count.get<int64_t>();
      missed += updates++ * count.get<int64_t>();
    }
    ASSERT_GT(pushes, 0);
    EXPECT_DOUBLE_EQ(staleness["mean"], static_cast<double>(missed) / static_cast<double>(pushes));
    EXPECT_EQ(staleness["max"], updates - 1);
  }
};

TEST_F(StalenessTest, ABoundHoldsAWorkerThatIsFasterThanAnother) {
  // The bound is (workers - 1) (2 N + 2) for max_staleness: N, as docs/hosts.md says.
  constexpr int64_t kMost = 4;
  const json free = staleness_with(""), bounded = staleness_with(", max_staleness: 1");
  ASSERT_TRUE(free.is_object() && bounded.is_object());
  EXPECT_GT(free["max"], kMost);
  EXPECT_LE(bounded["max"], kMost);
  EXPECT_GT(bounded["max"], 0);
  expect_figures_of_histogram(free);
  expect_figures_of_histogram(bounded);
}

}  // namespace
}  // namespace dptrain::testing
