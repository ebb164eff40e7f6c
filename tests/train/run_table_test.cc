#include "train/run_table.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "support/expect_error.h"
#include "support/idx_files.h"
#include "support/json_schema.h"
#include "train/directory_lock.h"

namespace dptrain::train {
namespace {

using testing::expect_error;

class RunTableTest : public ::testing::Test {
 protected:
  /// The epoch's line of metrics.jsonl, with the keys that the table reads.
  static std::string line(int epoch, double seconds, double accuracy) {
    return nlohmann::json{{"epoch", epoch},
                          {"step", 10 * epoch},
                          {"train", {{"loss", 0.5}, {"seconds", seconds}}},
                          {"test", {{"loss", 0.25}, {"accuracy", accuracy}}},
                          {"weights_hash", std::string(64, '0')}}
               .dump() +
           "\n";
  }
  void write_run(const std::string& name, const std::string& config, const std::string& metrics, int exit = -1) {
    std::filesystem::create_directories(scratch_.path() / name);
    scratch_.write(name + "/config.yaml", config);
    if (!metrics.empty()) scratch_.write(name + "/metrics.jsonl", metrics);
    if (exit >= 0)
      scratch_.write(name + "/summary.json",
                     nlohmann::json{{"exit", exit}, {"steps", 20}, {"weights_hash", std::string(64, 'f')}}.dump());
  }
  nlohmann::json table_of(const std::vector<std::filesystem::path>& paths) {
    const auto document = nlohmann::json::parse(RunTable(paths).json());
    EXPECT_EQ(testing::schema_violations("table.schema.json", document), std::vector<std::string>());
    return document["runs"];
  }

  testing::ScratchFolder scratch_;
};

TEST_F(RunTableTest, ShowsWhatRunsDifferInAndHowFarTheyAre) {
  write_run("done", "batch_size: 8\nseed: 0\n", line(1, 2, 0.5) + line(2, 1, 0.75), 0);
  write_run("stopped", "batch_size: 16\nseed: 0\n", line(1, 2, 0.5), 130);
  write_run("begun", "batch_size: 8\nseed: 0\n", "");
  const auto runs = table_of({scratch_.path()});
  ASSERT_EQ(runs.size(), 3u);
  EXPECT_EQ(runs[0]["run"], "begun") << "in the order of their names";
  EXPECT_EQ(runs[0]["state"], "unfinished");
  EXPECT_TRUE(runs[0]["accuracy"].is_null());
  EXPECT_EQ(runs[1]["state"], "finished");
  EXPECT_EQ(runs[1]["config"], (nlohmann::json{{"batch_size", "8"}})) << "seeds are alike";
  EXPECT_EQ(runs[1]["epochs"], 2);
  EXPECT_EQ(runs[1]["accuracy"], 0.75);
  EXPECT_EQ(runs[1]["seconds"], 3.0);
  EXPECT_EQ(runs[2]["state"], "stopped");
  const std::string text = RunTable({scratch_.path()}).text(80);
  EXPECT_TRUE(text.starts_with("run      batch_size  state ")) << text;
  {
    const DirectoryLock training(scratch_.path() / "begun"), again(scratch_.path() / "done");
    const auto locked = table_of({scratch_.path()});
    EXPECT_EQ(locked[0]["state"], "running");
    EXPECT_EQ(locked[1]["state"], "finished");
  }
  EXPECT_EQ(table_of({scratch_.path()})[0]["state"], "unfinished");
}

TEST_F(RunTableTest, RunsComeInTheOrderThatIsAskedFor) {
  write_run("a", "batch_size: 128\nseed: 0\n", line(1, 3, 0.5));
  write_run("b", "batch_size: 16\nseed: 0\n", line(1, 2, 0.75));
  write_run("c", "batch_size: 64\nseed: 0\n", "");
  const auto names = [&](const std::string& key) {
    RunTable table({scratch_.path()});
    table.sort_by(key);
    std::string order;
    const auto document = nlohmann::json::parse(table.json());
    for (const auto& run : document["runs"]) {
      order += run["run"];
      EXPECT_EQ(run["config"]["batch_size"], run["run"] == "a" ? "128" : run["run"] == "b" ? "16" : "64");
    }
    return order;
  };
  EXPECT_EQ(names("accuracy"), "bac");
  EXPECT_EQ(names("test_loss"), "abc") << "of equal ones the first stays first, who has none is last";
  EXPECT_EQ(names("seconds"), "bac");
  EXPECT_EQ(names("batch_size"), "bca") << "as numbers";
  write_run("d", "batch_size: 64\nseed: 0\nstrategy: ddp\n", "");
  write_run("a", "batch_size: 128\nseed: 0\nstrategy: single\n", line(1, 3, 0.5));
  EXPECT_EQ(names("strategy"), "dabc") << "who has no such key is last";
  expect_error(ExitCode::usage, {"--sort: expected one of accuracy, ", ", batch_size, strategy, got 'seed'"},
               [&] { names("seed"); });
}

TEST_F(RunTableTest, HalfALineIsLeftForTheNextLook) {
  const std::string second = line(2, 1, 0.75);
  for (size_t bytes = 1; bytes < second.size(); bytes += 7) {
    write_run("run", "seed: 0\n", line(1, 2, 0.5) + second.substr(0, bytes));
    EXPECT_EQ(table_of({scratch_.path() / "run"})[0]["epochs"], 1) << bytes;
  }
}

TEST_F(RunTableTest, RunsOfOneNameAreToldApart) {
  for (const char* name : {"single/seed-0", "ddp/seed-0"}) write_run(name, "seed: 0\n", "");
  const auto runs = table_of({scratch_.path()});
  EXPECT_EQ(runs[0]["run"], "ddp/seed-0");
  EXPECT_EQ(runs[1]["run"], "single/seed-0");
  EXPECT_EQ(table_of({scratch_.path() / "ddp/seed-0/"})[0]["run"], "seed-0");
}

TEST_F(RunTableTest, ARunThatIsNamedTwiceIsThereOnce) {
  for (const char* name : {"a", "b"}) write_run(name, "seed: 0\n", line(1, 2, 0.5));
  EXPECT_EQ(table_of({scratch_.path(), scratch_.path() / "b", scratch_.path() / "a/../b"}).size(), 2u);
}

TEST_F(RunTableTest, WhatIsNoRunIsLeftOutAndNamed) {
  write_run("whole", "seed: 1\n", line(1, 2, 0.5));
  const auto absent = scratch_.path() / "absent", whole = scratch_.path() / "whole";
  EXPECT_EQ(table_of({absent, whole}).size(), 1u);
  const RunTable table({absent, whole, scratch_.path() / "gone"});
  ASSERT_TRUE(table.left_out());
  EXPECT_EQ(table.left_out()->code(), ExitCode::missing_file);
  ASSERT_EQ(table.left_out()->lines().size(), 2u);
  EXPECT_NE(table.left_out()->lines()[1].find("gone: expected a run directory"), std::string::npos);
  EXPECT_TRUE(RunTable({absent}).empty());
  expect_error(ExitCode::missing_file, {"absent", "a run directory", "nothing there"}, [&] { find_runs(absent); });
}

TEST_F(RunTableTest, ARunThatCantBeReadIsLeftOutAndNamed) {
  write_run("broken", "seed: 0\n", line(1, 2, 0.5) + "{\"epoch\": 1}\n");
  write_run("config", "seed: [0\n", line(1, 2, 0.5));
  write_run("cut", "seed: 0\n", line(1, 2, 0.5) + line(2, 1, 0.75) + "{\"epoch\": 3,\n");
  write_run("whole", "seed: 1\n", line(1, 2, 0.5));
  const RunTable table({scratch_.path()});
  ASSERT_TRUE(table.left_out());
  EXPECT_EQ(table.left_out()->code(), ExitCode::bad_data);
  const std::vector<std::string> words = {
      "broken/metrics.jsonl: expected a file that a run of dptrain has written, got no key 'step' in line 2",
      "config/config.yaml:1:7: expected a ] that closes this [",
      "cut/metrics.jsonl: expected a file that a run of dptrain has written, got no JSON in line 3"};
  ASSERT_EQ(table.left_out()->lines().size(), words.size());
  for (size_t i = 0; i < words.size(); ++i)
    EXPECT_NE(table.left_out()->lines()[i].find(words[i]), std::string::npos) << table.left_out()->lines()[i];
  const auto runs = table_of({scratch_.path()});
  ASSERT_EQ(runs.size(), 1u);
  EXPECT_EQ(runs[0]["run"], "whole");
  EXPECT_TRUE(RunTable({scratch_.path() / "broken"}).empty());
}

}  // namespace
}  // namespace dptrain::train
