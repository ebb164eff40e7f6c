#include <gtest/gtest.h>

#include "config/sample_config.h"

namespace dptrain::testing {
namespace {

ConfigNode overridden(const std::string& text, const std::string& assignment) {
  ConfigNode root = parse_config(text, "a.yaml");
  override_config(root, assignment);
  return root;
}

std::string refused_override(const std::string& assignment) {
  const Error error = error_of([&] { overridden("a: 1\nl: [1]\n", assignment); });
  EXPECT_EQ(error.code(), ExitCode::config);
  return error.what();
}

TEST(Override, ReplacesAValueAndRemembersTheFlag) {
  const ConfigNode root = overridden("a: 1\nb: {c: 2, d: 3}\n", "b.c=[4, {e: '5'}]");
  EXPECT_EQ(root.text(), "{a: 1, b: {c: [4, {e: '5'}], d: 3}}");
  EXPECT_EQ(root.find("b")->find("c")->origin.text(), "--set");
  EXPECT_EQ(root.find("b")->find("d")->origin.text(), "a.yaml:2:11");
}

TEST(Override, MakesMappingsOnTheWay) {
  EXPECT_EQ(overridden("a: 1\n", "x.y.z=w").text(), "{a: 1, x: {y: {z: w}}}");
  EXPECT_EQ(overridden("x:\n", "x.y=1").text(), "{x: {y: 1}}");
}

TEST(Override, GivesOptionsToAName) {
  const ConfigNode root = overridden("strategy: ddp\n", "strategy.bucket_mb=5");
  EXPECT_EQ(root.text(), "{strategy: {name: ddp, bucket_mb: 5}}");
  EXPECT_EQ(root.find("strategy")->find("name")->origin.text(), "a.yaml:1:1");
}

TEST(Override, TakesCommasColonsAndEqualsSignsAsText) {
  EXPECT_EQ(overridden("a: 1\n", "a=cuda:0,cpu:0").find("a")->scalar, "cuda:0,cpu:0");
  EXPECT_EQ(overridden("a: 1\n", "a=b=c").find("a")->scalar, "b=c");
}

TEST(Override, OfNothingTakesTheDefaultAgain) {
  ConfigNode root = parse_config("model: lenet\nlearning_rate: 0.2\nepochs: 3\n", "a.yaml");
  override_config(root, "epochs=");
  EXPECT_EQ(sample_of(root).epochs, 10);
}

TEST(Override, RefusesABadForm) {
  EXPECT_EQ(refused_override("epochs"),
            "--set: expected KEY=VALUE, got 'epochs'; write for instance --set learning_rate=0.1");
  const std::string advice = "; write for instance --set learning_rate=0.1";
  EXPECT_EQ(refused_override("=1"), "--set: expected a key like strategy.bucket_mb before the '=', got ''" + advice);
  EXPECT_EQ(refused_override("a..b=1"),
            "--set: expected a key like strategy.bucket_mb before the '=', got 'a..b'" + advice);
}

TEST(Override, RefusesWhatAFileMayNotHoldEither) {
  EXPECT_EQ(refused_override("b=&x 1"),
            "--set: b: expected plain values, got the anchor &x; write the value out wherever it is needed");
  EXPECT_EQ(refused_override("b=c: 1"),
            "--set: b: expected a value in flow style, got a list or mapping in block style; write [a, b] or {key: "
            "value}");
  EXPECT_EQ(refused_override("b=[1"),
            "--set: b: expected a name as the key, got a list; write a name before the colon, or close the bracket");
  EXPECT_EQ(refused_override("b='x"),
            "--set: b: expected valid YAML, got a mistake in the syntax (illegal EOF in scalar); check indentation, "
            "brackets, quotes and the space behind each colon, here and above");
  EXPECT_EQ(refused_override("l.b=1"),
            "--set: l.b: expected a mapping or a name on the way to this key, got the list [1]; replace the list as "
            "a whole");
}

TEST(Override, LaterMistakesNameTheFlag) {
  EXPECT_EQ(mistakes_in(kSmallest, {"stratgy=ddp"}),
            std::vector<std::string>{"--set: stratgy: unknown key, did you mean 'strategy'?"});
  EXPECT_EQ(mistakes_in(kSmallest, {"strategy=ddp", "strategy.bucket_mb=0"}),
            std::vector<std::string>{"--set: strategy.bucket_mb: expected a number over 0, or auto, got 0; write for "
                                     "instance --set strategy.bucket_mb=auto"});
}

}  // namespace
}  // namespace dptrain::testing
