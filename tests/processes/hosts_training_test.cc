// LeNet learns real digits on several "hosts", with weights bit-identical to one process's.
#include <fmt/format.h>

#include "processes/job_training.h"
#include "support/hosts.h"

namespace dptrain::testing {
namespace {

class HostsTrainingTest : public JobTrainingTest {
 protected:
  Launched launch_on(const Hosts& hosts, const std::vector<Command>& processes) const {
    LaunchOptions options = hosts.launch_options(processes, folder_.path());
    options.timeout_s = 150;
    return Launch(options).wait();
  }

  /// Trains with two workers of two devices each and two servers, started by launch.sh.
  void learn_by_servers(const Hosts& hosts, const std::string& type, int epochs) const {
    Command command = hosts.on(1);
    const auto add = [&command](const Command& more) { command.insert(command.end(), more.begin(), more.end()); };
    add({"/usr/bin/env", "OMPI_ALLOW_RUN_AS_ROOT=1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1", "OMPI_MCA_btl=tcp,self"});
    add({"OMPI_MCA_btl_tcp_if_include=10.77.0.0/24", "OMPI_MCA_oob_tcp_if_include=10.77.0.0/24"});
    add({source_file("scripts/launch.sh"), "-n", "2", "-s", "2", "-H", "10.77.0.1,10.77.0.2"});
    add({"--agent", hosts.agent(), "--"});
    add(training(type, "lenet_kvstore_" + type + "_2x2cpu", 2, {"--set", fmt::format("epochs={}", epochs)}));
    const Finished launched =
        Process({.command = command, .folder = folder_.path(), .timeout_s = 300, .out = {}, .err = {}}).wait();
    ASSERT_EQ(launched.exit, 0) << launched.err;
    const json got = last_epoch(run(type));
    EXPECT_EQ(got["epoch"], epochs);
    EXPECT_GE(got["test"]["accuracy"], 0.965);
    EXPECT_EQ(got["staleness"].is_null(), type == "dist_sync");
    EXPECT_EQ(got["world_size"], 4);
  }
};

/// Two hosts with two CPU workers each give bit-identical weights to one process with four, on real digits.
TEST_F(HostsTrainingTest, TwoHostsOfTwoWorkersLearnAsFourWorkersDo) {
  const Hosts hosts(2);
  if (!hosts.absence().empty()) GTEST_SKIP() << hosts.absence();
  for (const char* config : {"lenet_ddp_2x2cpu", "lenet_hybrid_2x2cpu"}) {
    SCOPED_TRACE(config);
    const Command settings = {"--overwrite", "--set", "epochs=3"};
    const Finished one = alone(training("one", config, 4, settings));
    ASSERT_EQ(one.exit, 0) << one.err;
    const Launched job = launch_on(hosts, std::vector<Command>(2, training("job", config, 2, settings)));
    for (const Finished& process : job.processes) ASSERT_EQ(process.exit, 0) << process.err;
    const json expected = last_epoch(run("one")), got = last_epoch(run("job"));
    EXPECT_EQ(got["epoch"], 3);
    EXPECT_EQ(got["weights_hash"], expected["weights_hash"]);
    EXPECT_EQ(got["test"]["accuracy"], expected["test"]["accuracy"]);
    EXPECT_GE(got["test"]["accuracy"], 0.965);
    EXPECT_EQ(got["devices"][1]["host"], "host1");
    EXPECT_EQ(got["devices"][2]["host"], "host2");
  }
}

TEST_F(HostsTrainingTest, AReplicaMayLieOnTwoHosts) {
  const Hosts hosts(2);
  if (!hosts.absence().empty()) GTEST_SKIP() << hosts.absence();
  hosts.slow("100mbit");
  const Command settings = {"--set", "epochs=1", "--set", "dataset.limit=320"};
  ASSERT_EQ(alone(training("one", "lenet_model_parallel_2x1cpu", 2, settings)).exit, 0);
  const Launched job =
      launch_on(hosts, std::vector<Command>(2, training("job", "lenet_model_parallel_2x1cpu", 1, settings)));
  for (const Finished& process : job.processes) ASSERT_EQ(process.exit, 0) << process.err;
  EXPECT_EQ(last_epoch(run("job"))["weights_hash"], last_epoch(run("one"))["weights_hash"]);
}

/// Each host splits its samples over its devices, gathers their outputs and updates on its first device.
TEST_F(HostsTrainingTest, DataParallelInsideHostsEndsAsDdpOverAllDevices) {
  const Hosts hosts(2);
  if (!hosts.absence().empty()) GTEST_SKIP() << hosts.absence();
  ASSERT_EQ(alone(training("one", "lenet_ddp_2x2cpu", 4, kLittleData)).exit, 0);
  const Launched job =
      launch_on(hosts, std::vector<Command>(2, training("job", "lenet_ddp_inside_2x2cpu", 2, kLittleData)));
  for (const Finished& process : job.processes) ASSERT_EQ(process.exit, 0) << process.err;
  const json got = last_epoch(run("job"));
  EXPECT_EQ(got["weights_hash"], last_epoch(run("one"))["weights_hash"]);
  EXPECT_EQ(got["devices"][2]["host"], "host2");
}

/// The setup of MXNet's tutorial on distributed training: two workers, two servers and the scheduler. A synchronous
/// store adds up and updates as ddp does with the same samples.
TEST_F(HostsTrainingTest, WorkersLearnByServersOnTheirHosts) {
  const Hosts hosts(2);
  if (!hosts.absence().empty()) GTEST_SKIP() << hosts.absence();
  learn_by_servers(hosts, "dist_sync", 3);
  const Command ddp =
      training("ddp", "lenet_ddp_2x2cpu", 2, {"--set", "dataset.partition=by_process", "--set", "epochs=3"});
  const Launched job = launch_on(hosts, {ddp, ddp});
  for (const Finished& process : job.processes) ASSERT_EQ(process.exit, 0) << process.err;
  EXPECT_EQ(last_epoch(run("dist_sync"))["weights_hash"], last_epoch(run("ddp"))["weights_hash"]);
}

/// An asynchronous store learns differently each time; more epochs make the result more certain.
TEST_F(HostsTrainingTest, WorkersThatWaitForNobodyLearnByServersOnTheirHosts) {
  const Hosts hosts(2);
  if (!hosts.absence().empty()) GTEST_SKIP() << hosts.absence();
  learn_by_servers(hosts, "dist_async", 6);
}

TEST_F(HostsTrainingTest, HostsHaveListsOfTheirOwnOverASlowLink) {
  const Hosts hosts(3);
  if (!hosts.absence().empty()) GTEST_SKIP() << hosts.absence();
  hosts.slow("100mbit");
  const Command settings = {"--set", "epochs=1", "--set", "dataset.limit=320", "--set", "dataset.test_limit=200"};
  ASSERT_EQ(alone(training("one", "lenet_ddp_2cpu", 5, settings)).exit, 0);
  Command command = training("job", "lenet_ddp_2cpu", 1, settings);
  command.insert(command.end(), {"--set", "hosts={host1: [cpu:0, cpu:1], host2: [cpu:0], host3: [cpu:0-1]}"});
  const Launched job = launch_on(hosts, {command, command, command});
  for (const Finished& process : job.processes) ASSERT_EQ(process.exit, 0) << process.err;
  const json got = last_epoch(run("job"));
  EXPECT_EQ(got["weights_hash"], last_epoch(run("one"))["weights_hash"]);
  std::vector<std::string> of_hosts;
  for (const json& device : got["devices"]) of_hosts.push_back(device["host"]);
  EXPECT_EQ(of_hosts, (std::vector<std::string>{"host1", "host1", "host2", "host3", "host3"}));
}

}  // namespace
}  // namespace dptrain::testing
