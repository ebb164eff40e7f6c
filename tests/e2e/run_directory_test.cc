// Run directories through the program: never overwritten by accident, locked by one process, and their weights hashed.
#include <signal.h>

#include "e2e/command_fixture.h"

namespace dptrain {
namespace {

using testing::Finished;

class RunDirectoryTest : public testing::CommandTest {};

TEST_F(RunDirectoryTest, OneWithMetricsIsRefusedUnlessOverwritten) {
  train("run", {"seed=1"});
  const std::string metrics = text("run/metrics.jsonl");
  const Finished refused = run(training("run"));
  expect_failed(refused, 74, {"run", "already has metrics", "--overwrite", "--out"});
  EXPECT_EQ(refused.out, "");
  EXPECT_EQ(text("run/metrics.jsonl"), metrics);
  testing::Arguments arguments = training("run", {"epochs=2", "batch_size=160"});
  arguments.emplace_back("--overwrite");
  EXPECT_EQ(run(arguments).exit, 0);
  EXPECT_EQ(json_lines("run/metrics.jsonl").size(), 2u);
  EXPECT_TRUE(exists("run/checkpoints/step-000004"));
  EXPECT_FALSE(exists("run/checkpoints/step-000005")) << "left of the run before";
}

TEST_F(RunDirectoryTest, AMistakeOverwritesNothing) {
  train("run");
  for (const char* mistake : {"batch_size=0", "devices=cuda:99", "dataset={name: synthetic, shape: [1, 8, 8]}",
                              "dataset={name: mnist, dir: absent}", "init={from: absent}", "memory_limit=1000"}) {
    testing::Arguments arguments = training("run", {mistake});
    arguments.emplace_back("--overwrite");
    EXPECT_NE(run(arguments).exit, 0) << mistake;
    EXPECT_EQ(json_lines("run/metrics.jsonl").size(), 1u) << mistake;
    EXPECT_TRUE(exists("run/checkpoints")) << mistake;
  }
}

TEST_F(RunDirectoryTest, OneMayBeginFromTheWeightsThatItOverwrites) {
  train("run");
  testing::Arguments arguments = training("run", {"init={from: run}", "seed=1"});
  arguments.emplace_back("--overwrite");
  const Finished finished = run(arguments);
  EXPECT_EQ(finished.exit, 0) << finished.err;
  EXPECT_EQ(json_lines("run/metrics.jsonl").size(), 1u);
}

/// A name may contain a dot, and the file extension is optional.
TEST_F(RunDirectoryTest, IsCalledByTheConfigurationsName) {
  for (const char* rate : {"0.1", "0.2"}) {
    folder_.write(std::string("lr_") + rate + ".yaml", text("digits.yaml"));
    const Finished finished = run({"--config", std::string("lr_") + rate, "--quiet"});
    EXPECT_EQ(finished.exit, 0) << finished.err;
    EXPECT_TRUE(exists(std::string("runs/lr_") + rate + "/metrics.jsonl")) << rate;
  }
  EXPECT_EQ(run({"--config", "./lr_0.1.yaml", "--overwrite", "--quiet"}).exit, 0);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(path("runs")), {}), 2);
}

TEST_F(RunDirectoryTest, ANameThatIsNotUtf8IsRefused) {
  folder_.write("caf\xe9.yaml", text("digits.yaml"));
  expect_failed(run({"--config", "caf\xe9.yaml"}), 78, {"name", "in UTF-8"});
  EXPECT_FALSE(exists("runs"));
  train("caf\xe9");
  const Finished evaluated = run({"eval", "--config", "digits.yaml", "--checkpoint", "caf\xe9", "--json"});
  EXPECT_EQ(evaluated.exit, 0) << evaluated.err;
  EXPECT_TRUE(nlohmann::json::parse(evaluated.out).contains("loss"));
  EXPECT_EQ(run({"eval", "--config", "digits.yaml", "--checkpoint", "caf\xe9", "--quiet"}).out, "");
}

TEST_F(RunDirectoryTest, OneThatIsRemovedIsLeftToWhoMakesItAnew) {
  // Epochs are long, so that the run isn't about to write when it is stopped.
  testing::Process first(
      program(training("run", {"epochs=100000", "dataset.limit=4000", "checkpoint.every_epochs=0"})));
  first.wait_until([&] { return exists("run/metrics.jsonl"); });
  first.signal(SIGSTOP);
  std::filesystem::remove_all(path("run"));
  train("run", {"seed=1"});
  first.signal(SIGCONT);
  expect_failed(first.wait(), 74, {"run"});
  EXPECT_EQ(json_lines("run/metrics.jsonl").size(), 1u);
  EXPECT_EQ(json_of("run/summary.json")["exit"], 0);
  EXPECT_FALSE(exists("run/fault.json")) << "that is the other run's";
}

TEST_F(RunDirectoryTest, IsHeldByOneProcess) {
  testing::Process first(program(training("run", {"epochs=100000"})));
  first.wait_until([&] { return exists("run/config.yaml"); });
  for (const bool overwrite : {false, true}) {
    testing::Arguments arguments = training("run");
    if (overwrite) arguments.emplace_back("--overwrite");
    const Finished second = run(arguments);
    expect_failed(second, 74, {"run", "another process", "--out"});
    EXPECT_EQ(second.out, "");
  }
  first.signal(SIGTERM);
  EXPECT_EQ(first.wait().exit, 143) << "undisturbed";
}

TEST_F(RunDirectoryTest, WhatCannotBeWrittenIs74) {
  folder_.write("file", "");
  for (const char* out : {"file", "file/below", "/proc/run"}) {
    const Finished finished = run(training(out));
    expect_failed(finished, 74, {out, "choose another with --out"});
    EXPECT_EQ(finished.out, "");
  }
}

TEST_F(RunDirectoryTest, AHashIsOfTheBitsWhereverTheyLie) {
  train("run");
  const std::string hash = this->hash("run");
  EXPECT_EQ(this->hash("run/checkpoints/step-000005"), hash);
  EXPECT_EQ(this->hash("run/checkpoints/step-000005/model.safetensors"), hash);
  std::filesystem::copy_file(path("run/checkpoints/step-000005/model.safetensors"), path("copy"));
  EXPECT_EQ(this->hash("copy"), hash);
  std::string bytes = text("copy");
  bytes.back() = static_cast<char>(bytes.back() ^ 1);
  folder_.write("copy", bytes);
  EXPECT_NE(this->hash("copy"), hash);
}

TEST_F(RunDirectoryTest, DamagedWeightsAreRefused) {
  train("run");
  std::string bytes = text("run/checkpoints/step-000005/model.safetensors");
  folder_.write("short.safetensors", bytes.substr(0, bytes.size() - 1));
  const Finished finished = run({"hash", "short.safetensors"});
  expect_failed(finished, 65, {"short.safetensors: ", "expected", "got", "damaged"});
  EXPECT_EQ(finished.out, "");
  expect_failed(run({"hash", "absent"}), 66, {"absent", "nothing there", "run directory"});
  bytes[0] = bytes[7] = '\x7f';
  folder_.write("long.safetensors", bytes);
  expect_failed(run({"hash", "long.safetensors"}), 65,
                {"long.safetensors: the header", "expected a length of at most"});
}

}  // namespace
}  // namespace dptrain
