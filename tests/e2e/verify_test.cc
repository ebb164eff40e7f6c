// `dptrain verify`: a table or one document, and an exit code that says whether strategies are equal.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <thread>

#include "e2e/command_fixture.h"

namespace dptrain {
namespace {

using testing::Arguments;
using testing::Finished;
using testing::lines_of;

class VerifyTest : public testing::CommandTest {
 protected:
  ~VerifyTest() override { ::unsetenv("DPTRAIN_VERIFY_FAULT"); }

  static Arguments verify(const Arguments& more = {}) {
    Arguments arguments = {"verify", "--config", "digits.yaml"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return arguments;
  }
  /// Expects the configuration to be the only file of the folder.
  void expect_nothing_written() const {
    const auto entries = std::filesystem::directory_iterator(folder_.path());
    EXPECT_EQ(std::distance(begin(entries), end(entries)), 1);
  }
};

TEST_F(VerifyTest, ATableOfStrategiesThatAreEqual) {
  const Finished finished = run(verify());
  EXPECT_EQ(finished.exit, 0) << finished.err;
  EXPECT_EQ(finished.err, "");
  const auto lines = lines_of(finished.out);
  for (const std::string& line : lines) EXPECT_LE(line.size(), 80u) << line;
  const auto row = std::ranges::find_if(lines, [](const auto& line) { return line.starts_with("ddp, shard"); });
  ASSERT_NE(row, lines.end()) << finished.out;
  EXPECT_TRUE(row->ends_with("equal")) << *row;
  EXPECT_NE(finished.out.find("hybrid: needs at least 4 devices, got 2."), std::string::npos) << finished.out;
  expect_nothing_written();
}

TEST_F(VerifyTest, OneDocument) {
  const Finished finished = run(verify({"--json", "--steps", "2", "--devices", "cpu:0-2"}));
  EXPECT_EQ(finished.exit, 0) << finished.err;
  const auto document = nlohmann::json::parse(finished.out);
  EXPECT_EQ(violations("verify.schema.json", document), Arguments());
  EXPECT_EQ(document["steps"], 2);
  EXPECT_TRUE(document["equal"]);
  const auto& first = document["strategies"][0];
  EXPECT_EQ(first["strategy"], "data_parallel, gathered");
  EXPECT_EQ(first["verdict"], "equal");
  for (const auto& layer : first["layers"]) EXPECT_LE(layer["difference"], layer["bound"]) << layer;
  EXPECT_EQ(first["layers"].back()["step"], 2);
}

TEST_F(VerifyTest, AFaultSetsTheExitCodeAndIsNamed) {
  ::setenv("DPTRAIN_VERIFY_FAULT", "bucket_left_out", 1);
  const Finished text = run(verify());
  EXPECT_EQ(text.exit, 1);
  const std::string place = "diverges from single first in the backward pass of step 1 at ";
  EXPECT_TRUE(text.err.starts_with("dptrain: data_parallel, gathered " + place + "fc2.bias: difference ")) << text.err;
  std::string unwrapped = text.out;
  std::ranges::replace(unwrapped, '\n', ' ');
  EXPECT_NE(unwrapped.find("ddp, shard_optimizer " + place + "conv1.bias: difference "), std::string::npos) << text.out;
  for (const std::string& line : lines_of(text.out)) EXPECT_LE(line.size(), 80u) << line;
  EXPECT_NE(text.out.find("diverges"), std::string::npos) << text.out;

  const Finished json = run(verify({"--json"}));
  EXPECT_EQ(json.exit, 1);
  const auto document = nlohmann::json::parse(json.out);
  EXPECT_EQ(violations("verify.schema.json", document), Arguments());
  EXPECT_FALSE(document["equal"]);
  for (const auto& row : document["strategies"]) {
    const std::string name = row["strategy"];
    if (!name.starts_with("ddp")) continue;
    EXPECT_EQ(row["verdict"], "diverges");
    EXPECT_EQ(row["first_divergence"]["layer"], "conv1.bias");
  }
  expect_nothing_written();
}

TEST_F(VerifyTest, OtherFaultsAreNamedWhereTheyBegin) {
  struct Planted {
    std::string fault, row, pass, layer;
    Arguments more;
  };
  const std::string normalized =
      "model={layers: [conv: {channels: 4, kernel: 5, stride: 4}, batch_norm, relu, flatten, linear: classes]}";
  for (const Planted& planted : {Planted{"divided_twice", "ddp", "backward", "fc2.bias", {}},
                                 Planted{"local_statistics", "ddp", "forward", "bn1", {"--set", normalized}},
                                 Planted{"boundary_gradient", "model_parallel, 1f1b", "backward", "conv1.bias", {}}}) {
    SCOPED_TRACE(planted.fault);
    Arguments arguments = verify({"--json"});
    arguments.insert(arguments.end(), planted.more.begin(), planted.more.end());
    ::setenv("DPTRAIN_VERIFY_FAULT", planted.fault.c_str(), 1);
    const Finished finished = run(arguments);
    EXPECT_EQ(finished.exit, 1);
    const std::string sentence =
        fmt::format("dptrain: {} diverges from single first in the {} pass of step 1 at {}: ", planted.row,
                    planted.pass, planted.layer);
    EXPECT_NE(finished.err.find(sentence), std::string::npos) << finished.err;
    const auto document = nlohmann::json::parse(finished.out);
    EXPECT_EQ(violations("verify.schema.json", document), Arguments());
    const auto row = std::ranges::find(document["strategies"], planted.row,
                                       [](const auto& one) { return one["strategy"].template get<std::string>(); });
    ASSERT_NE(row, document["strategies"].end());
    ASSERT_EQ((*row)["verdict"], "diverges");
    EXPECT_EQ((*row)["first_divergence"]["pass"], planted.pass);
    EXPECT_EQ((*row)["first_divergence"]["layer"], planted.layer);
    // Without the fault that net's strategies are equal.
    ::unsetenv("DPTRAIN_VERIFY_FAULT");
    EXPECT_EQ(run(arguments).exit, 0);
  }
}

TEST_F(VerifyTest, MistakesAreRefused) {
  expect_refused(verify({"--set", "batch_sise=3"}), 78, {"batch_sise", "did you mean 'batch_size'"});
  expect_refused(verify({"--set", "dataset={name: synthetic, shape: [1, 2, 2]}"}), 78, {"lenet"});
  expect_refused(verify({"--devices", "cuda:0-63"}), 71, {"cuda"});
  expect_refused(verify({"--steps", "0"}), 64, {"--steps"});
  ::setenv("DPTRAIN_VERIFY_FAULT", "all", 1);
  expect_refused(verify(), 64, {"DPTRAIN_VERIFY_FAULT", "'all'", "unset it"});
}

TEST_F(VerifyTest, WeightsToBeginFromMayBeDamagedButForOlderOnes) {
  train("before", {"epochs=2"});
  folder_.write("before/checkpoints/step-000010/model.safetensors", "damaged");
  const Finished finished = run(verify({"--set", "init={from: before}"}));
  EXPECT_EQ(finished.exit, 0) << finished.err;
  EXPECT_NE(finished.err.find("step-000010"), std::string::npos) << finished.err;
  EXPECT_EQ(lines_of(finished.err).size(), 1u) << "told once: " << finished.err;
}

TEST_F(VerifyTest, AnEmptyFaultIsNone) {
  ::setenv("DPTRAIN_VERIFY_FAULT", "", 1);
  const Finished finished = run(verify());
  EXPECT_EQ(finished.exit, 0) << finished.err;
}

TEST_F(VerifyTest, ASignalEndsItAfterTheStepInHand) {
  // There are more comparisons to make than a test has time for.
  testing::Process process(program({"verify", "--config", "lenet_ddp_2cpu", "--set", "threads=1", "--set",
                                    "dataset={name: synthetic, samples: 64, shape: [1, 28, 28]}", "--set",
                                    "batch_size=64", "--steps", "1000"}));
  process.wait_until([&] { return process.catches(SIGINT); });
  std::this_thread::sleep_for(std::chrono::milliseconds(500));
  process.signal(SIGINT);
  expect_failed(process.wait(), 130, {"stopped by SIGINT", "nothing was written"});
}

TEST_F(VerifyTest, ASignalEndsItWithASentence) {
  testing::Process process(program({"verify", "--config", "resnet18_1gpu", "--devices", "cpu:0-3", "--set", "threads=1",
                                    "--set", "dataset={name: synthetic, samples: 64}", "--set", "batch_size=8"}));
  process.wait_until([&] { return process.catches(SIGTERM); });
  std::this_thread::sleep_for(std::chrono::milliseconds(500));
  process.signal(SIGTERM);
  expect_failed(process.wait(), 143, {"stopped by SIGTERM", "nothing was written"});
}

}  // namespace
}  // namespace dptrain
