// trace.json of a job: the main process writes the timelines of all ranks.
#include <map>

#include "processes/job_training.h"

namespace dptrain::testing {
namespace {

class TraceJobTest : public JobTrainingTest {
 protected:
  /// The contents of trace.json of two processes with a device each, by rank.
  std::map<int, std::vector<json>> traced(const Command& settings) const {
    Command more = kLittleData;
    more.insert(more.end(), settings.begin(), settings.end());
    more.insert(more.end(), {"--trace", "2-4"});
    const Launched job = launch_processes(std::vector<Command>(2, training("job", "lenet_ddp_2cpu", 1, more)));
    for (const Finished& process : job.processes) EXPECT_EQ(process.exit, 0) << process.err;
    const json trace = json::parse(text_of(run("job") / "trace.json"));
    std::map<int, std::vector<json>> spans;
    for (const json& event : trace["traceEvents"])
      if (event["ph"] == "X") spans[event["pid"]].push_back(event);
    return spans;
  }
  static std::vector<json> named(const std::vector<json>& spans, const std::string& begin) {
    std::vector<json> found;
    for (const json& span : spans)
      if (span["name"].get<std::string>().starts_with(begin)) found.push_back(span);
    return found;
  }
};

TEST_F(TraceJobTest, RanksOfAllProcessesShareAClock) {
  const auto spans = traced({});
  ASSERT_EQ(spans.size(), 4U) << "two ranks, two main threads";
  const auto first = named(spans.at(0), "all_reduce"), second = named(spans.at(1), "all_reduce");
  ASSERT_FALSE(first.empty());
  ASSERT_EQ(first.size(), second.size());
  for (size_t i = 0; i < first.size(); ++i) {
    // No rank has a sum before the other rank has arrived.
    EXPECT_GE(first[i]["ts"].get<double>() + first[i]["dur"].get<double>(), second[i]["ts"].get<double>());
    EXPECT_GE(second[i]["ts"].get<double>() + second[i]["dur"].get<double>(), first[i]["ts"].get<double>());
  }
  for (const int rank : {0, 1}) EXPECT_EQ(named(spans.at(rank), "step ").size(), 3U);
}

TEST_F(TraceJobTest, MessagesToServersAreShown) {
  const auto spans = traced({"--set", "strategy={name: kvstore, type: dist_sync}"});
  for (const int rank : {0, 1})
    for (const char* server : {"server 0", "server 1"}) {
      EXPECT_FALSE(named(spans.at(rank), std::string("send to ") + server).empty());
      EXPECT_FALSE(named(spans.at(rank), std::string("receive from ") + server).empty());
    }
}

TEST_F(TraceJobTest, ProcessesThatArentInStepBringTheirsTogetherAtTheEnd) {
  const auto spans = traced({"--set", "strategy={name: kvstore, type: dist_async}"});
  for (const int rank : {0, 1}) EXPECT_EQ(named(spans.at(rank), "step ").size(), 3U) << "rank " << rank;
}

}  // namespace
}  // namespace dptrain::testing
