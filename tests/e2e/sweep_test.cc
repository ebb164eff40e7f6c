// scripts/sweep.sh trains every combination once, however often it is started, killed, or run several times at once.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "e2e/command_fixture.h"

namespace dptrain {
namespace {

using testing::Arguments;
using testing::Finished;
using testing::lines_of;
using testing::Process;

class SweepTest : public testing::CommandTest {
 protected:
  /// Runs a bash command in which `sweep` is the script with a configuration and the folder `swept`. The script runs
  /// `binary`.
  Finished bash(const std::string& command, const std::string& config = "digits.yaml",
                const std::string& binary = testing::dptrain_binary()) const {
    const std::string sweep = fmt::format("sweep() {{ '{}' --config {} --out swept \"$@\"; }}",
                                          testing::source_file("scripts/sweep.sh"), config);
    return Process({.command = {"/usr/bin/env", "DPTRAIN_BINARY=" + binary, "bash", "-c", sweep + "\n" + command},
                    .folder = folder_.path(),
                    .out = {},
                    .err = {}})
        .wait();
  }
  /// A program that runs a bash command and then does what dptrain does.
  std::string dptrain_after(const std::string& command) const {
    const std::string program = "dptrain.sh";
    folder_.write(program,
                  fmt::format("#!/usr/bin/env bash\n{}\nexec '{}' \"$@\"\n", command, testing::dptrain_binary()));
    std::filesystem::permissions(path(program), std::filesystem::perms::owner_all);
    return path(program).string();
  }
  /// The same command as a separate job, whose processes get signals as from a keyboard: $! alone, or the group -$!.
  const std::string kJob =
      fmt::format("set -m; '{}' --config digits.yaml --out swept", testing::source_file("scripts/sweep.sh"));
  static constexpr const char* kFour = "batch_size=32,64 learning_rate=0.05,0.1";

  /// The lines of metrics.jsonl, unchanged, by run.
  std::map<std::string, std::vector<std::string>> metrics_of_runs() const {
    std::map<std::string, std::vector<std::string>> lines;
    for (const auto& run : std::filesystem::directory_iterator(path("swept")))
      if (run.is_directory())
        lines[run.path().filename().string()] = lines_of(testing::text_of(run.path() / "metrics.jsonl"));
    return lines;
  }

  static size_t count(const std::string& text, const std::string& words) {
    return static_cast<size_t>(
        std::ranges::count_if(lines_of(text), [&](const auto& line) { return line.find(words) != std::string::npos; }));
  }
  /// Expects the four combinations, each trained for this number of epochs, each epoch once.
  void expect_four_trained(size_t epochs) const {
    const auto table = json_of("swept/table.json");
    EXPECT_EQ(violations("table.schema.json", table), std::vector<std::string>());
    std::vector<std::string> values;
    for (const auto& row : table["runs"]) {
      EXPECT_EQ(row["state"], "finished");
      EXPECT_EQ(row["config"].size(), 2u) << row["config"];
      values.push_back(row["config"]["batch_size"].get<std::string>() + " " +
                       row["config"]["learning_rate"].get<std::string>());
      const std::string out = "swept/" + row["run"].get<std::string>();
      const auto lines = json_lines(out + "/metrics.jsonl");
      ASSERT_EQ(lines.size(), epochs) << out;
      for (size_t i = 0; i < epochs; ++i) EXPECT_EQ(lines[i]["epoch"], i + 1);
      const auto summary = json_of(out + "/summary.json");
      EXPECT_TRUE(summary["config_hash"].get<std::string>().starts_with(row["run"].get<std::string>()));
    }
    std::ranges::sort(values);
    EXPECT_EQ(values, (std::vector<std::string>{"32 0.05", "32 0.1", "64 0.05", "64 0.1"}));
    EXPECT_EQ(lines_of(text("swept/table.md")).size(), 6u);
  }
  /// The shell function `loop` over two learning rates; each is trained by the loop that reaches it first. A loop
  /// prints a line for each epoch that it trains.
  static std::string loop_over_rates(int epochs) {
    return fmt::format(
        "loop() {{ for rate in 0.05 0.1; do '{}' --config digits.yaml --set learning_rate=$rate --set epochs={} --set "
        "'dataset={{name: synthetic, samples: 64, test_samples: 8, shape: [1, 16, 16]}}' --out 'swept/{{hash}}' "
        "--resume --json; [[ $? == 0 || $? == 74 ]] || return; done; }}\n",
        testing::dptrain_binary(), epochs);
  }
};

TEST_F(SweepTest, TrainsEveryCombinationAndSkipsWhatIsFinished) {
  const Finished first = bash(fmt::format("sweep {}", kFour));
  EXPECT_EQ(first.exit, 0) << first.err;
  EXPECT_EQ(count(first.out, "trained now"), 4u) << first.out;
  EXPECT_NE(first.out.find("[1/4] batch_size=32 learning_rate=0.05: trained now, swept/"), std::string::npos);
  EXPECT_EQ(count(first.out, "finished"), 4u) << "the table";
  expect_four_trained(1);
  const auto written = [&] {
    std::vector<std::filesystem::file_time_type> times;
    for (const auto& run : std::filesystem::directory_iterator(path("swept")))
      if (run.is_directory()) times.push_back(std::filesystem::last_write_time(run.path() / "summary.json"));
    std::ranges::sort(times);
    return times;
  };
  const auto before = written();
  const Finished second = bash(fmt::format("sweep {}", kFour));
  EXPECT_EQ(second.exit, 0);
  EXPECT_EQ(count(second.out, "already trained, swept/"), 4u) << second.out;
  EXPECT_EQ(written(), before);
}

/// The example of docs/comparing.md with fewer samples, smaller batches and fewer epochs.
TEST_F(SweepTest, EpochsBatchSizeAndRateOfResNet18) {
  const Finished finished = bash(
      "sweep epochs=1,2 batch_size=8,16 learning_rate=0.05,0.1 -- --devices cpu:0 "
      "--set 'dataset={name: mnist, limit: 16, test_limit: 8}'",
      "resnet18_1gpu");
  EXPECT_EQ(finished.exit, 0) << finished.err;
  EXPECT_EQ(count(finished.out, "trained now"), 8u) << finished.out;
  const auto table = json_of("swept/table.json");
  EXPECT_EQ(violations("table.schema.json", table), std::vector<std::string>());
  std::vector<std::string> runs, trained;
  for (const auto& row : table["runs"]) {
    runs.push_back(row["run"]);
    EXPECT_EQ(row["state"], "finished");
    const auto& config = row["config"];
    ASSERT_EQ(config.size(), 3u) << "what was varied and nothing else: " << config;
    const std::string epochs = config["epochs"], batch_size = config["batch_size"], rate = config["learning_rate"];
    trained.push_back(fmt::format("{} {} {}", epochs, batch_size, rate));
    // The table's settings of a run are those that were trained.
    const auto lines = json_lines("swept/" + runs.back() + "/metrics.jsonl");
    ASSERT_FALSE(lines.empty()) << runs.back();
    EXPECT_EQ(lines.size(), std::stoull(epochs));
    EXPECT_EQ(row["epochs"], lines.size());
    EXPECT_EQ(row["steps"], std::stoll(epochs) * 16 / std::stoll(batch_size));
    EXPECT_EQ(row["accuracy"], lines.back()["test"]["accuracy"]);
    for (const auto& line : lines) {
      EXPECT_EQ(line["global_batch"], std::stoll(batch_size));
      EXPECT_EQ(line["learning_rate"], std::stod(rate));
    }
  }
  EXPECT_TRUE(std::ranges::is_sorted(runs)) << "the table's order is that of the runs' names";
  std::ranges::sort(trained);
  EXPECT_EQ(trained, (std::vector<std::string>{"1 16 0.05", "1 16 0.1", "1 8 0.05", "1 8 0.1", "2 16 0.05", "2 16 0.1",
                                               "2 8 0.05", "2 8 0.1"}));
  EXPECT_EQ(lines_of(text("swept/table.md")).size(), 10u);
}

TEST_F(SweepTest, AKilledSweepContinues) {
  // The sweep has its own process group, so that the kill also ends the current training run, in the middle of the
  // second run.
  const Finished killed = bash(fmt::format(
      "set -m; sweep {} -- --set epochs=20 & until (($(cat swept/*/metrics.jsonl 2> /dev/null | wc -l) >= 23)); do "
      "sleep 0.01; done; kill -KILL -- -$!; wait $!",
      kFour));
  EXPECT_EQ(killed.exit, 137);
  EXPECT_FALSE(exists("swept/table.json"));
  const auto before = metrics_of_runs();
  const Finished continued = bash(fmt::format("sweep {} -- --set epochs=20", kFour));
  EXPECT_EQ(continued.exit, 0) << continued.err;
  EXPECT_GE(count(continued.out, "already trained, swept/"), 1u) << continued.out;
  EXPECT_GE(count(continued.out, "trained now"), 2u) << continued.out;
  expect_four_trained(20);
  // An epoch's line contains its seconds, so an epoch that was trained again has another line. The last epoch may have
  // had no checkpoint yet.
  auto after = metrics_of_runs();
  size_t kept = 0;
  for (const auto& [run, lines] : before) {
    for (size_t i = 0; i + 1 < lines.size(); ++i) EXPECT_EQ(after[run][i], lines[i]) << run << " began anew";
    if (lines.size() > 1 && lines.size() < 20) ++kept;
  }
  EXPECT_EQ(kept, 1u) << "the one that was killed goes on from its checkpoint";
}

TEST_F(SweepTest, ASignalToTheScriptReachesTheTrainingInHand) {
  for (const auto& [signal, code] : {std::pair("TERM", 143), {"HUP", 129}}) {
    const std::string out = std::string("stopped-by-") + signal;
    const Finished stopped =
        bash(fmt::format("'{0}' --config digits.yaml --out {1} learning_rate=0.05 -- --set epochs=5000 & "
                         "until [[ -s $(echo {1}/*/metrics.jsonl) ]]; do sleep 0.01; done; kill -{2} $!; wait $!",
                         testing::source_file("scripts/sweep.sh"), out, signal));
    EXPECT_EQ(stopped.exit, code) << stopped.err;
    EXPECT_NE(stopped.err.find("stopped in learning_rate=0.05; the same command continues the sweep"),
              std::string::npos)
        << stopped.err;
    for (const auto& run : std::filesystem::directory_iterator(path(out)))
      EXPECT_TRUE(std::filesystem::exists(run.path() / "summary.json")) << "the training hasn't ended";
  }
}

TEST_F(SweepTest, ASignalReachesATrainingThatIsStarting) {
  const std::string binary = dptrain_after("[[ $* != *--out* ]] || : > started");
  for (const std::string to : {"$!", "-$!"})
    for (const auto& [signal, code] : {std::pair("INT", 130), {"TERM", 143}, {"HUP", 129}})
      for (const double after_s : {0.0, 0.02, 0.1}) {
        SCOPED_TRACE(fmt::format("SIG{} to {} after {} s", signal, to, after_s));
        const Finished stopped =
            bash(fmt::format("rm -rf started; {} learning_rate=0.05 -- --set epochs=300 & until [[ -e started ]]; do "
                             "sleep 0.005; done; sleep {}; kill -{} -- {}; wait $!",
                             kJob, after_s, signal, to),
                 "digits.yaml", binary);
        EXPECT_EQ(stopped.exit, code) << stopped.out << stopped.err;
        EXPECT_NE(stopped.err.find("sweep: stopped in learning_rate=0.05; the same command continues the sweep"),
                  std::string::npos)
            << stopped.err;
      }
}

TEST_F(SweepTest, ASignalWhileNothingIsTrainedStopsToo) {
  ASSERT_EQ(bash("sweep learning_rate=0.05").exit, 0);
  for (const std::string beside_training : {"--dump-config", "table"})
    // The signal goes to dptrain alone, and then to everything that the script runs.
    for (const std::string to : {"$$", "0"})
      for (const auto& [signal, code] : {std::pair("INT", 130), {"TERM", 143}, {"HUP", 129}}) {
        SCOPED_TRACE(fmt::format("SIG{} to {} at {}", signal, to, beside_training));
        const Finished stopped =
            bash(fmt::format("{} learning_rate=0.05 & wait $!", kJob), "digits.yaml",
                 dptrain_after(fmt::format("[[ $* != *{}* ]] || kill -{} {}", beside_training, signal, to)));
        EXPECT_EQ(stopped.exit, code) << stopped.out << stopped.err;
        EXPECT_NE(
            stopped.err.find(fmt::format("sweep: stopped by SIG{}; the same command continues the sweep", signal)),
            std::string::npos)
            << stopped.err;
        EXPECT_EQ(count(stopped.out, "FAILED"), 0u) << stopped.out;
      }
}

TEST_F(SweepTest, WhatAnotherHasJustFinishedIsNotSaidToBeTrainedNow) {
  // Another process trains the run after the script has looked at it and before the script starts it.
  const Finished finished = bash("sweep batch_size=32,64", "digits.yaml",
                                 dptrain_after("[[ $* != *batch_size=32*--out* ]] || '" + testing::dptrain_binary() +
                                               "' \"$@\" > /dev/null || exit"));
  EXPECT_EQ(finished.exit, 0) << finished.err;
  EXPECT_NE(finished.out.find("[1/2] batch_size=32: already trained, swept/"), std::string::npos) << finished.out;
  EXPECT_NE(finished.out.find("[2/2] batch_size=64: trained now, swept/"), std::string::npos) << finished.out;
}

TEST_F(SweepTest, SeveralAtOnceShareTheRuns) {
  constexpr int kShells = 16;
  const Finished finished = bash(
      fmt::format("for i in $(seq {0}); do sweep {1} -- --set epochs=3 > $i.txt 2>&1 & pids+=\" $!\"; done; code=0; "
                  "for pid in $pids; do wait $pid || code=$?; done; exit $code",
                  kShells, kFour));
  std::string said;
  for (int shell = 1; shell <= kShells; ++shell) {
    const std::string of_this = text(fmt::format("{}.txt", shell));
    EXPECT_EQ(count(of_this, "trained"), 4u) << "each ends with all four\n" << of_this;
    said += of_this;
  }
  EXPECT_EQ(finished.exit, 0) << said;
  EXPECT_EQ(count(said, "trained now"), 4u) << said;
  EXPECT_EQ(count(said, "FAILED"), 0u) << said;
  expect_four_trained(3);
}

TEST_F(SweepTest, LoopsOfShellsAreKeyedByTheHash) {
  constexpr int kShells = 16, kEpochs = 50;
  const std::string loop = loop_over_rates(kEpochs);
  // Each loop has its own process group, so that a kill also ends its training. Killed is the first that has trained an
  // epoch.
  const Finished killed = bash(
      loop + fmt::format("set -m; for i in $(seq {}); do loop > $i.out 2> $i.err & pids[i]=$!; done\n"
                         "until out=$(find . -name '*.out' -size +0 | head -n 1) && [[ $out ]]; do sleep 0.01; done\n"
                         "kill -KILL -- -${{pids[$(basename $out .out)]}}\n"
                         "for pid in ${{pids[@]}}; do wait $pid; echo $?; done; mv $out killed.txt",
                         kShells));
  const auto codes = lines_of(killed.out);
  EXPECT_EQ(std::ranges::count(codes, "137"), 1) << killed.out;
  EXPECT_EQ(std::ranges::count(codes, "0"), kShells - 1) << killed.out;
  EXPECT_EQ(bash(loop + "loop").exit, 0);

  const auto runs = metrics_of_runs();
  EXPECT_EQ(runs.size(), 2u) << "one of each rate";
  std::vector<std::string> all;
  for (const auto& [run, lines] : runs) {
    ASSERT_EQ(lines.size(), static_cast<size_t>(kEpochs)) << run;
    for (size_t i = 0; i < lines.size(); ++i) EXPECT_EQ(nlohmann::json::parse(lines[i])["epoch"], i + 1) << run;
    EXPECT_EQ(json_of("swept/" + run + "/summary.json")["config_hash"].get<std::string>().substr(0, 16), run);
    all.insert(all.end(), lines.begin(), lines.end());
  }
  // An epoch's line contains its seconds, so an epoch that was trained again has another line. The last epoch may have
  // had no checkpoint yet.
  const auto before = lines_of(text("killed.txt"));
  ASSERT_LT(before.size(), static_cast<size_t>(kEpochs)) << "it was to be killed while it trains";
  for (size_t i = 0; i + 1 < before.size(); ++i) EXPECT_EQ(std::ranges::count(all, before[i]), 1) << before[i];
  EXPECT_EQ(bash(loop + "loop").exit, 0);
  EXPECT_EQ(metrics_of_runs(), runs) << "what is finished is left as it is";
}

TEST_F(SweepTest, FlagsThatTrainNothingAreRefused) {
  for (const std::string flag : {"--help", "-h", "--version", "--dump-config", "--out=other", "--config=other",
                                 "--json", "--quiet", "--resume", "--overwrite"}) {
    SCOPED_TRACE(flag);
    const Finished finished = bash("sweep batch_size=32,64 -- " + flag);
    EXPECT_EQ(finished.exit, 64);
    EXPECT_EQ(lines_of(finished.err).size(), 1u) << finished.err;
    EXPECT_NE(finished.err.find("sweep: " + flag.substr(0, flag.find('=')) + " can't be used after --"),
              std::string::npos)
        << finished.err;
    EXPECT_EQ(finished.out, "");
    EXPECT_FALSE(exists("swept"));
  }
  const Finished help = bash("sweep --help");
  EXPECT_EQ(help.exit, 0) << help.err;
  EXPECT_EQ(count(help.out, "Usage: scripts/sweep.sh"), 1u);
}

TEST_F(SweepTest, AFolderMayHaveAnyNameButOneThatDptrainFillsIn) {
  const Finished finished = bash("sweep seed=1,2 --out 'sw[1] *?\\x'");
  EXPECT_EQ(finished.exit, 0) << finished.err;
  EXPECT_TRUE(exists("sw[1] *?\\x/table.json")) << finished.out;
  const Finished filled = bash("sweep seed=1,2 --out 'sw{hash}'");
  EXPECT_EQ(filled.exit, 64) << filled.out;
  EXPECT_NE(filled.err.find("sweep: --out can't contain braces, got 'sw{hash}'"), std::string::npos) << filled.err;
}

TEST_F(SweepTest, AKeyThatIsGivenTwiceIsRefused) {
  for (const std::string arguments :
       {"batch_size=32 batch_size=64", "learning_rate=0.1,0.2 -- --set learning_rate=0.05",
        "learning_rate=0.1,0.2 -- --set=learning_rate=0.05", "devices=cpu:0,cpu:1 -- --devices cpu:0",
        "strategy=ddp,kvstore strategy.bucket_mb=1,5", "optimizer.momentum=0,0.9 -- --set optimizer=adam",
        "'split[0]=1,2' split=even", "'layers[0].linear=8,16' -- --set 'layers[0]=relu'"}) {
    SCOPED_TRACE(arguments);
    const Finished finished = bash("sweep " + arguments);
    EXPECT_EQ(finished.exit, 64) << finished.out;
    EXPECT_EQ(lines_of(finished.err).size(), 1u) << finished.err;
    EXPECT_NE(finished.err.find("sweep: '"), std::string::npos) << finished.err;
    EXPECT_FALSE(exists("swept"));
  }
}

TEST_F(SweepTest, WhatIsWrongWithAllIsSaidOnceAndNothingIsTrained) {
  for (const auto& [arguments, code, sentence] :
       {std::tuple("learning_rat=0.1,0.2,0.3", 78, "unknown key, did you mean 'learning_rate'?"),
        {"batch_size=32,64 -- --set model=lenett", 78, "lenet"},
        {"batch_size=32,64 -- --devices cuda", 78, "cuda"}}) {
    SCOPED_TRACE(arguments);
    const Finished finished = bash(std::string("sweep ") + arguments);
    EXPECT_EQ(finished.exit, code) << finished.out;
    EXPECT_EQ(lines_of(finished.err).size(), 1u) << finished.err;
    EXPECT_EQ(finished.err.find("sweep: "), 0u) << finished.err;
    EXPECT_NE(finished.err.find(sentence), std::string::npos) << finished.err;
    EXPECT_EQ(finished.out, "");
    EXPECT_FALSE(exists("swept"));
  }
}

TEST_F(SweepTest, WarningsOfARunAreToldWithIt) {
  const Finished finished = bash("sweep batch_size=64,512 -- --devices cpu:0 --set strategy=single");
  EXPECT_EQ(finished.exit, 0) << finished.err;
  EXPECT_EQ(count(finished.out, "warning: "), 1u) << finished.out;
  EXPECT_NE(finished.out.find("[2/2] batch_size=512: warning: "), std::string::npos) << finished.out;
}

TEST_F(SweepTest, ARunThatFailsIsToldAndTheOthersGoOn) {
  const Finished finished =
      bash("sweep learning_rate=1e30,0.05,-1 'strategy=single,{name: ddp, overlap: false}' -- --devices cpu:0");
  EXPECT_EQ(finished.exit, 79) << "the highest code\n" << finished.out;
  EXPECT_EQ(count(finished.out, "FAILED with exit code 79: "), 2u) << finished.out;
  EXPECT_EQ(count(finished.out, "FAILED with exit code 78: --set: learning_rate"), 2u) << finished.out;
  EXPECT_LT(finished.out.rfind("FAILED with exit code 78: "), finished.out.find("[1/6] "))
      << "refused after hours of training";
  EXPECT_EQ(count(finished.out, "trained now"), 2u);
  EXPECT_EQ(count(finished.out, "training diverged"), 2u) << "the sentence of the run";
  EXPECT_NE(finished.out.find("strategy={name: ddp, overlap: false}: trained now"), std::string::npos);
  const auto rows = json_of("swept/table.json")["runs"];
  EXPECT_EQ(std::ranges::count_if(rows, [](const auto& row) { return row["state"] == "finished"; }), 2);
  EXPECT_EQ(std::ranges::count_if(rows, [](const auto& row) { return row["state"] == "failed"; }), 2);
}

}  // namespace
}  // namespace dptrain
