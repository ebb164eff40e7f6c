// `dptrain plan`: the figures that a run would show, without training.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <ostream>
#include <regex>

#include "device/cpu_isa.h"
#include "device/host_machine.h"
#include "e2e/command_fixture.h"

namespace dptrain {
namespace {

using nlohmann::json;
using testing::Arguments;
using testing::Finished;

class PlanTest : public testing::CommandTest {
 protected:
  static Arguments plan(const Arguments& more = {}) {
    Arguments arguments = {"plan", "--config", "digits.yaml"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return arguments;
  }
  json planned(Arguments more = {}) const {
    more.emplace_back("--json");
    const Finished finished = run(plan(more));
    EXPECT_EQ(finished.exit, 0) << finished.err;
    const json document = json::parse(finished.out);
    EXPECT_EQ(violations("plan.schema.json", document), Arguments());
    return document;
  }
};

TEST_F(PlanTest, SaysWhatTrainingMeasures) {
  train("run", {"epochs=3"});
  const auto epochs = json_lines("run/metrics.jsonl");
  const json document = planned();
  EXPECT_EQ(document["steps_per_epoch"], 5);
  for (size_t r = 0; r < 2; ++r) {
    const json& rank = document["ranks"][r];
    // One rank's bytes per step, times five steps, summed over ranks.
    EXPECT_EQ(5 * (document["ranks"][0]["comm"]["bytes"].get<int64_t>() +
                   document["ranks"][1]["comm"]["bytes"].get<int64_t>()),
              epochs[0]["comm"]["bytes"]);
    int64_t peak_bytes = 0;
    for (const json& epoch : epochs)
      peak_bytes = std::max(peak_bytes, epoch["devices"][r]["peak_bytes"].get<int64_t>());
    EXPECT_EQ(rank["peak_bytes"], peak_bytes);
    for (const char* purpose : {"weights", "gradients", "optimizer"})
      EXPECT_EQ(rank["memory"][purpose], epochs[0]["devices"][r]["memory"][purpose]) << purpose;
  }
  EXPECT_TRUE(document["time"].is_null()) << "nothing says how fast these workers are";
}

/// The three shipped BERTs under DataParallel, on CPU workers instead of GPUs.
TEST_F(PlanTest, OfABertSaysWhereLogitsAndAdamsStateLie) {
  const auto peaks_of = [&](const std::string& config) {
    const Finished finished = run({"plan", "--config", config, "--devices", "cpu:0-3", "--json"});
    EXPECT_EQ(finished.exit, 0) << finished.err;
    std::vector<int64_t> peaks;
    const json document = json::parse(finished.out);
    for (const json& rank : document["ranks"]) peaks.push_back(rank["peak_bytes"]);
    EXPECT_EQ(peaks.size(), 4u);
    return peaks;
  };
  const auto imbalance = [](const std::vector<int64_t>& peaks) {
    const auto [least, most] = std::ranges::minmax(peaks);
    return static_cast<double>(most) / static_cast<double>(least);
  };
  const auto largest = [](const std::vector<int64_t>& peaks) {
    return std::ranges::max_element(peaks) - peaks.begin();
  };
  const auto gathered = peaks_of("bert_data_parallel_4gpu"), output1 = peaks_of("bert_data_parallel_output1_4gpu"),
             balanced = peaks_of("bert_data_parallel_balanced_4gpu");
  EXPECT_GT(imbalance(gathered), 1.1);
  EXPECT_EQ(largest(gathered), 0);
  EXPECT_EQ(largest(output1), 1) << "with the logits; Adam's state stays on the first";
  EXPECT_LE(imbalance(balanced), 1.1) << "with Adam's state on the first alone";
  EXPECT_LT(std::ranges::max(balanced), std::ranges::max(output1));
  EXPECT_LT(std::ranges::max(output1), std::ranges::max(gathered));
}

/// Only GPUs compute in fp16, but a plan for GPUs needs none.
TEST_F(PlanTest, OfGpusTakesEveryPrecision) {
  const auto activations = [&](const std::string& precision) {
    const json rank = planned({"--devices", "2xh200", "--set", "precision=" + precision})["ranks"][0];
    return rank["memory"]["activations"].get<int64_t>();
  };
  const int64_t fp32 = activations("fp32"), bf16 = activations("bf16");
  EXPECT_EQ(activations("tf32"), fp32);
  EXPECT_LT(bf16, fp32);
  EXPECT_EQ(activations("fp16"), bf16);
}

/// The plan of a GPU doesn't contain the CPU worker's kernels, which depend on its instruction set.
TEST_F(PlanTest, OfGpusDoesntDependOnTheCpuThatPlans) {
  const Arguments images = {"--set", "dataset={name: synthetic, shape: [3, 32, 32], samples: 512}"};
  for (const auto& [config, more] :
       {std::pair{"bert_ddp_4gpu", Arguments()}, {"pyramidnet_ddp_4gpu", images}, {"lenet_ddp_2cpu", Arguments()}}) {
    testing::ProcessOptions options =
        program({"plan", "--config", config, "--devices", "8xh200", "--set", "precision=bf16", "--json"});
    options.command.insert(options.command.end(), more.begin(), more.end());
    std::vector<std::string> plans;
    for (const char* most : {"SSE41", "AVX512_CORE_AMX"}) {
      testing::ProcessOptions capped = options;
      capped.command.insert(capped.command.begin(), {"/usr/bin/env", std::string("ONEDNN_MAX_CPU_ISA=") + most});
      const Finished finished = testing::Process(capped).wait();
      ASSERT_EQ(finished.exit, 0) << finished.err;
      plans.push_back(finished.out);
    }
    EXPECT_EQ(plans[0], plans[1]) << config;
    // It doesn't depend either on CPU kernels that compute groups of samples one after the other.
    const json plan = json::parse(plans[0]);
    for (const json& one : plan["ranks"][0]["operators"])
      if (one["operator"] == "reorder") {
        EXPECT_LE(one["calls"], 2) << config;
      }
  }
}

TEST_F(PlanTest, PrintsTables) {
  const Finished finished = run(plan());
  EXPECT_EQ(finished.exit, 0) << finished.err;
  EXPECT_EQ(finished.err, "");
  for (const char* words : {"ddp on cpu:0, cpu:1, 64 samples per step, 129,388 parameters", "linear backward",
                            "all_reduce f32", "no times"})
    EXPECT_NE(finished.out.find(words), std::string::npos) << words << " in:\n" << finished.out;
  EXPECT_FALSE(exists("runs"));
}

/// A GPU holds the whole data set; a step reads one batch of it.
TEST_F(PlanTest, OfGpusCountsTheImagesThatAStepReads) {
  const json rank = planned({"--devices", "2xh200", "--set", "batch_size=64"})["ranks"][0];
  const auto bytes_of = [&](const char* name) {
    for (const json& one : rank["operators"])
      if (one["operator"] == name) return one["bytes"].get<double>();
    return 0.;
  };
  const double pixels = 32 * 28 * 28;
  EXPECT_GE(bytes_of("decode_images"), 5 * pixels) << "a byte of each, and the number that it becomes";
  EXPECT_LE(bytes_of("decode_images"), 5 * pixels + 2048);
  EXPECT_LE(bytes_of("gather_labels"), 1024);
}

/// Many of the ranks are alike, and the plan's sentences are long.
TEST_F(PlanTest, OfManyRanksFitsATerminal) {
  const Finished finished = run(plan({"--devices", "15xh200", "--set", "batch_size=72"}));
  EXPECT_EQ(finished.exit, 0) << finished.err;
  // Of 72 samples twelve ranks have 5, and every fifth rank has 4.
  for (const char* rank : {"\n5 (cuda:5)                   4  ", "\n6 to 9 (cuda:6-9)            5  "})
    EXPECT_NE(finished.out.find(rank), std::string::npos) << finished.out;
  for (const std::string& line : testing::lines_of(finished.out)) EXPECT_LE(line.size(), 80u) << line;
}

TEST_F(PlanTest, NeedsNoneOfTheDevices) {
  const json document = planned({"--devices", "16xh200", "--set", "batch_size=64"});
  EXPECT_EQ(document["world_size"], 16);
  EXPECT_EQ(document["ranks"].size(), 16u);
  EXPECT_EQ(document["ranks"][0]["samples"], 4);
  EXPECT_GT(document["time"]["step_s"], 0);
}

TEST_F(PlanTest, OfManyHostsTheFirstStandsForAll) {
  folder_.write("links.yaml", "hosts: {devices: 8, latency_us: 5, gbps: 100}\n");
  const json slow = planned({"--devices", "64xh200", "--links", "links.yaml", "--set", "batch_size=64"});
  EXPECT_EQ(slow["world_size"], 64);
  EXPECT_EQ(slow["hosts"], 8);
  EXPECT_EQ(slow["ranks"].size(), 8u);
  folder_.write("links.yaml", "hosts: {devices: 8, latency_us: 5, gbps: 400}\n");
  const json fast = planned({"--devices", "64xh200", "--links", "links.yaml", "--set", "batch_size=64"});
  EXPECT_GT(slow["time"]["comm_s"], fast["time"]["comm_s"]);
}

/// Of 45 shards the last of nine ranks has 13, and the others have 4.
TEST_F(PlanTest, OfManyHostsOneWithTheMostOfABatchIsPlanned) {
  folder_.write("links.yaml", "hosts: {devices: 3, latency_us: 5, gbps: 100}\n");
  const auto of = [this](const Arguments& more) {
    Arguments arguments = {"--devices", "9xh200", "--links", "links.yaml", "--set", "batch_size=45"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return arguments;
  };
  EXPECT_EQ(planned(of({}))["ranks"].size(), 3u) << "all are alike";
  const json shards = planned(of({"--set", "shards=45"}))["ranks"];
  ASSERT_EQ(shards.size(), 9u);
  EXPECT_EQ(shards[0]["samples"], 4);
  EXPECT_EQ(shards[8]["samples"], 13);
  const json split = planned(of({"--set", "split=[1, 1, 1, 1, 3, 1, 1, 1, 1]"}))["ranks"];
  ASSERT_EQ(split.size(), 5u);
  EXPECT_EQ(split[4]["samples"], 12);
  EXPECT_GT(split[4]["peak_bytes"], split[0]["peak_bytes"]);
  expect_refused(plan(of({"--set", "shards=45", "--set", "strategy={name: kvstore, type: dist_sync}"})), 78,
                 {"shards, split", "rank 8"});
}

TEST_F(PlanTest, ShowsHowAPipelineWaits) {
  const Arguments cut = {"--devices", "2xh200", "--set",
                         "strategy={name: model_parallel, stages: [1, 2], micro_batches: 4}"};
  const json document = planned(cut);
  EXPECT_EQ(document["pipeline"]["stages"].size(), 2u);
  EXPECT_EQ(document["pipeline"]["micro_batches"], 4);
  // The bubble of equal stages is (S - 1) / (M + S - 1).
  EXPECT_NEAR(document["pipeline"]["equal_stages_bubble"].get<double>(), 1.0 / 5, 1e-9);
  EXPECT_GT(document["pipeline"]["bubble"].get<double>(), 0);
  EXPECT_LT(document["pipeline"]["bubble"].get<double>(), 1);
  const Finished text = run(plan(cut));
  EXPECT_NE(text.out.find("a pipeline of 2 stages, 4 micro-batches per step, 1f1b"), std::string::npos) << text.out;
  EXPECT_NE(text.out.find("  stage 1: "), std::string::npos) << text.out;
  EXPECT_NE(text.out.find("send f32, to 1"), std::string::npos) << text.out;
  const std::string messages = text.out.substr(text.out.find("messages of rank 0"));
  EXPECT_TRUE(std::regex_search(messages, std::regex("\nall +8 "))) << "four there and four back\n" << messages;
}

TEST_F(PlanTest, OfAPipelineOverHostsAWholeReplicaIsPlanned) {
  folder_.write("links.yaml", "hosts: {devices: 1, latency_us: 5, gbps: 100}\n");
  const Arguments cut = {
      "--devices", "8xh200",        "--links", "links.yaml",
      "--set",     "batch_size=64", "--set",   "strategy={name: hybrid, stages: [1, 2], micro_batches: 4}"};
  const json document = planned(cut);
  EXPECT_EQ(document["hosts"], 8);
  EXPECT_EQ(document["ranks"].size(), 2u) << "of four replicas";
  folder_.write("links.yaml", "hosts: {devices: 2, latency_us: 5, gbps: 100}\n");
  EXPECT_LT(planned(cut)["time"]["step_s"], document["time"]["step_s"]) << "a replica in one host";
}

TEST_F(PlanTest, OfAStoreOverHostsShowsServersLinksAndTimes) {
  const auto of = [this](const std::string& hosts, const std::string& store) {
    folder_.write("links.yaml", "hosts: {devices: 2, latency_us: 5, memory_gbps: 800, " + hosts + "}\n");
    return planned(
        {"--devices", "4xh200", "--links", "links.yaml", "--set", "strategy={name: kvstore, " + store + "}"});
  };
  const json document = of("gbps: 100", "type: dist_sync"), &served = document["served"];
  EXPECT_EQ(served["workers"], 2);
  EXPECT_EQ(served["hosts_of_servers"], json({0, 1}));
  const json& push = document["ranks"][0]["messages"][0];
  ASSERT_EQ(push["call"], "push");
  const int64_t weights = push["sent_bytes"];
  EXPECT_NEAR(static_cast<double>(weights), document["ranks"][0]["memory"]["weights"].get<double>(), 1000) << "padding";
  EXPECT_EQ(served["pushed_bytes"], weights);
  EXPECT_EQ(served["pulled_bytes"], weights);
  EXPECT_EQ(served["entering_bytes"], weights) << "half of the other's gradients, and half of the weights";
  EXPECT_EQ(document["store_bytes"].size(), 2u);
  EXPECT_GT(served["server_s"].get<double>(), 0);

  const json slow = of("gbps: 1", "type: dist_sync");
  EXPECT_GT(slow["time"]["step_s"].get<double>(), 2 * document["time"]["step_s"].get<double>());
  const json apart = of("gbps: 1, server_hosts: 1", "type: dist_sync, servers: 1");
  EXPECT_EQ(apart["served"]["hosts_of_servers"], json({2}));
  EXPECT_EQ(apart["served"]["entering_bytes"], 2 * weights) << "all of both workers' gradients";
  EXPECT_GT(apart["time"]["step_s"].get<double>(), slow["time"]["step_s"].get<double>())
      << "one link for what two share";

  const Finished text = run(plan({"--devices", "4xh200", "--links", "links.yaml", "--set",
                                  "strategy={name: kvstore, type: dist_sync, servers: 2}"}));
  for (const char* words : {"a store: workers 2, servers 2 on a host of their own", "push f32 to servers",
                            "pull f32 from servers", "enter a host", "the busiest server adds up and updates for"})
    EXPECT_NE(text.out.find(words), std::string::npos) << words << " in:\n" << text.out;
}

TEST_F(PlanTest, OfReplicasThatTrainByThemselvesAPeriodsStepsAreTaken) {
  const auto of = [this](const std::string& options) {
    return planned({"--devices", "8xh200", "--set", "strategy={name: local_sgd" + options + "}"});
  };
  const json document = of(", period: 4"), &time = document["time"], &averaging = document["averaging"];
  const double with = time["step_s"], without = averaging["other_step_s"], mean = averaging["mean_step_s"];
  EXPECT_LT(without, with);
  EXPECT_NEAR(mean, (with + 3 * without) / 4, 1e-12);
  EXPECT_NEAR(time["epoch_s"].get<double>(), mean * document["steps_per_epoch"].get<double>(), 1e-9);
  EXPECT_NEAR(time["samples_per_s"].get<double>() * mean, document["global_batch"].get<double>(), 1e-6);
  EXPECT_EQ(averaging["period"], 4);
  const json every = of(", period: 1");
  EXPECT_TRUE(every["averaging"]["other_step_s"].is_null());
  EXPECT_TRUE(planned({"--devices", "8xh200"})["averaging"].is_null());
  const Finished text = run(plan({"--devices", "8xh200", "--set", "strategy=local_sgd"}));
  EXPECT_NE(text.out.find("the weights are averaged after one step in 8, such as this one;"), std::string::npos)
      << text.out;
  expect_refused(plan({"--devices", "8xh200", "--set", "strategy=local_sgd", "--set", "precision=fp16"}), 78,
                 {"precision", "share no loss scale", "got fp16", "use bf16"});
  train("averaged", {"strategy=local_sgd"});
  expect_refused(plan({"--calibrate", "averaged"}), 78,
                 {"averaged", "every step exchanges the same data", "local_sgd", "ddp"});
}

/// With one process, a part that a plan leaves out would be missing here, and `other_s` would hide it.
TEST_F(PlanTest, OfAStoreInOneProcessIsCalibratedByARun) {
  const Arguments store = {"--set", "strategy={name: kvstore, type: dist_sync}"};
  train("run", {"strategy={name: kvstore, type: dist_sync}"});
  const json metrics = last_metrics("run");
  Arguments calibrated = store;
  calibrated.insert(calibrated.end(), {"--calibrate", "run"});
  const json document = planned(calibrated);
  double computed = 0;
  for (const json& rank : document["ranks"]) computed += rank["time"]["compute_s"].get<double>() / 2;
  const double measured =
      (metrics["time"]["compute_s"].get<double>() + metrics["time"]["optimizer_s"].get<double>()) / 5;
  EXPECT_NEAR(computed, measured, 0.02 * measured);
  EXPECT_GT(document["time"]["comm_s"], 0);
  EXPECT_GT(document["served"]["server_s"], 0);
  // Adam's two averages are read and written as well.
  calibrated.insert(calibrated.end(), {"--set", "optimizer=adam"});
  EXPECT_GT(planned(calibrated)["served"]["server_s"].get<double>(), document["served"]["server_s"].get<double>());
}

TEST_F(PlanTest, ALinkMayHaveALatencyAlone) {
  const auto waits = [&](const std::string& links) {
    folder_.write("links.yaml", links);
    return planned({"--devices", "2xh200", "--links", "links.yaml"})["time"]["comm_s"].get<double>();
  };
  const double unlimited = waits("latency_us: 1000\n"), slow = waits("{latency_us: 1000, gbps: 1}\n");
  EXPECT_GE(unlimited, 1e-3);
  EXPECT_LT(unlimited, slow);
}

TEST_F(PlanTest, ReadsTheLinksOfTheTree) {
  for (const auto& entry : std::filesystem::directory_iterator(testing::source_file("configs/links"))) {
    SCOPED_TRACE(entry.path().string());
    EXPECT_EQ(planned({"--devices", "16xh200", "--links", entry.path(), "--set", "batch_size=64"})["hosts"], 2);
  }
}

TEST_F(PlanTest, SaysWhetherItFitsTheDevices) {
  const auto bert = [](const std::string& devices, const std::string& batch) {
    return Arguments{"plan", "--config", "bert_ddp_4gpu", "--devices", devices, "--set", "batch_size=" + batch};
  };
  const auto document_of = [&](Arguments arguments) {
    arguments.emplace_back("--json");
    const json document = json::parse(run(arguments).out);
    EXPECT_EQ(violations("plan.schema.json", document), Arguments());
    return document;
  };
  const json fits = document_of(bert("2xa100", "8")), too_large = document_of(bert("2xa100", "50000"));
  EXPECT_EQ(fits["fits"], true);
  EXPECT_EQ(too_large["fits"], false);
  EXPECT_EQ(too_large["device_memory_bytes"], 80'000'000'000);
  const double peak_gb = too_large["ranks"][0]["peak_bytes"].get<double>() / 1e9;
  EXPECT_GT(peak_gb, 80);
  const std::string told = run(bert("2xa100", "50000")).out;
  const std::string expected = fmt::format("it does not fit: it takes {:.1f} GB, and a device has 80 GB", peak_gb);
  EXPECT_NE(told.find(expected), std::string::npos) << told;
  EXPECT_EQ(run(bert("2xa100", "8")).out.find("does not fit"), std::string::npos);
  EXPECT_TRUE(document_of(bert("2xcpu", "8"))["fits"].is_null()) << "nobody knows what memory these have";
  // CPU workers of this machine share its memory.
  EXPECT_EQ(document_of(bert("cpu:0-1", "8"))["fits"], true);
  const json here = document_of(bert("cpu:0-1", "4000000"));
  EXPECT_EQ(here["fits"], false);
  EXPECT_EQ(here["host_memory_bytes"], host_memory_bytes());
  EXPECT_NE(run(bert("cpu:0-1", "4000000")).out.find("GB, and workers may take"), std::string::npos);
}

TEST_F(PlanTest, IsCalibratedByARun) {
  train("run", {"devices=cpu:0", "strategy=single"});
  const json metrics = last_metrics("run");
  const json document = planned({"--devices", "cpu:0", "--set", "strategy=single", "--calibrate", "run"});
  const double computed =
      (metrics["time"]["compute_s"].get<double>() + metrics["time"]["optimizer_s"].get<double>()) / 5;
  EXPECT_NEAR(document["ranks"][0]["time"]["compute_s"].get<double>(), computed, 1e-6 * computed);
  EXPECT_NEAR(document["time"]["step_s"].get<double>(), metrics["train"]["seconds"].get<double>() / 5, 1e-6 * computed);
  // Over links that take a second per call, no other time matters.
  const json slow = planned({"--set", "links={latency_us: 1000000}", "--calibrate", "run"});
  EXPECT_GE(slow["time"]["step_s"], 2.0);
}

TEST_F(PlanTest, IsCalibratedByNoOtherRun) {
  train("trained", {});
  const auto refused = [&](const Arguments& more, int code, const std::vector<std::string>& words) {
    Arguments arguments = plan({"--calibrate", "trained"});
    arguments.insert(arguments.end(), more.begin(), more.end());
    expect_refused(arguments, code, words);
  };
  refused({"--devices", "4xh200"}, 78, {"--calibrate trained", "kind of device", "h200, got cpu"});
  refused({"--set", "model={layers: [flatten, linear: classes]}"}, 78, {"--calibrate trained", "got lenet"});
  const std::string metrics = text("trained/metrics.jsonl");
  const auto with = [&](const char* pointer, const json& value, const std::vector<std::string>& words) {
    json epoch = json::parse(metrics);
    epoch[json::json_pointer(pointer)] = value;
    folder_.write("trained/metrics.jsonl", metrics + epoch.dump() + "\n");
    refused({}, 65, words);
  };
  with("/time/compute_s", -1, {"trained/metrics.jsonl", "got compute_s: -1"});
  with("/time/compute_s", 1e300, {"1e+300 s of computing and waiting"});
  with("/train/seconds", 0, {"got seconds: 0"});
  with("/time/compute_s", "long", {"got a value of the wrong type in line 2"});
  with("/train", json::object(), {"got no key 'samples' in line 2"});
  folder_.write("trained/metrics.jsonl", metrics + metrics.substr(0, 40));
  refused({}, 65, {"got no JSON in line 2"});
}

/// A document of bench ops with times that are the same on every machine: 0.1 ms per call, and 1 ms more per step.
json with_even_times(const std::string& printed) {
  json document = json::parse(printed);
  for (json& device : document["devices"]) {
    double all = 0;
    for (json& one : device["operators"]) {
      one["seconds"] = 1e-4 * one["calls"].get<double>();
      all += one["seconds"].get<double>();
    }
    device["operators_s"] = all;
    device["step_s"] = all + 1e-3;
  }
  return document;
}

TEST_F(PlanTest, TakesWhatOperatorsWereMeasuredToTake) {
  const Finished measured = run({"bench", "ops", "--config", "digits.yaml", "--steps", "1", "--json"});
  json operators = with_even_times(measured.out);
  folder_.write("operators.json", operators.dump());
  const double seconds = operators["devices"][0]["operators_s"];
  // Each device was measured alone, on its part of this step's batch.
  const auto plan_of = [this](const std::string& devices, int batch, const Arguments& more = {}) {
    Arguments flags = {"--devices", devices, "--operators", "operators.json"};
    for (const std::string& setting :
         {std::string(devices == "cpu:0" ? "strategy=single" : "strategy=ddp"), "batch_size=" + std::to_string(batch)})
      flags.insert(flags.end(), {"--set", setting});
    flags.insert(flags.end(), more.begin(), more.end());
    return planned(flags);
  };
  const auto compute_s = [](const json& plan) { return plan["ranks"][0]["time"]["compute_s"].get<double>(); };
  const json alone = plan_of("cpu:0", 32);
  // A plan also counts fills and copies, which the measurement doesn't show. Without AVX2, where convolution and pool
  // are two operators, that is four calls more of about 30.
  const double uncounted = cpu_isa() != CpuIsa::baseline ? 0.1 : 0.2;
  EXPECT_NEAR(compute_s(alone), seconds, uncounted * seconds);
  EXPECT_NEAR(alone["time"]["step_s"].get<double>(), compute_s(alone) + 1e-3, 1e-9);
  EXPECT_GT(alone["time"]["operators"]["same_operands"], 1 - uncounted);
  // With twice as many samples as measured, most operators take twice as long.
  const json twice = plan_of("cpu:0", 64);
  EXPECT_LT(twice["time"]["operators"]["same_operands"], 0.5);
  EXPECT_GT(compute_s(twice), 1.5 * compute_s(alone));
  // CPU workers that are more than the cores share the cores.
  const int cores = operators["cores"], crowd = 4 * cores;
  EXPECT_NEAR(compute_s(plan_of("cpu:0-" + std::to_string(crowd - 1), 32 * crowd)), 4 * seconds,
              5 * uncounted * seconds);
  // A run measures what all operators take together.
  train("run", {"devices=cpu:0", "strategy=single"});
  const json time = last_metrics("run")["time"];
  const double computed = (time["compute_s"].get<double>() + time["optimizer_s"].get<double>()) / 5;
  EXPECT_NEAR(compute_s(plan_of("cpu:0", 64, {"--calibrate", "run"})), computed, 1e-6 * computed);
  // If a CPU worker was measured with more threads than cores, its threads already shared the cores.
  for (json& device : operators["devices"]) device["threads"] = crowd;
  folder_.write("operators.json", operators.dump());
  EXPECT_NEAR(compute_s(plan_of("cpu:0", 32, {"--set", "threads=" + std::to_string(crowd)})), seconds,
              uncounted * seconds);
}

TEST_F(PlanTest, RefusesOperatorsOfOtherDevices) {
  const Finished measured = run({"bench", "ops", "--config", "digits.yaml", "--steps", "1", "--json"});
  folder_.write("operators.json", measured.out);
  const auto refused = [&](const Arguments& more, int code, const Arguments& words) {
    Arguments arguments = plan(more);
    arguments.insert(arguments.end(), {"--operators", "operators.json"});
    expect_refused(arguments, code, words);
  };
  refused({"--set", "threads=2"}, 78, {"operators.json", "expected", "2", "got 1 on cpu:0", "threads=1"});
  refused({"--set", "precision=bf16"}, 78, {"expected operators measured in bf16", "got fp32", "precision=fp32"});
  refused({"--devices", "2xh200"}, 78, {"operators.json", "measured on h200", "got none"});
  json other = json::parse(measured.out);
  other["devices"][0]["device"] = "cuda:0";
  other["devices"][0]["product"] = "NVIDIA H100 80GB HBM3";
  folder_.write("operators.json", other.dump());
  refused({"--devices", "2xh200"}, 78, {"expected operators measured on h200", "H100"});
  const json h100 = planned({"--devices", "2xh100", "--operators", "operators.json"});
  EXPECT_FALSE(h100["time"]["operators"].is_null());
  EXPECT_EQ(h100["time"]["other_s"], 0);
  const auto damaged = [&](const std::string& place, const json& value, const Arguments& words) {
    json odd = json::parse(measured.out);
    odd[json::json_pointer(place)] = value;
    folder_.write("operators.json", odd.dump());
    refused({}, 65, words);
  };
  damaged("/cores", -3, {"operators.json", "got cores: -3"});
  damaged("/devices/0/operators/0/calls", 0, {"got calls: 0"});
  damaged("/devices/0/operators/0/seconds", -1, {"got seconds: -1"});
  damaged("/devices/0/operators/0/bytes", 1e300, {"got bytes: 1e+300"});
  damaged("/devices/0/operators/0/flops", "many", {"operators.json"});
  damaged("/devices/1/step_s", -1, {"got step_s: -1"});
  json none = json::parse(measured.out);
  for (json& device : none["devices"])
    for (json& one : device["operators"]) one["seconds"] = 0.0;
  folder_.write("operators.json", none.dump());
  refused({}, 65, {"operators.json", "got operators that take no time"});
  for (json& device : none["devices"]) device["operators"] = json::array();
  folder_.write("operators.json", none.dump());
  refused({}, 65, {"operators.json", "got no operators"});
  folder_.write("operators.json", measured.out);
  refused({"--set", "threads=[1, 2]"}, 78,
          {"the same number of threads in each worker", "threads [1, 2]", "threads=1"});
  expect_refused(plan({"--operators", "."}), 66, {"got a folder"});
  folder_.write("operators.json", "{}");
  refused({}, 65, {"operators.json", "bench ops --json"});
  folder_.write("operators.json", "");
  refused({}, 65, {"operators.json", "bench ops --json"});
  expect_refused(plan({"--operators", "nowhere.json"}), 66, {"nowhere.json", "bench ops --json"});
}

struct SlowRun {
  std::string name;
  std::string strategy;
  int ranks = 2;
  double gbps = 0.1;
};

void PrintTo(const SlowRun& slow, std::ostream* out) { *out << slow.name; }

/// These tests time what they run, so nothing else may run at the same time.
class LongPlanTest : public PlanTest, public ::testing::WithParamInterface<SlowRun> {
 protected:
  static constexpr int kSteps = 8, kBatch = 512;

  /// The ratio of planned to measured time, after a measurement of operators and of a run of `ddp` over free links.
  double ratio_of_a_round() {
    const SlowRun& slow = GetParam();
    for (const char* name : {"free", "held"}) std::filesystem::remove_all(path(name));
    Arguments settings = {
        fmt::format("dataset={{name: synthetic, shape: [1, 28, 28], samples: {}, test_samples: 10}}", kSteps * kBatch),
        "threads=1", "epochs=2", "eval_every=0", "checkpoint.every_epochs=0"};
    const auto flags_of = [](const Arguments& set) {
      Arguments flags;
      for (const std::string& setting : set) flags.insert(flags.end(), {"--set", setting});
      return flags;
    };
    Arguments bench = {"bench",
                       "ops",
                       "--config",
                       "digits.yaml",
                       "--json",
                       "--devices",
                       "cpu:0",
                       "--set",
                       "strategy=",
                       "--set",
                       fmt::format("batch_size={}", kBatch / slow.ranks)};
    const Arguments shared = flags_of(settings);
    bench.insert(bench.end(), shared.begin(), shared.end());
    const Finished operators = run(bench);
    EXPECT_EQ(operators.exit, 0) << operators.err;
    folder_.write("operators.json", operators.out);
    settings.push_back(fmt::format("devices=[cpu:0-{}]", slow.ranks - 1));
    settings.push_back(fmt::format("batch_size={}", kBatch));
    settings.emplace_back("strategy=ddp");
    train("free", settings);
    settings.back() = "strategy=" + slow.strategy;
    settings.push_back(fmt::format("links.gbps={}", slow.gbps));
    train("held", settings);
    Arguments flags = flags_of(settings);
    flags.insert(flags.end(), {"--operators", "operators.json", "--calibrate", "free"});
    return planned(flags)["time"]["step_s"].get<double>() /
           (last_metrics("held")["train"]["seconds"].get<double>() / kSteps);
  }
};

/// docs/scaling.md has such ratios for more models, strategies and rates, from scripts/scaling.py. A single undisturbed
/// round suffices.
TEST_P(LongPlanTest, AStepOverASlowLinkTakesWithin15PercentOfThat) {
  constexpr double kMost = 0.15;
  double closest = 1e9;
  for (int round = 0; round < 3 && std::abs(closest - 1) > kMost; ++round)
    if (const double ratio = ratio_of_a_round(); std::abs(ratio - 1) < std::abs(closest - 1)) closest = ratio;
  EXPECT_NEAR(closest, 1, kMost) << "planned to measured";
}

INSTANTIATE_TEST_SUITE_P(
    Links, LongPlanTest,
    ::testing::Values(SlowRun{.name = "ddp_2", .strategy = "ddp"},
                      SlowRun{.name = "ddp_4", .strategy = "ddp", .ranks = 4},
                      SlowRun{.name = "ddp_8", .strategy = "ddp", .ranks = 8},
                      SlowRun{.name = "next_forward", .strategy = "{name: ddp, overlap: next_forward}"},
                      SlowRun{.name = "bf16", .strategy = "{name: ddp, compress: bf16}"},
                      SlowRun{.name = "sharded_optimizer", .strategy = "{name: ddp, shard_optimizer: true}"},
                      SlowRun{.name = "fsdp", .strategy = "fsdp"},
                      SlowRun{.name = "data_parallel", .strategy = "data_parallel"},
                      SlowRun{.name = "dist_sync", .strategy = "{name: kvstore, type: dist_sync}"},
                      SlowRun{.name = "model_parallel",
                              .strategy = "{name: model_parallel, stages: [conv1, conv2], micro_batches: 4}",
                              .gbps = 1},
                      // There are four stages on as many cores; a stage that waits leaves its core to the others.
                      SlowRun{.name = "hybrid",
                              .strategy = "{name: hybrid, model_parallel: 2, stages: [conv1, conv2], micro_batches: 4}",
                              .ranks = 4,
                              .gbps = 1}),
    [](const auto& slow) { return slow.param.name; });

TEST_F(PlanTest, RefusesWhatItCannotTell) {
  expect_refused(plan({"--devices", "16xh300"}), 78, {"--devices", "h200", "'16xh300'"});
  expect_refused(plan({"--devices", "0xh200"}), 78, {"--devices", "'0xh200'"});
  expect_refused(plan({"--devices", "cuda:60"}), 71,
                 {"cuda:60 is not on this machine", "write for instance --devices 8xh200"});
  expect_refused(plan({"--set", "strategy=auto"}), 78, {"a plan needs one strategy"});
  expect_refused(plan({"--set", "strategy={name: kvstore, type: dist_async}"}), 78, {"all devices take together"});
  expect_refused(plan({"--devices", "65xh200"}), 78, {"--devices", "64 devices at most", "65 on one", "--links FILE"});
  folder_.write("empty.yaml", "");
  folder_.write("wrong.yaml", "hosts: {devices: 1, gbps: 1}\ngbps: -3\n");
  for (const char* devices : {"2xcpu", "2xh200"})
    expect_refused(plan({"--devices", devices, "--links", "wrong.yaml"}), 78, {"wrong.yaml:2:1: gbps: ", "got -3"});
  folder_.write("wrong.yaml", "gbps: 1\nhost: {devices: 1, gbps: 1}\n");
  expect_refused(plan({"--links", "wrong.yaml"}), 78, {"wrong.yaml:2:1: host: unknown key, did you mean 'hosts'?"});
  folder_.write("wrong.yaml", "gbps: 1\nother: 1\n");
  expect_refused(plan({"--links", "wrong.yaml"}), 78,
                 {"wrong.yaml:2:1: other: unknown key, choose one of: hosts, latency_us, gbps, pairs"});
  expect_refused(plan({"--devices", "16xh200", "--links", "empty.yaml"}), 78,
                 {"empty.yaml", "an empty file", "hosts: {"});
  folder_.write("links.yaml", "hosts: {devices: 8, gbps: 100}\n");
  expect_refused(plan({"--devices", "2048xh200", "--links", "links.yaml", "--set", "batch_size=2048", "--set",
                       "strategy={name: ddp, compress: two_bit}"}),
                 78, {"compress", "at most 1024 devices", "2048"});
  expect_refused(plan({"--set", "shards=4", "--set", "threads=2"}), 78, {"shards", "threads=1"});
  expect_refused(plan({"--set", "split=auto"}), 78, {"measures no devices"});
  expect_refused(plan({"--calibrate", "nowhere"}), 66, {"nowhere", "a run directory"});
  expect_refused(plan({"--links", "nowhere.yaml"}), 66, {"nowhere.yaml"});
  expect_refused(plan({"--links", "links.yaml"}), 78, {"hosts need a number of devices", "16xh200"});
  expect_refused(
      plan({"--links", "links.yaml", "--devices", "16xh200", "--set", "strategy={name: ddp, inside: data_parallel}"}),
      78, {"expected inside: none", "data_parallel"});
  // Devices that are given only as a number have no names.
  folder_.write("pairs.yaml", "gbps: 1\npairs: {'cuda:0-cuda:1': {gbps: 10}}\n");
  expect_refused(plan({"--devices", "2xh200", "--links", "pairs.yaml"}), 78,
                 {"pairs.yaml:2:9: pairs.cuda:0-cuda:1: expected no pairs", "leave out the pairs"});
  folder_.write("slow.yaml", "hosts: {devices: 8, gbps: 1e-300}\n");
  expect_refused(plan({"--devices", "16xh200", "--links", "slow.yaml"}), 78, {"hosts.gbps", "1e-300"});
  folder_.write("wrong.yaml", "hosts: {devices: 8, gbps: 100, latency: 3}\n");
  expect_refused(plan({"--links", "wrong.yaml", "--devices", "16xh200"}), 78, {"latency", "latency_us"});
  expect_refused(plan({"--set", "memory_limit=1000000"}), 71, {"limit of 1000000"});
}

TEST_F(PlanTest, TheTimelineIsOfTheStep) {
  const json document = planned({"--devices", "4xh200", "--trace", "step.json"});
  const json trace = json_of("step.json");
  EXPECT_EQ(trace["otherData"]["devices"], "4xh200");
  EXPECT_EQ(trace["otherData"]["strategy"], "ddp");
  std::vector<double> waits(4);
  for (const json& event : trace["traceEvents"]) {
    if (event["name"] == "process_name") {
      EXPECT_EQ(event["args"]["name"], fmt::format("rank {0} (cuda:{0})", event["pid"].get<int>()));
    }
    if (event["ph"] != "X") continue;
    if (event["name"] == "step") {
      EXPECT_NEAR(event["dur"].get<double>(), 1e6 * document["time"]["step_s"].get<double>(), 0.01);
    }
    if (event["name"] == "wait for others") waits.at(event["pid"].get<size_t>()) += event["dur"].get<double>();
  }
  EXPECT_GT(waits[0], 0);
  EXPECT_NEAR(waits[0], 1e6 * document["ranks"][0]["time"]["exposed_comm_s"].get<double>(), 0.1);
  // An existing file is replaced.
  planned({"--devices", "2xh200", "--trace", "step.json"});
  EXPECT_EQ(json_of("step.json")["otherData"]["devices"], "2xh200");
}

TEST_F(PlanTest, AKindOfGpuWithoutItsNumberIsAdvisedOne) {
  for (const auto& [devices, advice] : {std::pair("h200", "write 1xh200"),
                                        {"h200:4", "write 4xh200"},
                                        {"4*h200", "write 4xh200"},
                                        {"8 a100", "write 8xa100"}})
    expect_refused(plan({"--devices", devices}), 78, {"--devices", "a number of devices of one kind", advice});
}

/// Where ranks do different work, the step's parts are those of the rank that finishes last.
TEST_F(PlanTest, AStepsPartsAddUpToIt) {
  for (const Arguments& more : {Arguments{}, {"--set", "strategy={name: model_parallel, micro_batches: 4}"}}) {
    Arguments arguments = {"--devices", "2xh200"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const std::string text = run(plan(arguments)).out;
    const std::string line = text.substr(text.find("a step takes "));
    double step = 0, computing = 0, waiting = 0;
    int rank = 0;
    const bool is_pipeline = !more.empty();
    const int read =
        is_pipeline ? std::sscanf(line.c_str(), "a step takes %lf ms, the time of rank %d: %lf computing, %lf", &step,
                                  &rank, &computing, &waiting)
                    : std::sscanf(line.c_str(), "a step takes %lf ms: %lf computing, %lf", &step, &computing, &waiting);
    EXPECT_EQ(read, is_pipeline ? 4 : 3) << line;
    EXPECT_NEAR(computing + waiting, step, 2e-3 * step) << line;
  }
}

TEST_F(PlanTest, ATimelineWithoutTimesIsRefused) {
  expect_refused(plan({"--trace", "step.json"}), 78, {"--trace", "figures are known", "cpu:0, cpu:1", "16xh200"});
  EXPECT_FALSE(exists("step.json"));
  expect_refused(plan({"--devices", "2xh200", "--trace", ""}), 64, {"--trace", "needs a value"});
  expect_refused(plan({"--layers", "--trace", "step.json"}), 64, {"--trace", "--layers"});
  expect_refused(plan({"--devices", "2xh200", "--trace", "no/step.json"}), 74, {"no/step.json"});
}

}  // namespace
}  // namespace dptrain
