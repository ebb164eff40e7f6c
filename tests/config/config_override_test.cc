#include <gtest/gtest.h>

#include "config/sample_config.h"

namespace dptrain::testing {
namespace {

ConfigNode overridden(const std::string& text, const std::string& assignment) {
  ConfigNode root = parse_config(text, "a.yaml");
  override_config(root, assignment);
  return root;
}

std::string refused_override(const std::string& assignment, const std::string& text = "a: 1\nl: [1]\n") {
  const Error error = error_of([&] { overridden(text, assignment); });
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

constexpr const char* kNet =
    "layers:\n"
    "  - conv: {channels: 20, kernel: 5}\n"
    "  - relu\n"
    "  - residual: [linear: 8, {layers: [tanh]}]\n"
    "  - linear: 128\n";

TEST(Override, ReplacesAnItemOfAList) {
  const ConfigNode root = overridden("split: [1, 2]\nhosts: {a: [cuda:0, cuda:1]}\n", "split[0]=0.7");
  EXPECT_EQ(root.find("split")->text(), "[0.7, 2]");
  EXPECT_EQ(root.find("split")->origin.text(), "--set") << "a list of values is shown on a line";
  EXPECT_EQ(root.find("split")->list[1].origin.text(), "a.yaml:1:12");
  EXPECT_EQ(overridden("hosts: {a: [cuda:0, cuda:1]}\n", "hosts.a[1]=cpu:3").text(), "{hosts: {a: [cuda:0, cpu:3]}}");
  EXPECT_EQ(overridden("a: [[1, 2], [3]]\n", "a[0][1]={b: 4}").text(), "{a: [[1, {b: 4}], [3]]}");
}

TEST(Override, ReachesIntoAnItem) {
  const ConfigNode root = overridden(kNet, "layers[0].conv.kernel=3");
  const ConfigNode& conv = root.find("layers")->list[0];
  EXPECT_EQ(conv.text(), "{conv: {channels: 20, kernel: 3}}");
  EXPECT_EQ(conv.origin.text(), "a.yaml:2:5");
  EXPECT_EQ(conv.find("conv")->find("kernel")->origin.text(), "--set");
  const auto item = [](size_t index, const std::string& assignment) {
    return overridden(kNet, assignment).find("layers")->list[index].text();
  };
  EXPECT_EQ(item(3, "layers[3].linear=256"), "{linear: 256}");
  EXPECT_EQ(item(1, "layers[1].relu.name=first"), "{relu: {name: first}}");
  EXPECT_EQ(item(2, "layers[2].residual[0].linear=4"), "{residual: [{linear: 4}, {layers: [tanh]}]}");
  EXPECT_EQ(item(2, "layers[2].residual.layers[1].layers[0]=relu"),
            "{residual: {layers: [{linear: 8}, {layers: [relu]}]}}")
      << "the list stood for that option";
}

TEST(Override, OfNothingTakesAnItemOutOfItsList) {
  const ConfigNode root = overridden(kNet, "layers[2]=");
  EXPECT_EQ(root.text(), "{layers: [{conv: {channels: 20, kernel: 5}}, relu, {linear: 128}]}");
  EXPECT_EQ(root.find("layers")->origin.text(), "--set");
  EXPECT_EQ(overridden("a: [1]\n", "a[0]=").text(), "{a: []}");
}

TEST(Override, RefusesAnIndexThatLeadsNowhere) {
  const std::string bad = "--set: expected a number from 0 in brackets, followed by a dot or '=', got '";
  for (const char* key : {"l[0", "l[", "l[]", "l[x]", "l[-1]", "l[ 0]", "l[0]b", "l[0]]", "l[0x1]"})
    EXPECT_EQ(refused_override(std::string(key) + "=1"),
              bad + key + "'; write for instance --set 'model.layers[0]=relu'");
  EXPECT_EQ(refused_override("l[0].=1"),
            "--set: expected a key like strategy.bucket_mb before the '=', got 'l[0].'; write for instance --set "
            "learning_rate=0.1");
  EXPECT_EQ(refused_override("layers[4]=relu", kNet),
            "--set: layers[4]: expected an index below 4, the number of items, got [4]; write layers[3] for the last "
            "item");
  EXPECT_EQ(refused_override("l[99999999999999999999]=1"),
            "--set: l[99999999999999999999]: expected an index below 1, the number of items, got "
            "[99999999999999999999]; write l[0] for the last item");
  EXPECT_EQ(refused_override("l[0]=1", "l: []\n"),
            "--set: l[0]: expected an index below 0, the number of items, got [0]; set l as a whole");
  EXPECT_EQ(refused_override("a[0]=2"), "--set: a[0]: expected a list in front of [0], got 1; set a as a whole");
  EXPECT_EQ(refused_override("b.c[0]=2"),
            "--set: b.c[0]: expected a list in front of [0], got nothing; set b.c as a whole");
  EXPECT_EQ(refused_override("b[0][1]=2", "b: [{c: 1}]\n"),
            "--set: b[0][1]: expected a list in front of [1], got the mapping {c: 1}; write b[0].KEY for one of its "
            "keys");
}

TEST(Override, RefusesAKeyIntoAnItemThatIsAnotherName) {
  EXPECT_EQ(refused_override("layers[1].dropout=0.3", kNet),
            "--set: layers[1].dropout: expected an item that has the key or the name 'dropout', got 'relu'; set "
            "layers[1] as a whole");
}

TEST(Override, AKeyIntoAListIsAdvisedAnIndex) {
  const std::string expected = ": expected a mapping or a name above this key, got the list ";
  EXPECT_EQ(refused_override("l.b=1"), "--set: l.b" + expected + "[1]; write l[0] for one of its items");
  EXPECT_EQ(refused_override("layers.1=tanh", kNet),
            "--set: layers.1" + expected +
                "[{conv: {channels: 20, kernel: 5}}, relu, {residual: [{linea...; write layers[1] for one of its items")
      << "a list that is cut says so";
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
  EXPECT_EQ(refused_override("b='x"), "--set: b: expected a quote that closes the text, got none; close the quote");
}

TEST(Override, LaterMistakesNameTheFlag) {
  EXPECT_EQ(mistakes_in(kSmallest, {"stratgy=ddp"}),
            std::vector<std::string>{"--set: stratgy: unknown key, did you mean 'strategy'?"});
  EXPECT_EQ(mistakes_in(kSmallest, {"strategy=ddp", "strategy.bucket_mb=0"}),
            std::vector<std::string>{"--set: strategy.bucket_mb: expected a number over 0, or auto, got 0; write for "
                                     "instance --set strategy.bucket_mb=auto"});
}

TEST(Override, AdviceIsInQuotesIfAShellNeedsThem) {
  const auto advised = [](const std::string& assignment) {
    const std::string line = mistakes_in(kSmallest, {assignment}).at(0);
    return line.substr(line.find("write ") + 6);
  };
  EXPECT_EQ(advised("epochs=x"), "for instance --set epochs=10");
  EXPECT_EQ(advised("layers=x"), "for instance --set 'layers=[{kind: conv}]'");
  EXPECT_EQ(advised("checkpoint=3"), "for instance --set 'checkpoint={keep: 3}'");
  EXPECT_EQ(advised("model=pyramidnet"), "--set 'model.alpha=<an integer from 1 to 1000>'");
  EXPECT_EQ(advised("dir=[1]"), "for instance --set \"dir='...'\"") << "the value has quotes of its own";
}

}  // namespace
}  // namespace dptrain::testing
