// A process gets a tenth of its processor's time: all wait for it, no bit changes, and the metrics name it.
#include "processes/job_training.h"
#include "processes/slowed_process.h"
#include "support/json_schema.h"

namespace dptrain::testing {
namespace {

class StragglerTest : public JobTrainingTest {};

TEST_F(StragglerTest, ASlowProcessIsNamedAndChangesNoBit) {
  const Command settings = {"--set", "epochs=1",           "--set", "eval_every=0",
                            "--set", "dataset.limit=3200", "--set", "batch_size=64"};
  const Finished one = alone(training("one", "lenet_ddp_2cpu", 2, settings));
  ASSERT_EQ(one.exit, 0) << one.err;
  Launch launch({.processes = std::vector<Command>(2, training("job", "lenet_ddp_2cpu", 1, settings)),
                 .folder = folder_.path(),
                 .grace_s = 1,
                 .timeout_s = 120});
  Launched job;
  {
    const SlowedProcess slowed(launch, 1);
    job = launch.wait();
  }
  for (const Finished& process : job.processes) {
    EXPECT_EQ(process.exit, 0) << process.err;
    EXPECT_EQ(process.err, "");
  }
  const json got = last_epoch(run("job"));
  ASSERT_FALSE(got.is_null());
  EXPECT_EQ(got["weights_hash"], last_epoch(run("one"))["weights_hash"]);
  EXPECT_EQ(schema_violations("metrics.schema.json", got), std::vector<std::string>());
  const json& straggler = got["straggler"];
  ASSERT_TRUE(straggler.is_object()) << got;
  EXPECT_EQ(straggler["rank"], 1);
  EXPECT_EQ(straggler["device"], "cpu:0");
  EXPECT_EQ(straggler["host"], got["devices"][1]["host"]);
  EXPECT_GT(straggler["waited_s"], 0);
  EXPECT_EQ(json::parse(text_of(run("job") / "summary.json"))["final"]["straggler"], straggler);
}

}  // namespace
}  // namespace dptrain::testing
