#include "train/comparison_report.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "support/json_schema.h"
#include "support/process.h"
#include "train/compared_runs.h"
#include "train/fault_spec.h"

namespace dptrain::train {
namespace {

using testing::lines_of;

ComparisonReport report_of(size_t repetitions) {
  ComparisonReport report{
      .runs = {figures_of({.run = "single",
                           .seconds = std::vector<double>(repetitions, 0.5),
                           .accuracies = std::vector<double>(repetitions, 0.9)}),
               figures_of({.run = "ddp",
                           .devices = 2,
                           .seconds = std::vector<double>(repetitions, 1),
                           .accuracies = std::vector<double>(repetitions, 0.9),
                           .exposed_comm_s = 0.5,
                           .memory_imbalance = 1.25})},
      .differences = {{.key = "seed", .values = {"0", "1"}}},
      .assertions = {{.holds = true, .expression = "speedup<1", .sentence = "speedup<1 holds: speedup(ddp) is 0.5"}}};
  for (size_t i = 0; i < repetitions; ++i)
    report.runs[1].trainings[i].seconds_per_epoch += 0.01 * static_cast<double>(i);
  return report;
}

size_t characters(const std::string& line) {
  return static_cast<size_t>(std::ranges::count_if(line, [](char c) { return (c & 0xc0) != 0x80; }));
}

/// A report without line ends, to find words that may be on two lines.
std::string in_one_line(std::string text) {
  std::ranges::replace(text, '\n', ' ');
  return text;
}

TEST(ComparisonReport, FitsItsWidthAndSaysAll) {
  for (const size_t repetitions : {size_t{1}, size_t{3}})
    for (const int width : {30, 80, 200}) {
      SCOPED_TRACE(width);
      const std::string text = report_of(repetitions).text(width);
      for (const std::string& line : lines_of(text)) EXPECT_LE(characters(line), static_cast<size_t>(width)) << line;
      for (const char* header : {"strategy", "devices", "s/epoch", "samples/s", "speed-up", "efficiency", "accuracy %",
                                 "peak MB", "imbalance", "MB sent", "exposed s", "weights"})
        EXPECT_NE(text.find(header), std::string::npos) << header;
      for (const char* words :
           {"2 cpu", "0.50", "1.25", "90.00", "1.0", "2.5", "aaaaaaaaaaaa", "median over the epochs",
            "The runs differ in seed: 0, 1.", "0.5x; 50 % of the step is exposed communication"})
        EXPECT_NE(in_one_line(text).find(words), std::string::npos) << words << "\n" << text;
    }
}

TEST(ComparisonReport, OnAWideTerminalIsOneTable) {
  const auto lines = lines_of(report_of(1).text(200));
  EXPECT_TRUE(lines.at(0).starts_with("run ") && lines.at(0).ends_with("weights")) << lines[0];
  EXPECT_TRUE(lines.at(1).starts_with("single "));
  EXPECT_TRUE(lines.at(2).starts_with("ddp "));
  EXPECT_EQ(lines.at(3), "");
}

TEST(ComparisonReport, OfRepetitionsSaysWhatIsSignificant) {
  const std::string text = in_one_line(report_of(3).text(200));
  EXPECT_NE(text.find("1.010 ± 0.010"), std::string::npos) << text;
  EXPECT_NE(text.find("ddp against single: seconds per epoch differs significantly, by +0.51"), std::string::npos);
  EXPECT_NE(text.find("accuracy in %: no significant difference (p = 1)"), std::string::npos) << text;
  EXPECT_EQ(report_of(1).text(200).find("significant"), std::string::npos) << "one training shows no such thing";
}

TEST(ComparisonReport, OfATargetHasTheSecondsToIt) {
  ComparisonReport report = report_of(3);
  for (RunFigures& run : report.runs) run.target = 0.9;
  const auto document = nlohmann::json::parse(report.json());
  EXPECT_EQ(testing::schema_violations("compare.schema.json", document), std::vector<std::string>());
  EXPECT_EQ(document["target"], 0.9);
  EXPECT_EQ(document["runs"][0]["seconds_to_target"], 1.0);
  EXPECT_EQ(document["runs"][0]["trainings"][2]["seconds_to_target"], 1.0);
  std::string text = in_one_line(report.text(220));
  for (const char* words : {"s to 90 %", "1.00 ± 0.00", "2.00 ± 0.00", "seconds to 90 % differs significantly, by +1",
                            "Seconds to 90 % are training seconds"})
    EXPECT_NE(text.find(words), std::string::npos) << words << "\n" << text;
  // Some of a run's trainings have reached the target, or none.
  report.runs[0].trainings[1].evaluations.pop_back();
  for (TrainingFigures& training : report.runs[1].trainings) training.evaluations.clear();
  text = report.text(220);
  EXPECT_NE(text.find("1.00 ± 0.00 (2 of 3)"), std::string::npos) << text;
  EXPECT_EQ(text.find("seconds to 90 % differs"), std::string::npos) << text;
  const auto unreached = nlohmann::json::parse(report.json());
  EXPECT_TRUE(unreached["runs"][0]["seconds_to_target"].is_null());
  EXPECT_TRUE(unreached["runs"][1]["trainings"][0]["seconds_to_target"].is_null());
  EXPECT_EQ(report_of(1).text(220).find("s to "), std::string::npos) << "nobody has asked for it";
}

TEST(ComparisonReport, JsonFitsItsSchema) {
  ComparisonReport stopped = report_of(1);
  stopped.finished = false;
  stopped.unfinished = {"ddp was stopped in step 3"};
  EXPECT_NE(stopped.markdown().find("The comparison is not complete: ddp was stopped in step 3."), std::string::npos);
  stopped.runs[0].trainings[0].accuracy = std::nullopt;
  for (const ComparisonReport& report : {report_of(1), report_of(3), stopped}) {
    const auto document = nlohmann::json::parse(report.json());
    EXPECT_EQ(testing::schema_violations("compare.schema.json", document), std::vector<std::string>());
    EXPECT_EQ(document["runs"][1]["speedup"], speedup(report.runs[0], report.runs[1]));
  }
}

TEST(ComparisonReport, SaysWhatRunsSufferedOnPurpose) {
  ComparisonReport report = report_of(1);
  const auto says = [&report](const std::string& words) {
    EXPECT_NE(in_one_line(report.text(200)).find(words), std::string::npos) << report.text(200);
    EXPECT_NE(report.markdown().find(words), std::string::npos);
  };
  report.faults = {read_fault("slow:rank=1,ms=5")};
  says("Slowed on purpose, by --fault slow:rank=1,step=1,ms=5: ddp.");
  report.faults = {read_fault("slow:ms=5")};
  says("--fault slow:rank=0,step=1,ms=5: single, ddp; even shares include what that costs single.");
  const auto document = nlohmann::json::parse(report.json());
  EXPECT_EQ(document["faults"], nlohmann::json({"slow:rank=0,step=1,ms=5"}));
  EXPECT_EQ(testing::schema_violations("compare.schema.json", document), std::vector<std::string>());
}

TEST(ComparisonReport, OfMarkdownIsATable) {
  const auto lines = lines_of(report_of(1).markdown());
  EXPECT_TRUE(lines.at(0).starts_with("| run | strategy | devices | s/epoch |")) << lines[0];
  EXPECT_TRUE(lines.at(3).starts_with("| ddp | ddp | 2 cpu | 1.000 | 1000 | 0.50 | 0.25 | 90.00 |")) << lines[3];
}

}  // namespace
}  // namespace dptrain::train
