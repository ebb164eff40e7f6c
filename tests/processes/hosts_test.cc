// Jobs over several hosts: network namespaces of this machine, which mpirun reaches by a replacement for ssh.
#include "support/hosts.h"

namespace dptrain::testing {
namespace {

class HostsTest : public ::testing::Test {
 protected:
  static Command act(const std::string& what) { return {built_file("job_program"), what, "30", "1073741824"}; }
  Launched run(const Hosts& hosts, size_t count, const std::string& what) const {
    const Launched launched =
        Launch(hosts.launch_options(std::vector<Command>(count, act(what)), folder_.path())).wait();
    EXPECT_EQ(launched.launcher.exit, 0) << launched.launcher.err;
    for (const Finished& process : launched.processes) EXPECT_EQ(process.err, "");
    return launched;
  }

  ScratchFolder folder_;
};

TEST_F(HostsTest, MessagesCrossTheNetworkAsTheyWereSent) {
  DPTRAIN_NEEDS_MPI();
  const Hosts hosts(2);
  if (!hosts.absence().empty()) GTEST_SKIP() << hosts.absence();
  hosts.slow("1gbit");
  for (const Finished& process : run(hosts, 2, "messages").processes) EXPECT_EQ(process.out, "carried\n");
}

/// Heartbeats are such short messages.
TEST_F(HostsTest, ShortMessagesPassLongOnesOnASlowNetwork) {
  DPTRAIN_NEEDS_MPI();
  const Hosts hosts(2);
  if (!hosts.absence().empty()) GTEST_SKIP() << hosts.absence();
  hosts.slow("100mbit");
  for (const Finished& process : run(hosts, 2, "pass").processes) {
    double all_s = 0, longest_s = 0;
    std::istringstream(process.out) >> all_s >> longest_s;
    EXPECT_GT(all_s, 3) << "48 MB at 12.5 MB/s";
    EXPECT_LT(longest_s, 0.7 * all_s) << "behind nearly all of them";
  }
}

TEST_F(HostsTest, ProcessesAreNumberedHostByHost) {
  DPTRAIN_NEEDS_MPI();
  const Hosts hosts(3);
  if (!hosts.absence().empty()) GTEST_SKIP() << hosts.absence();
  const Launched launched = run(hosts, 4, "list");
  for (const Finished& process : launched.processes) {
    const auto lines = lines_of(process.out);
    ASSERT_EQ(lines.size(), 5u) << process.out;
    EXPECT_TRUE(lines[1].starts_with("host1 ")) << process.out;
    EXPECT_TRUE(lines[2].starts_with("host1 ")) << process.out;
    EXPECT_TRUE(lines[3].starts_with("host2 ")) << process.out;
    EXPECT_TRUE(lines[4].starts_with("host3 ")) << process.out;
  }
}

}  // namespace
}  // namespace dptrain::testing
