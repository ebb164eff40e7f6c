#include "train/report_page.h"

#include <gtest/gtest.h>

#include "support/html_page.h"
#include "train/directory_lock.h"
#include "train/reported_runs.h"

namespace dptrain::train {
namespace {

using testing::count_of;
using testing::html_mistakes;
using testing::shown_text;

class ReportPageTest : public ::testing::Test {
 protected:
  static constexpr const char* kSingle = "name: a\nmodel: lenet\ndataset: mnist\nstrategy: single\nepochs: 2\n";
  static constexpr const char* kDdp = "name: b\nmodel: lenet\ndataset: mnist\nstrategy: ddp\nepochs: 2\n";
  static inline const std::string kTwoEpochs =
      metrics_line(1, {.train_loss = 2, .accuracy = 0.5}) + metrics_line(2, {.train_loss = 0.1, .accuracy = 0.975});

  /// The page of all written runs; expects it to be valid HTML.
  std::string page() const {
    std::string html = ReportPage({runs_.path()}).html();
    EXPECT_EQ(html_mistakes(html), std::vector<std::string>());
    return html;
  }
  /// The part of the page between `begin` and `end`.
  static std::string part(const std::string& page, const std::string& begin, const std::string& end) {
    const size_t from = page.find(begin);
    EXPECT_NE(from, std::string::npos) << begin;
    return from == std::string::npos ? "" : page.substr(from, page.find(end, from) - from);
  }
  static std::string section(const std::string& page, const std::string& name) {
    return part(page, "<section id=\"" + name + "\"", "</section>");
  }
  static void expect_shown(const std::string& html, const std::vector<std::string>& words) {
    const std::string text = shown_text(html);
    for (const std::string& some : words)
      EXPECT_NE(text.find(some), std::string::npos) << "no '" << some << "' in\n" << text;
  }

  WrittenRuns runs_;
};

TEST_F(ReportPageTest, HasATableCurvesTimesMemoryAndEachRun) {
  runs_.write("a", kSingle, kTwoEpochs, summary_of());
  runs_.write("b", kDdp, kTwoEpochs, summary_of());
  const std::string html = page();
  expect_shown(part(html, "<header>", "</header>"),
               {"2 runs of lenet on mnist", "2 finished. They differ in strategy.", "97.50 %", "500"});
  expect_shown(section(html, "runs"), {"strategy", "state", "accuracy %", "97.50", "0.1000"});
  const std::string curves = section(html, "curves");
  EXPECT_EQ(count_of(curves, "<svg role=\"img\""), 7u);
  expect_shown(curves, {"a strategy single", "b strategy ddp", "Training loss", "logarithmic", "Test accuracy, %",
                        "Learning rate", "training seconds", "b (strategy ddp): epoch 2, 97.50 %", "4.00 s, 0.1000"});
  EXPECT_EQ(curves.find("Validation"), std::string::npos);
  expect_shown(section(html, "time"), {"exposed", "2.000", "1.000", "0.500", "0.250", "500", "2.5"});
  expect_shown(section(html, "memory"), {"cpu:0", "cpu:1", "3.0", "4.0", "activations 2.0 MB"});
  expect_shown(section(html, "each-run"), {"2 of 2 epochs", "cpu:0, cpu:1 on a", "a <fast> CPU, avx2, 2 cores",
                                           "oneDNN 2.6.3", std::string(64, 'f'), "strategy: ddp\n"});
}

TEST_F(ReportPageTest, TheSameRunsAreTheSameBytes) {
  runs_.write("a", kSingle, kTwoEpochs, summary_of());
  runs_.write("b", kDdp, kTwoEpochs);
  EXPECT_EQ(page(), page());
}

TEST_F(ReportPageTest, WhatUsersWriteIsShownAndNeverMeant) {
  const std::string name = "<img src=x onerror=alert(1)> \"&\" 'ü";
  runs_.write(name, "name: a\nmodel: \"</pre><script>x</script>&amp;\"\nstrategy: single\n", kTwoEpochs, summary_of());
  runs_.write("b", kDdp, kTwoEpochs);
  runs_.write_file("b/fault.json", fault_of_cause("<b>lost</b> & gone").dump());
  const std::string html = page();
  expect_shown(html, {name, "</pre><script>x</script>&amp;", "<b>lost</b> & gone"});
}

TEST_F(ReportPageTest, ARunThatIsUnderWayIsMarked) {
  runs_.write("a", kSingle, metrics_line(1, {}) + metrics_line(2, {}).substr(0, 40));
  const std::string html = page();
  expect_shown(html, {"1 unfinished.", "Unfinished runs were killed, or are running on another host.", "a unfinished",
                      "It was killed, or is running on another host, after 1 of 2 epochs."});
  {
    const DirectoryLock training(runs_.path() / "a");
    expect_shown(page(), {"1 running.", "a running", "It is running, after 1 of 2 epochs."});
  }
  EXPECT_EQ(count_of(html, "class=\"open l0\""), 7u) << "the end of each curve";
  EXPECT_EQ(count_of(html, "class=\"mark l0\""), 7u + 1) << "one epoch shows, and the legend";
}

TEST_F(ReportPageTest, ARunWithoutAnEpochHasNoCurves) {
  runs_.write("a", kSingle, "");
  const std::string html = page();
  expect_shown(html, {"No run has finished an epoch yet.", "0 of 2 epochs"});
  EXPECT_EQ(html.find("<section id=\"memory\""), std::string::npos);
  EXPECT_EQ(html.find("href=\"#memory\""), std::string::npos);
}

TEST_F(ReportPageTest, ARunThatFailedSaysWhyAndHowItGoesOn) {
  runs_.write("a", kSingle, metrics_line(1, {}));
  runs_.write_file("a/fault.json", fault_of_cause("rank 1 (cpu:0 on b) was lost").dump());
  runs_.write("b", kDdp, metrics_line(1, {}));
  runs_.write_file("b/fault-3.json", fault_of_cause("rank 3 has its own word").dump());
  runs_.write("c", kDdp, metrics_line(1, {}), summary_of(130));
  const std::string html = page();
  expect_shown(html, {"1 stopped, 2 failed.", "It failed with 75 after 1 of 2 epochs: rank 1 (cpu:0 on b) was lost",
                      "dptrain --config a.yaml --resume", "rank 3 has its own word",
                      "It was stopped by SIGINT after 1 of 2 epochs."});
  EXPECT_EQ(count_of(html, "class=\"open "), 0u) << "none goes on";
}

TEST_F(ReportPageTest, AValidationHasCurvesAndTheBestEpoch) {
  nlohmann::json epoch = nlohmann::json::parse(metrics_line(1, {}));
  epoch["validation"] = {{"loss", 0.375}, {"accuracy", 0.8125}};
  nlohmann::json summary = summary_of();
  summary["stopped_early"] = true;
  summary["best"] = {{"epoch", 1}};
  runs_.write("a", kSingle, epoch.dump() + "\n", summary);
  expect_shown(page(), {"Validation loss", "Validation accuracy, %", "a: epoch 1, 81.25 %", "valid. loss",
                        "It stopped early, as its validation no longer improved. Its best epoch is 1."});
}

TEST_F(ReportPageTest, TheChoiceOfAutoHasItsCandidates) {
  nlohmann::ordered_json summary = summary_of();
  summary["strategy_trials"] = {
      {"chosen", {{"name", "ddp"}}},
      {"split", "even"},
      {"candidates",
       {{{"strategy", {{"name", "ddp"}, {"bucket_mb", 5}}},
         {"split", "even"},
         {"verdict", "chosen"},
         {"reason", "the fastest"},
         {"seconds_per_step", 0.25},
         {"samples_per_s", 4000},
         {"exposed_comm_s", 0.125},
         {"bytes_per_step", 1'500'000},
         {"peak_bytes", 3'000'000}},
        {{"strategy", {{"name", "kvstore"}}}, {"split", "even"}, {"verdict", "failed"}, {"reason", "needs <more>"}}}}};
  runs_.write("a", kDdp, kTwoEpochs, summary);
  expect_shown(part(page(), "Trials of strategy: auto", "Configuration"),
               {"{name: ddp, bucket_mb: 5}", "chosen", "250.00", "4,000", "125.00", "1.5", "the fastest",
                "{name: kvstore}", "failed", "needs <more>"});
}

TEST_F(ReportPageTest, FiguresAreOfTheDevicesThatARunHasAtItsEnd) {
  runs_.write("a", kDdp,
              metrics_line(1, {.seconds = 8, .devices = 4}) + metrics_line(2, {.seconds = 4, .devices = 4}) +
                  metrics_line(3, {.seconds = 1, .devices = 1}));
  const std::string html = page();
  expect_shown(section(html, "time"), {"1.000"});
  EXPECT_EQ(shown_text(section(html, "time")).find("4.000"), std::string::npos);
  EXPECT_EQ(section(html, "memory").find("cpu:1"), std::string::npos);
  expect_shown(section(html, "curves"), {"13.00 s"});
}

TEST_F(ReportPageTest, AStragglerAndSkippedStepsAreTold) {
  nlohmann::json epoch = nlohmann::json::parse(metrics_line(1, {}));
  epoch["straggler"] = {{"rank", 1}, {"slower", 1.8}, {"waited_s", 0.5}};
  epoch["skipped_steps"] = 1200;
  runs_.write("a", kDdp, epoch.dump() + "\n", summary_of());
  expect_shown(page(), {"1,200 steps were skipped", "A straggler: rank 1 (cpu:1 on a) computed 1.8 times as long"});
}

TEST_F(ReportPageTest, TheGradientNoiseScaleIsTold) {
  nlohmann::json epoch = nlohmann::json::parse(metrics_line(1, {}));
  epoch["global_batch"] = 64;
  epoch["gradient_noise"] = {{"scale", 1234.0}, {"variance", 1234.0}, {"squared_norm", 1.0}};
  runs_.write("a", kDdp, epoch.dump() + "\n", summary_of());
  expect_shown(page(), {"In its last epoch the gradient noise scale was 1,234 samples, by batches of 64: twice the "
                        "batch would need 0.52 times the steps."});
}

TEST_F(ReportPageTest, WhatCantBeReadIsLeftOutAndTold) {
  runs_.write("a", kSingle, kTwoEpochs);
  runs_.write("b", kDdp, "{\"epoch\": 1}\n");
  nlohmann::json epoch = nlohmann::json::parse(metrics_line(1, {}));
  epoch["devices"] = nlohmann::json::array();
  runs_.write("c", kDdp, epoch.dump() + "\n");
  epoch = nlohmann::json::parse(metrics_line(1, {}));
  epoch["straggler"] = {{"rank", 7}, {"slower", 1.8}, {"waited_s", 0.5}};
  runs_.write("d", kDdp, epoch.dump() + "\n");
  runs_.write("e", kDdp, kTwoEpochs);
  runs_.write_file("e/fault.json", "{");
  runs_.write("f", kDdp, kTwoEpochs, {{"exit", 0}, {"steps", 20}, {"weights_hash", ""}});
  const ReportPage report({runs_.path(), runs_.path() / "absent"});
  EXPECT_EQ(report.runs(), 1u);
  ASSERT_TRUE(report.left_out());
  EXPECT_EQ(report.left_out()->code(), ExitCode::bad_data);
  const std::vector<std::string> words = {
      "b/metrics.jsonl: expected a file that a run of dptrain has written, got no key 'step' in line 1",
      "c/metrics.jsonl: expected a file that a run of dptrain has written, got no devices in epoch 1",
      "d/metrics.jsonl: expected a file that a run of dptrain has written, got a straggler of rank 7 among 2 in epoch "
      "1",
      "e/fault.json: expected a file that a run of dptrain has written, got invalid JSON at line 1",
      "f/summary.json: expected a file that a run of dptrain has written, got no key 'environment'",
      "absent: expected a run directory"};
  ASSERT_EQ(report.left_out()->lines().size(), words.size());
  for (size_t i = 0; i < words.size(); ++i)
    EXPECT_NE(report.left_out()->lines()[i].find(words[i]), std::string::npos) << report.left_out()->lines()[i];
  const std::string html = report.html();
  EXPECT_EQ(html_mistakes(html), std::vector<std::string>());
  expect_shown(html, {"1 run of lenet on mnist", "Left out: ", words[0], words[5]});
  EXPECT_EQ(ReportPage({runs_.path() / "absent"}).runs(), 0u);
}

TEST_F(ReportPageTest, OfManyRunsTheBestAreNamedAndTablesStayWhole) {
  for (int i = 0; i < 200; ++i)
    runs_.write(
        "run" + std::to_string(1000 + i), kSingle + ("seed: " + std::to_string(i) + "\n"),
        metrics_line(1, {.accuracy = 0.5 + 0.001 * (i % 100)}) + metrics_line(2, {.accuracy = 0.6 + 0.001 * (i % 100)}),
        summary_of());
  const std::string html = page(), curves = section(html, "curves");
  const std::string legend = part(curves, "<ul class=\"legend curves\">", "</ul>");
  EXPECT_EQ(count_of(legend, "<li>"), 13u);
  expect_shown(legend, {"188 other runs; the 12 runs with the highest test accuracy are named", "run1099 seed 99",
                        "run1194 seed 194"});
  EXPECT_EQ(legend.find("run1093"), std::string::npos);
  EXPECT_EQ(count_of(curves, "<polyline"), 7u * 200);
  EXPECT_EQ(count_of(curves, "class=\"line behind\""), 7u * 188 + 1) << "and in the legend";
  EXPECT_EQ(count_of(section(html, "runs"), "<tr>"), 201u);
  EXPECT_EQ(count_of(section(html, "time"), "<tr>"), 201u);
  EXPECT_EQ(count_of(section(html, "memory"), "<tr>"), 401u);
  EXPECT_EQ(count_of(html, "<details>"), 200u);
}

}  // namespace
}  // namespace dptrain::train
