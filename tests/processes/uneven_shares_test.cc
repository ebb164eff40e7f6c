// Processes without a sample in an epoch's last batch take part in its step like the others.
#include "processes/job_training.h"

namespace dptrain::testing {
namespace {

/// Batches of 64, and a last one of a single sample, which the last part gets.
const Command kOneSampleLeft = {"--set", "epochs=2", "--set", "dataset.limit=129", "--set", "dataset.test_limit=200"};

class UnevenSharesTest : public JobTrainingTest {
 protected:
  static Command with(Command settings, const Command& more) {
    settings.insert(settings.end(), more.begin(), more.end());
    return settings;
  }
  json job(const std::string& name, const std::vector<int>& devices, const Command& settings,
           const std::string& config = "lenet_ddp_2cpu") const {
    std::vector<Command> processes;
    for (const int count : devices) processes.push_back(training(name, config, count, settings));
    for (const Finished& process : launch_processes(processes).processes) EXPECT_EQ(process.exit, 0) << process.err;
    return last_epoch(run(name));
  }
  json one(int devices, const Command& settings, const std::string& config = "lenet_ddp_2cpu") const {
    EXPECT_EQ(alone(training("one", config, devices, settings)).exit, 0);
    return last_epoch(run("one"));
  }
};

TEST_F(UnevenSharesTest, DdpAndDataParallelInsideIt) {
  const json expected = one(4, kOneSampleLeft);
  ASSERT_FALSE(expected.is_null());
  for (const char* inside : {"none", "data_parallel"}) {
    SCOPED_TRACE(inside);
    const json got =
        job(inside, {1, 3}, with(kOneSampleLeft, strategy(std::string("{name: ddp, inside: ") + inside + "}")));
    ASSERT_FALSE(got.is_null());
    EXPECT_EQ(got["weights_hash"], expected["weights_hash"]);
    EXPECT_EQ(got["test"]["loss"], expected["test"]["loss"]);
    EXPECT_EQ(got["train"]["samples"], 129);
    EXPECT_EQ(got["devices"][0]["samples"], 32) << "of two batches";
    EXPECT_EQ(got["devices"][3]["samples"], 33);
  }
}

/// Each loss is divided by the masked tokens of all processes, also in a process without samples.
TEST_F(UnevenSharesTest, DataParallelInsideDdpOnText) {
  const Command settings = {"--set", "steps=2",          "--set", "batch_size=12",
                            "--set", "dataset.limit=13", "--set", "dataset.test_limit=50"};
  const json expected = one(3, with(settings, strategy("ddp")), "bert_small_1cpu");
  const json got =
      job("job", {1, 2}, with(settings, strategy("{name: ddp, inside: data_parallel}")), "bert_small_1cpu");
  ASSERT_FALSE(got.is_null());
  EXPECT_EQ(got["weights_hash"], expected["weights_hash"]);
  EXPECT_EQ(got["train"]["samples"], 13);
  EXPECT_EQ(got["test"]["mlm_loss"], expected["test"]["mlm_loss"]);
  EXPECT_NEAR(got["train"]["mlm_loss"].get<double>(), expected["train"]["mlm_loss"].get<double>(), 1e-12);
}

TEST_F(UnevenSharesTest, AKeyValueStoreOnServers) {
  const Command parts = with(kOneSampleLeft, {"--set", "dataset.partition=by_process"});
  const json ddp = job("ddp", {1, 1}, with(parts, strategy("ddp")));
  const json sync = job("sync", {1, 1}, with(parts, strategy("{name: kvstore, type: dist_sync}")));
  ASSERT_FALSE(sync.is_null());
  EXPECT_EQ(sync["weights_hash"], ddp["weights_hash"]);
  EXPECT_EQ(sync["train"]["samples"], 129);
}

/// A push without samples changes nothing; its worker goes on, and so do the others.
TEST_F(UnevenSharesTest, AsynchronousUpdates) {
  for (const char* store :
       {"{name: kvstore, type: dist_async}", "{name: kvstore, type: dist_async, max_staleness: 0}"}) {
    const json got = job("async", {1, 1}, with(kOneSampleLeft, with(strategy(store), {"--overwrite"})));
    ASSERT_FALSE(got.is_null()) << store;
    EXPECT_EQ(got["train"]["samples"], 129) << store;
    EXPECT_EQ(got["step"], 6) << store;
    EXPECT_EQ(got["devices"][0]["samples"], 64) << store;
    EXPECT_EQ(got["devices"][1]["samples"], 65) << store;
    EXPECT_LT(got["test"]["loss"], 2.5) << store;
  }
}

}  // namespace
}  // namespace dptrain::testing
