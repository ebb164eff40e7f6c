// What is printed on stdout and stderr, and what happens if they can't be written.
#include <cstdlib>

#include "config/config_document.h"
#include "e2e/command_fixture.h"
#include "support/source_tree.h"

namespace dptrain {
namespace {

using testing::Arguments;
using testing::Finished;
using testing::lines_of;

/// The path of libm in this process.
std::string libm() {
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);)
    if (line.find("/libm.so") != std::string::npos || line.find("/libm-") != std::string::npos)
      return line.substr(line.find('/'));
  return {};
}

class OutputTest : public testing::CommandTest {
 protected:
  static Arguments with(Arguments arguments, const Arguments& more) {
    arguments.insert(arguments.end(), more.begin(), more.end());
    return arguments;
  }
  /// Runs with stdout or stderr redirected to a file such as /dev/full, or "closed".
  Finished run_into(const Arguments& arguments, const char* out, const char* err) const {
    testing::ProcessOptions options = program(arguments);
    options.out = out;
    options.err = err;
    return testing::Process(options).wait();
  }
};

TEST_F(OutputTest, JsonIsTheMetricsAndNothingElse) {
  const Finished finished = run(with(training("run", {"epochs=2"}), {"--json"}));
  EXPECT_EQ(finished.exit, 0);
  EXPECT_EQ(finished.out, text("run/metrics.jsonl"));
  EXPECT_EQ(lines_of(finished.out).size(), 2u);
  EXPECT_NE(finished.err.find("lenet on mnist"), std::string::npos) << "the rest is on stderr";
  const Finished quiet = run(with(training("quiet"), {"--json", "--quiet"}));
  EXPECT_EQ(quiet.out, text("quiet/metrics.jsonl"));
  EXPECT_EQ(quiet.err, "");
}

TEST_F(OutputTest, QuietSaysNothing) {
  const Finished finished = run(with(training("run"), {"--quiet"}));
  EXPECT_EQ(finished.exit, 0);
  EXPECT_EQ(finished.out + finished.err, "");
  const Finished refused = run(with(training("run"), {"--quiet"}));
  expect_failed(refused, 74, {"--overwrite"});
}

TEST_F(OutputTest, ATableIsForPeople) {
  const Finished finished = train("run", {"epochs=2"});
  for (const char* words : {"lenet on mnist, ddp over cpu:0, cpu:1", "1/2", "2/2", "peak memory",
                            "exposed communication", "2 epochs, 10 steps", "run: metrics.jsonl"})
    EXPECT_NE(finished.out.find(words), std::string::npos) << words << "\n" << finished.out;
  EXPECT_EQ(finished.out.find('\x1b'), std::string::npos) << "no escape sequences outside a terminal";
}

TEST_F(OutputTest, TheRateThatFollowsFromTheBatchIsPrintedAndRecorded) {
  const Finished finished = train("run", {"learning_rate=0.05", "lr_rule={name: linear, reference_batch_size: 16}"});
  EXPECT_NE(finished.out.find("batch 64 (32 per device), learning rate 0.2;"), std::string::npos) << finished.out;
  EXPECT_EQ(last_metrics("run")["learning_rate"], 0.2);
  EXPECT_EQ(json_of("run/summary.json")["final"]["learning_rate"], 0.2);
}

TEST_F(OutputTest, ABatchIsToldOfAllDevicesAndOfEach) {
  const auto expect_told = [&](const std::string& words, const Arguments& overrides) {
    const Finished finished = train("run", overrides);
    EXPECT_NE(finished.out.find(words), std::string::npos) << words << "\n" << finished.out;
    std::filesystem::remove_all(path("run"));
  };
  expect_told("batch 64, learning", {"devices=cpu:0", "strategy=single"});
  expect_told("batch 64 (21 or 22 per device), learning", {"devices=cpu:0-2"});
  expect_told("batch 64 (48 + 16), learning", {"split=[3, 1]"});
  expect_told("batch 96 (32 per device), learning", {"devices=cpu:0-2", "batch_size=", "per_device_batch_size=32"});
  expect_told("batch 64 (21 or 22 per device), learning", {"devices=cpu:0-2", "shards=12"});
  expect_told("batch 64, learning", {"strategy={name: model_parallel, stages: [1, 2], micro_batches: 4}"});
}

TEST_F(OutputTest, APipelineTellsItsBubble) {
  const Finished finished = train("run", {"strategy={name: model_parallel, stages: [1, 2], micro_batches: 4}"});
  EXPECT_NE(finished.out.find("bubble: devices waited for each other"), std::string::npos) << finished.out;
  EXPECT_NE(finished.out.find(", by the schedule "), std::string::npos) << finished.out;
}

TEST_F(OutputTest, DumpConfigShowsWhereValuesComeFromAndStops) {
  const Finished finished = run(with(training("run", {"batch_size=30"}), {"--dump-config", "--devices", "cpu:0-2"}));
  EXPECT_EQ(finished.exit, 0);
  EXPECT_EQ(finished.err, "");
  EXPECT_FALSE(exists("run"));
  const auto expect_line = [&](const std::string& value, const std::string& origin) {
    for (const auto& line : lines_of(finished.out))
      if (line.starts_with(value)) {
        EXPECT_TRUE(line.ends_with("# " + origin)) << line;
        return;
      }
    ADD_FAILURE() << "no " << value << " in\n" << finished.out;
  };
  expect_line("model: lenet", "digits.yaml:1");
  expect_line("  limit: 320", "digits.yaml:2");
  expect_line("batch_size: 30", "--set");
  expect_line("devices: [cpu:0, cpu:1, cpu:2]", "--devices");
  expect_line("seed: 0", "default");
  expect_line("  overlap: true", "default");
}

TEST_F(OutputTest, WhatIsDumpedIsAConfiguration) {
  const Finished finished = run(with(training("run"), {"--dump-config"}));
  folder_.write("dumped.yaml", finished.out);
  const Finished again = run({"--config", "dumped.yaml", "--out", "again"});
  EXPECT_EQ(again.exit, 0) << again.err;
  train("run");
  EXPECT_EQ(hash("run"), hash("again"));
}

TEST_F(OutputTest, EveryConfigurationOfTheTreeIsValid) {
  int count = 0;
  for (const auto& entry : std::filesystem::directory_iterator(testing::source_file("configs"))) {
    // Link files, which plans read, are in a subfolder.
    if (entry.path().extension() != ".yaml") continue;
    SCOPED_TRACE(entry.path().string());
    ++count;
    // Named as a user would name it, with CPU workers in place of GPUs.
    const ConfigNode root = load_config(entry.path());
    const std::string name = entry.path().stem();
    Arguments arguments = {"--config", name, "--dump-config"};
    for (const auto& assignment : testing::on_cpu_workers(name, root))
      arguments.insert(arguments.end(), {"--set", assignment});
    const Finished finished = run(arguments);
    EXPECT_EQ(finished.exit, 0) << finished.err;
  }
  EXPECT_GE(count, 1);
}

/// Libraries that only GPUs need are loaded when a GPU is used; without them everything else works.
TEST_F(OutputTest, WithoutCublasLtOnlyGpusAreMissed) {
  const std::string with = lines_of(run({"--version"}).out).at(1);
  if (with.find("CUDA") == std::string::npos) GTEST_SKIP() << "CUDA is not built in";
  if (with.find("simulated") != std::string::npos) GTEST_SKIP() << "the simulated GPU's cuBLASLt is a part of dptrain";
  const std::string major =
      with.substr(with.find("CUDA ") + 5, with.find('.', with.find("CUDA ")) - with.find("CUDA ") - 5);
  // A wrong library of that name is found before the right one.
  std::filesystem::create_directory(path("lib"));
  std::filesystem::copy_file(libm(), path("lib") / ("libcublasLt.so." + major));
  const auto without = [&](Arguments arguments) {
    testing::ProcessOptions options = program(std::move(arguments));
    const char* const before = std::getenv("LD_LIBRARY_PATH");
    const std::string folders = path("lib").string() + (before == nullptr ? "" : std::string(":") + before);
    options.command.insert(options.command.begin(), {"/usr/bin/env", "LD_LIBRARY_PATH=" + folders});
    return testing::Process(options).wait();
  };
  const Finished version = without({"--version"});
  EXPECT_EQ(version.exit, 0) << version.err;
  EXPECT_NE(version.out.find("cuBLASLt (not found)"), std::string::npos) << version.out;
  const Finished trained = without(training("run"));
  EXPECT_EQ(trained.exit, 0) << trained.err;
  const auto libraries = json_of("run/summary.json")["environment"]["libraries"];
  EXPECT_EQ(libraries.dump().find("cuBLASLt"), std::string::npos) << "a run on CPU workers has none: " << libraries;
  folder_.write("again.yaml", text("digits.yaml"));
  const Finished compared = without({"compare", "digits.yaml", "again.yaml", "--out", "compared"});
  EXPECT_EQ(compared.exit, 0) << compared.err;
  EXPECT_EQ(json_of("compared/digits/summary.json")["environment"]["libraries"], libraries);
}

TEST_F(OutputTest, OtherCommandsPrintWhatTheySay) {
  const Finished version = run({"--version"});
  EXPECT_EQ(version.exit, 0);
  const auto lines = lines_of(version.out);
  ASSERT_EQ(lines.size(), 4u) << version.out;
  EXPECT_TRUE(lines[0].starts_with("dptrain 0."));
  EXPECT_TRUE(lines[1].starts_with("with: oneDNN "));
  EXPECT_TRUE(lines[2].starts_with("without: "));
  EXPECT_TRUE(lines[3].starts_with("built by: "));

  const auto devices = nlohmann::json::parse(run({"devices", "--json"}).out);
  EXPECT_GE(devices["cpu"]["cores"], 1);
  EXPECT_EQ(devices["cpu"]["workers"], 64);
  EXPECT_GT(devices["cpu"]["memory_bytes"], 0);
  EXPECT_TRUE(devices["cuda"].is_array());
  EXPECT_NE(run({"devices"}).out.find("cpu:0 to cpu:63"), std::string::npos);

  const auto schema = nlohmann::json::parse(run({"schema"}).out);
  EXPECT_EQ(schema["$schema"], "https://json-schema.org/draft/2020-12/schema");
  for (const char* key : {"model", "dataset", "learning_rate"})
    EXPECT_NE(std::ranges::find(schema["required"], key), schema["required"].end()) << key;
  for (const auto& dataset : schema["properties"]["dataset"]["anyOf"])
    if (dataset.contains("properties") && dataset["properties"]["name"]["const"] == "synthetic") {
      EXPECT_TRUE(dataset["properties"].contains("shape")) << "of images";
      EXPECT_TRUE(dataset["properties"].contains("full")) << "of text";
    }
  EXPECT_NE(run({"--help"}).out.find("dptrain --config lenet_ddp_2cpu"), std::string::npos);
}

TEST_F(OutputTest, OptionsThatExcludeEachOtherStandInTheirColumns) {
  const std::string help = run({"table", "--help"}).out;
  EXPECT_NE(help.find("\n  --json                      one JSON document\n"), std::string::npos) << help;
}

TEST_F(OutputTest, HelpSaysWhichNumbersAnOptionTakes) {
  const std::string help = run({"bench", "comm", "--help"}).out;
  EXPECT_NE(help.find("\n  --repeats N=20              calls that the median is of (1 to 10000)\n"), std::string::npos)
      << help;
  EXPECT_NE(help.find("\n  --mb MIB=[0.0625,1,25] ...  MiB of each rank's buffer (1e-06 to 4096)\n"), std::string::npos)
      << help;
}

TEST_F(OutputTest, DevicesOfOneNameAreToldApart) {
  const Finished twice = run(with(training("run"), {"--devices", "cpu:0,cpu:0,cpu:1"}));
  EXPECT_EQ(twice.exit, 0) << twice.err;
  for (const char* row : {"\ncpu:0, rank 0 ", "\ncpu:0, rank 1 ", "\ncpu:1  "})
    EXPECT_NE(twice.out.find(row), std::string::npos) << twice.out;
}

TEST_F(OutputTest, HelpFitsEightyColumns) {
  for (const Arguments& arguments :
       {Arguments{"--help"}, Arguments{"train", "--help"}, Arguments{"eval", "--help"}, Arguments{"predict", "--help"},
        Arguments{"compare", "--help"}, Arguments{"verify", "--help"}, Arguments{"table", "--help"},
        Arguments{"report", "--help"}, Arguments{"bench", "comm", "--help"}}) {
    std::istringstream help(run(arguments).out);
    for (std::string line; std::getline(help, line);) EXPECT_LE(line.size(), 80u) << arguments[0] << ": " << line;
  }
}

TEST_F(OutputTest, AStdoutThatCannotBeWrittenIs74) {
  for (const Arguments& arguments : {Arguments{"--version"}, Arguments{"--help"}, Arguments{"schema"},
                                     Arguments{"devices"}, with(training("run"), {"--dump-config"})}) {
    SCOPED_TRACE(arguments[0]);
    expect_failed(run_into(arguments, "/dev/full", ""), 74, {"standard output"});
    expect_failed(run_into(arguments, "closed", ""), 74, {"standard output"});
  }
  const std::string sentence = "standard output: could not write: No space left on device. Stopped after ";
  expect_failed(run_into(training("run"), "/dev/full", ""), 74, {sentence, "--resume goes on from them"});
}

TEST_F(OutputTest, AReaderThatIsGoneIs74) {
  for (const Arguments& arguments : {Arguments{"schema"}, with(training("run"), {"--dump-config"})}) {
    SCOPED_TRACE(arguments[0]);
    std::string command = testing::dptrain_binary();
    for (const std::string& argument : arguments) command += " " + argument;
    testing::ProcessOptions options = program({});
    options.command = {"/bin/bash", "-c", "exec 3> >(true); wait $!; exec " + command + " >&3"};
    expect_failed(testing::Process(options).wait(), 74, {"standard output: its reader has gone"});
  }
}

TEST_F(OutputTest, ColumnsSayHowWideTablesAre) {
  train("runs/a");
  train("runs/b", {"learning_rate=0.01", "batch_size=32", "optimizer.momentum=0.5"});
  const auto lines_at = [&](const std::string& columns) {
    testing::ProcessOptions options = program({"table", "runs"});
    options.command.insert(options.command.begin(), {"/usr/bin/env", "COLUMNS=" + columns});
    const Finished finished = testing::Process(options).wait();
    EXPECT_EQ(finished.exit, 0) << finished.err;
    return lines_of(finished.out);
  };
  EXPECT_EQ(lines_at("300").size(), 3u);
  EXPECT_GT(lines_at("60").size(), 3u);
  for (const auto& line : lines_at("60")) EXPECT_LE(line.size(), 60u);
}

TEST_F(OutputTest, ABatchLargerThanTheDataIsToldOf) {
  const Finished trained = run(training("run", {"batch_size=1000"}));
  EXPECT_EQ(trained.exit, 0) << trained.err;
  const Finished compared = run({"compare", "--config", "digits.yaml", "--strategies", "single,ddp", "--set",
                                 "batch_size=1000", "--out", "compared", "--progress", "none"});
  EXPECT_EQ(compared.exit, 0) << compared.err;
  for (const Finished* finished : {&trained, &compared})
    EXPECT_NE(finished->err.find("warning: batch_size: 1000 is more than the 320 samples"), std::string::npos)
        << finished->err;
}

TEST_F(OutputTest, AWarmUpThatOutlastsTheTrainingIsToldOf) {
  const Finished trained = run(training("run", {"schedule={name: cosine, warmup_epochs: 4}"}));
  EXPECT_EQ(trained.exit, 0) << trained.err;
  EXPECT_NE(trained.err.find("schedule: its warm-up of 20 steps is longer than the run's 5: the learning rate ends "
                             "at 0.0125 instead of 0.05"),
            std::string::npos)
      << trained.err;
  EXPECT_EQ(run(training("in_time", {"schedule={name: cosine, warmup_steps: 4}"})).err, "");
}

TEST_F(OutputTest, AMilestoneThatIsNotReachedIsToldOf) {
  const Finished trained = run(training("run", {"schedule={name: multi_step, milestones: [1, 2, 3]}", "epochs=2"}));
  EXPECT_EQ(trained.exit, 0) << trained.err;
  EXPECT_NE(trained.err.find("schedule: milestone 2 comes after the end of the run, which has 2 epochs: the rate"),
            std::string::npos)
      << trained.err;
  EXPECT_EQ(run(training("in_time", {"schedule={name: multi_step, milestones: 1}", "epochs=2"})).err, "");
}

TEST_F(OutputTest, AMilestoneWithinTheWarmUpIsToldOf) {
  const Finished trained =
      run(training("run", {"schedule={name: multi_step, milestones: 1, warmup_epochs: 1.5}", "epochs=2"}));
  EXPECT_EQ(trained.exit, 0) << trained.err;
  EXPECT_NE(trained.err.find("schedule: milestone 1 comes within the warm-up of "), std::string::npos) << trained.err;
  EXPECT_EQ(run(training("behind", {"schedule={name: multi_step, milestones: 1, warmup_epochs: 1}", "epochs=2"})).err,
            "");
}

TEST_F(OutputTest, AFactorOfNoWeightDecayIsToldOf) {
  const auto groups = [](int factor) {
    return "parameter_groups=[{dimensions: 1, weight_decay_factor: " + std::to_string(factor) + "}]";
  };
  const Finished trained = run(training("run", {groups(2)}));
  EXPECT_EQ(trained.exit, 0) << trained.err;
  EXPECT_NE(trained.err.find(
                "warning: parameter_groups: a weight_decay_factor multiplies the weight decay of sgd, which is 0"),
            std::string::npos)
      << trained.err;
  EXPECT_EQ(run(training("none", {groups(0)})).err, "");
  EXPECT_EQ(run(training("one", {groups(1)})).err, "");
  EXPECT_EQ(run(training("some", {groups(2), "optimizer={name: sgd, weight_decay: 0.01}"})).err, "");
}

TEST_F(OutputTest, TheResolvedConfigurationAsJson) {
  const Finished finished = run(with(training("run"), {"--dump-config", "--json"}));
  EXPECT_EQ(finished.exit, 0) << finished.err;
  const auto config = nlohmann::json::parse(finished.out);
  EXPECT_EQ(config["batch_size"], 64);
  EXPECT_EQ(config["optimizer"]["momentum"], 0.9);
  EXPECT_EQ(config["devices"], (nlohmann::json{"cpu:0", "cpu:1"}));
  EXPECT_EQ(config["strategy"]["name"], "ddp");
  folder_.write("again.json", finished.out);
  const auto hash_of = [&](const std::string& file) {
    return lines_of(run({"--config", file, "--dump-config"}).out).back();
  };
  EXPECT_EQ(hash_of("again.json"), hash_of("digits.yaml")) << "JSON is YAML, and says the same";
  const Finished compared =
      run({"compare", "--config", "digits.yaml", "--strategies", "single,ddp", "--dump-config", "--json"});
  EXPECT_EQ(nlohmann::json::parse(compared.out)["ddp"]["batch_size"], 64) << compared.err;
}

TEST_F(OutputTest, AStderrThatCannotBeWrittenStopsNothing) {
  for (const char* err : {"/dev/full", "closed"}) {
    SCOPED_TRACE(err);
    const Finished finished = run_into(with(training("run"), {"--json", "--overwrite"}), "", err);
    EXPECT_EQ(finished.exit, 0);
    EXPECT_EQ(finished.out, text("run/metrics.jsonl"));
    EXPECT_EQ(run_into({"trian"}, "", err).exit, 64);
  }
}

TEST_F(OutputTest, ClosedStreamsGetIntoNoFile) {
  // The lock is the first file that a run keeps open, so it would get the number of the closed stream.
  expect_failed(run_into(training("out"), "closed", ""), 74, {"standard output"});
  EXPECT_EQ(text("out/.lock"), "");
  EXPECT_EQ(run_into(with(training("err"), {"--json"}), "", "closed").exit, 0);
  EXPECT_EQ(text("err/.lock"), "");
  EXPECT_EQ(violations("metrics.schema.json", last_metrics("err")), std::vector<std::string>());
}

}  // namespace
}  // namespace dptrain
