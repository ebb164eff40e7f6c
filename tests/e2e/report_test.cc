// `dptrain report`: runs that this program has trained, on one page.
#include "e2e/command_fixture.h"
#include "support/html_page.h"

namespace dptrain {
namespace {

using testing::Arguments;
using testing::Finished;

class ReportTest : public testing::CommandTest {
 protected:
  static Arguments of_patterns(const std::string& strategy, const std::string& devices) {
    return {"dataset={name: synthetic, samples: 64, test_samples: 16, shape: [1, 16, 16]}", "batch_size=16", "epochs=2",
            "strategy=" + strategy, "devices=" + devices};
  }
};

TEST_F(ReportTest, APageOfRunsThatWereTrained) {
  train("runs/single", of_patterns("single", "cpu:0"));
  train("runs/ddp", of_patterns("ddp", "cpu:0-1"));
  const Finished finished = run({"report", "runs", "-o", "report.html"});
  EXPECT_EQ(finished.exit, 0) << finished.err;
  EXPECT_EQ(finished.err, "");
  EXPECT_EQ(finished.out, "report.html: 2 runs\n");
  const std::string page = text("report.html"), shown = testing::shown_text(page);
  EXPECT_EQ(testing::html_mistakes(page), Arguments());
  for (const std::string& words :
       {std::string("2 runs of lenet on synthetic"), std::string("2 finished."), std::string("Test accuracy, %"),
        std::string("Where the time goes"), std::string("2 of 2 epochs"), hash("runs/ddp"),
        text("runs/ddp/config.yaml"), std::string("oneDNN")})
    EXPECT_NE(shown.find(words), std::string::npos) << words;
  EXPECT_EQ(run({"report", "runs/ddp", "runs/single", "runs/", "-o", "again.html"}).exit, 0);
  EXPECT_EQ(run({"report", "runs", "-o", "report.html"}).exit, 0) << "one that is there is replaced";
  EXPECT_EQ(text("report.html"), page) << "the same bytes";
}

TEST_F(ReportTest, MistakesOfTheCommandLine) {
  for (const Arguments& arguments : {Arguments{"report"}, Arguments{"report", "-o", "a.html"}})
    expect_refused(arguments, 64, {"expected RUN_DIR", "dptrain report runs -o report.html"});
  for (const Arguments& arguments :
       {Arguments{"report", "runs"}, Arguments{"report", "runs", "-o", ""}, Arguments{"report", "runs", "-o"}})
    expect_refused(arguments, 64, {"dptrain report --help"});
  expect_refused({"report", "runs", "-o", "a.html", "--fast"}, 64, {"'--fast' is not an argument of dptrain report"});
  EXPECT_FALSE(exists("a.html"));
}

TEST_F(ReportTest, WhatIsNoRunIsLeftOutAndSetsTheExitCode) {
  expect_failed(run({"report", "absent", "-o", "report.html"}), 66, {"absent: expected a run directory"});
  EXPECT_FALSE(exists("report.html")) << "there is nothing to tell";
  train("runs/ddp", of_patterns("ddp", "cpu:0-1"));
  const Finished beside = run({"report", "runs", "absent", "-o", "report.html"});
  expect_failed(beside, 66, {"absent: expected a run directory"});
  EXPECT_EQ(beside.out, "report.html: 1 run\n") << "the others are on the page";
  std::filesystem::create_directories(path("runs/broken"));
  folder_.write("runs/broken/config.yaml", "seed: [0\n");
  expect_failed(run({"report", "runs", "-o", "report.html"}), 65, {"broken/config.yaml"});
  EXPECT_EQ(testing::html_mistakes(text("report.html")), Arguments());
}

TEST_F(ReportTest, APageThatCantBeWrittenIs74) {
  train("runs/ddp", of_patterns("ddp", "cpu:0-1"));
  expect_failed(run({"report", "runs", "-o", "absent/report.html"}), 74, {"absent/report.html", "an existing folder"});
  EXPECT_FALSE(exists("absent")) << "the folder is to be there";
  expect_failed(run({"report", "runs", "-o", "runs"}), 74, {"runs: expected a file, got a folder"});
  EXPECT_TRUE(exists("runs/ddp/metrics.jsonl"));
}

}  // namespace
}  // namespace dptrain
