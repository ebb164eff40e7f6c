// dptrain bless and gate: figures that a later run must reproduce.
#include <sys/stat.h>

#include <filesystem>
#include <utility>

#include "e2e/command_fixture.h"

namespace dptrain {
namespace {

using nlohmann::json;
using testing::Arguments;
using testing::Finished;

class GateTest : public testing::CommandTest {
 protected:
  Finished bless(Arguments more = {}) const {
    more.insert(more.begin(), {"bless", "--config", "digits.yaml", "--steps", "5", "-o", "blessed.json"});
    return run(more);
  }
  Finished gate(Arguments more = {}) const {
    more.insert(more.begin(), {"gate", "blessed.json", "--config", "digits.yaml"});
    return run(more);
  }
};

TEST_F(GateTest, ARerunPassesAndAChangedRateFails) {
  const Finished blessed = bless();
  ASSERT_EQ(blessed.exit, 0) << blessed.err;
  EXPECT_NE(blessed.out.find("blessed.json: 5 steps of digits"), std::string::npos) << blessed.out;
  EXPECT_EQ(violations("blessing.schema.json", json_of("blessed.json")), Arguments());
  const Finished again = gate({"--json"});
  ASSERT_EQ(again.exit, 0) << again.err;
  const json report = json::parse(again.out);
  EXPECT_EQ(violations("gate.schema.json", report), Arguments());
  EXPECT_TRUE(report["passed"]);
  for (const json& finding : report["findings"]) EXPECT_EQ(finding["verdict"], "equal") << finding;

  const Finished changed = gate({"--set", "learning_rate=0.051", "--quiet"});
  expect_failed(changed, 1, {"learning rate of step 1: 0.051, expected the blessed", "changed since: learning_rate"});
  const Finished momentum = gate({"--set", "optimizer={name: sgd, momentum: 0.3}", "--quiet"});
  expect_failed(momentum, 1, {"loss of step", "changed since: ", "optimizer"});
  EXPECT_FALSE(exists("runs"));
}

TEST_F(GateTest, WhatNoTrainingBeginsWithIsRefused) {
  for (const Arguments& command : {Arguments{"bless", "-o", "blessed.json"}, {"plan"}, {"bench", "ops"}}) {
    SCOPED_TRACE(command[0]);
    Arguments arguments = command;
    arguments.insert(arguments.end(), {"--config", "digits.yaml", "--devices", "cpu:0", "--set", "strategy=single",
                                       "--set", "model={layers: [flatten, {linear: 8}, batch_norm, {linear: classes}]}",
                                       "--set", "batch_size=1"});
    expect_failed(run(arguments), 78, {"its batch norm of 8 features", "got one sample at a time"});
    EXPECT_FALSE(exists("blessed.json"));
  }
}

TEST_F(GateTest, TheSameSamplesOnOtherDevicesPass) {
  ASSERT_EQ(bless({"--devices", "cpu:0"}).exit, 0);
  for (const char* strategy : {"ddp", "data_parallel", "kvstore"}) {
    const Finished finished = gate({"--devices", "cpu:0-1", "--set", std::string("strategy=") + strategy});
    EXPECT_EQ(finished.exit, 0) << finished.err;
    EXPECT_NE(finished.out.find("not compared"), std::string::npos) << finished.out;
  }
}

TEST_F(GateTest, ABlessedFileIsReplacedWhole) {
  ASSERT_EQ(bless().exit, 0);
  const std::string before = text("blessed.json");
  const Finished diverged = bless({"--set", "learning_rate=1e30"});
  expect_failed(diverged, 79, {"the loss of step", "nothing was written"});
  EXPECT_EQ(text("blessed.json"), before);
  ASSERT_EQ(bless({"--set", "seed=7"}).exit, 0);
  EXPECT_NE(text("blessed.json"), before);
}

TEST_F(GateTest, StepsAreThoseOfTheTraining) {
  const Arguments four = {"bless", "--config", "digits.yaml", "-o",     "blessed.json",
                          "--set", "epochs=",  "--set",       "steps=4"};
  const Finished finished = run(four);
  ASSERT_EQ(finished.exit, 0) << finished.err;
  EXPECT_EQ(json_of("blessed.json")["steps"].size(), 4U);
  Arguments five = four;
  five.insert(five.end(), {"--steps", "5"});
  expect_refused(five, 64, {"--steps", "at most the 4 steps of the run", "got 5"});
  expect_refused({"bless", "--config", "digits.yaml", "-o", "few.json", "--set", "epochs=", "--set", "steps=2"}, 78,
                 {"bless: expected a run of at least 3 steps, got 2"});
  EXPECT_FALSE(exists("few.json"));
}

TEST_F(GateTest, ShardsOfSeveralThreadsPassWhateverTheyHold) {
  const Arguments shards = {"--set", "shards=4", "--set", "threads=2"};
  ASSERT_EQ(bless(shards).exit, 0);
  const Finished finished = gate(shards);
  EXPECT_EQ(finished.exit, 0) << finished.err;
  EXPECT_NE(finished.out.find("varies with their timing"), std::string::npos) << finished.out;
}

TEST_F(GateTest, AFileIsWrittenWhereALinkLeadsToAndNothingElseIsReplaced) {
  folder_.write("target.json", "");
  std::filesystem::create_symlink("target.json", path("blessed.json"));
  ASSERT_EQ(bless().exit, 0);
  EXPECT_TRUE(std::filesystem::is_symlink(path("blessed.json")));
  EXPECT_EQ(violations("blessing.schema.json", json_of("target.json")), Arguments());
  ASSERT_EQ(::mkfifo(path("pipe").c_str(), 0600), 0);
  std::filesystem::create_directories(path("folder"));
  for (const auto& [place, what] :
       {std::pair("pipe", "a pipe"), std::pair("folder", "a folder"), std::pair("/dev/null", "a device")}) {
    expect_refused({"bless", "--config", "digits.yaml", "-o", place}, 74, {place, "expected a file", what});
    expect_refused({"plan", "--config", "digits.yaml", "--devices", "2xh200", "--trace", place}, 74, {place, what});
  }
  expect_refused({"bless", "--config", "digits.yaml", "-o", std::string(300, 'x')}, 74, {"can be written"});
}

TEST_F(GateTest, AFileOfAnotherFormIsNotReplaced) {
  const std::string config = text("digits.yaml");
  const Arguments words = {"digits.yaml", "expected no file there, or ", "to replace", "another file"};
  expect_refused({"bless", "--config", "digits.yaml", "-o", "digits.yaml"}, 74, words);
  expect_refused({"plan", "--config", "digits.yaml", "--devices", "2xh200", "--trace", "digits.yaml"}, 74, words);
  expect_refused({"report", ".", "-o", "digits.yaml"}, 74, words);
  EXPECT_EQ(text("digits.yaml"), config);
}

TEST_F(GateTest, WhatCantBeHeldToEachOtherIsRefused) {
  ASSERT_EQ(bless().exit, 0);
  expect_refused({"gate", "none.json", "--config", "digits.yaml"}, 66, {"none.json"});
  folder_.write("damaged.json", "{}");
  expect_refused({"gate", "damaged.json", "--config", "digits.yaml"}, 65, {"damaged.json", "dptrain bless"});
  for (const char* measured : {"strategy=auto", "split=auto"})
    expect_refused({"gate", "blessed.json", "--config", "digits.yaml", "--set", measured}, 78, {"measured", "auto"});
  expect_refused({"bless", "--config", "digits.yaml", "-o", "no/blessed.json"}, 74, {"no/blessed.json", "folder"});
  expect_refused({"bless", "--config", "digits.yaml"}, 64, {"-o"});
  expect_refused({"bless", "--config", "digits.yaml", "-o", "x.json", "--steps", "2"}, 64, {"--steps"});
  expect_refused({"gate", "", "--config", "digits.yaml"}, 64, {"file", "needs a value"});
  EXPECT_EQ(run({"gate", "none.json", "--config", "digits.yaml", "--dump-config"}).exit, 0);
}

/// The blessed figures are of LeNet's first steps on a processor with AVX-512 and bf16.
TEST_F(GateTest, LeNetTrainsAsItDid) {
  const std::string blessed = testing::source_file("tests/golden/blessed/lenet_ddp_2cpu.json");
  for (const Arguments& other :
       {Arguments{}, Arguments{"--set", "strategy=data_parallel"}, Arguments{"--devices", "cpu:0"}}) {
    Arguments all = {"gate", blessed, "--config", "lenet_ddp_2cpu"};
    all.insert(all.end(), other.begin(), other.end());
    const Finished finished = run(all);
    EXPECT_EQ(finished.exit, 0) << finished.err;
  }
}

}  // namespace
}  // namespace dptrain
