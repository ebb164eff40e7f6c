// Lists of names with options, which may themselves contain such lists.

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "config/sample_config.h"

namespace dptrain::testing {
namespace {

using Lines = std::vector<std::string>;

/// Reads a list of steps; returns what it read, "wait 3" or "loop 2 [wait 1 | stop]".
std::string read_steps(ConfigReader& config) {
  std::string steps;
  const auto add = [&](const std::string& step) { steps += (steps.empty() ? "" : " | ") + step; };
  const std::vector<ConfigChoice> choices = {
      {"stop", "ends", [&](ConfigReader& options) { add("stop" + options.text("name", "")); }},
      {"wait", "does nothing for a while",
       [&](ConfigReader& options) {
         add("wait " + std::to_string(options.integer("seconds", std::nullopt, {.min = 1, .max = 9})));
       },
       "seconds"},
      {"loop", "steps, several times",
       [&](ConfigReader& options) {
         const int64_t times = options.integer("times", 2);
         add("loop " + std::to_string(times) + " [" + read_steps(options) + "]");
       },
       "steps"},
  };
  config.named_list("steps", choices, {.definition = "steps", .help = "what to do"});
  return steps;
}

std::string steps_of(const std::string& text, const Lines& overrides = {}) {
  std::string steps;
  ConfigNode root = parse_config(text, "a.yaml");
  for (const auto& assignment : overrides) override_config(root, assignment);
  ConfigSession session(root, [&](ConfigReader& config) { steps = read_steps(config); });
  return steps;
}

Lines mistakes_of(const std::string& text, const Lines& overrides = {}) {
  return error_of([&] { steps_of(text, overrides); }).lines();
}

TEST(NamedList, ReadsNamesAloneAndInFrontOfTheirOptions) {
  EXPECT_EQ(steps_of("steps: [stop, wait: {seconds: 3}, stop: {name: p}, stop: , stop: {}]\n"),
            "stop | wait 3 | stopp | stop | stop");
}

TEST(NamedList, AShorthandStandsForItsOption) {
  EXPECT_EQ(steps_of("steps:\n  - wait: 4\n  - loop: [stop]\n"), "wait 4 | loop 2 [stop]");
}

TEST(NamedList, HoldsListsOfItsOwnKind) {
  EXPECT_EQ(steps_of("steps:\n  - loop:\n      times: 3\n      steps:\n        - loop: [wait: 1]\n        - stop\n"),
            "loop 3 [loop 2 [wait 1] | stop]");
}

TEST(NamedList, AnOverrideGivesOptionsToAShorthand) {
  const std::string text = "steps: [stop, wait: 4, loop: [stop, wait: 2]]\n";
  EXPECT_EQ(steps_of(text, {"steps[1].wait.seconds=5"}), "stop | wait 5 | loop 2 [stop | wait 2]");
  EXPECT_EQ(steps_of(text, {"steps[2].loop.times=3"}), "stop | wait 4 | loop 3 [stop | wait 2]");
  EXPECT_EQ(steps_of(text, {"steps[2].loop.times=3", "steps[2].loop.steps=[stop]"}), "stop | wait 4 | loop 3 [stop]");
  EXPECT_EQ(steps_of(text, {"steps[2].loop.steps[1].wait.seconds=7", "steps[2].loop.times=1"}),
            "stop | wait 4 | loop 1 [stop | wait 7]");
  EXPECT_EQ(steps_of(text, {"steps[2].loop.times=1", "steps[2].loop.steps[1].wait.seconds=7"}),
            "stop | wait 4 | loop 1 [stop | wait 7]");
  EXPECT_EQ(steps_of(text, {"steps[2].loop[0]=", "steps[1]=", "steps[0].stop.name=ped"}), "stopped | loop 2 [wait 2]");
}

TEST(NamedList, MistakesOfAnOverrideNameTheFlag) {
  const std::string text = "steps: [stop, wait: 4, loop: [stop, wait: 2]]\n";
  EXPECT_EQ(mistakes_of(text, {"steps[2].loop[1].wait=10", "steps[0]=stopp", "steps[1].wait.second=1"}),
            (Lines{"--set: steps[0]: expected a known name, got 'stopp'; did you mean 'stop'?",
                   "--set: steps[2].loop.steps[1].wait.seconds: expected an integer from 1 to 9, got 10; write for "
                   "instance seconds: 9",
                   "--set: steps[1].wait.second: unknown key, did you mean 'seconds'?"}));
  EXPECT_EQ(mistakes_of(text, {"steps[1].seconds=3", "steps[2].loop.step[1].wait=3"}),
            (Lines{"--set: steps[1]: expected a name, alone or followed by its options, got the mapping {wait: 4, "
                   "seconds: 3}; write wait: {seconds: 3}",
                   "--set: steps[2].loop.step: unknown key, did you mean 'steps'?"}));
  EXPECT_EQ(mistakes_of(text, {"steps[1].wiat=3"}),
            Lines{"--set: steps[1]: expected a name, alone or followed by its options, got the mapping {wait: 4, wiat: "
                  "3}; did you mean 'wait' instead of 'wiat'?"});
  EXPECT_EQ(mistakes_of("steps: [stop: 3]\n", {"steps[0].stop.name=x"}),
            Lines{"a.yaml:1:9: steps[0].stop: expected nothing, or a mapping of options, got the mapping {'': 3, name: "
                  "x}; write stop alone"});
  EXPECT_EQ(mistakes_of("steps: [wait: {'': 3}]\n").size(), 2u) << "a file has no such shorthand";
}

TEST(NamedList, SaysWhichItemIsWrong) {
  EXPECT_EQ(mistakes_of("steps:\n  - stopp\n  - wait: 10\n  - loop: [wait: {second: 1}]\n"),
            (Lines{"a.yaml:2:5: steps[0]: expected a known name, got 'stopp'; did you mean 'stop'?",
                   "a.yaml:3:5: steps[1].wait.seconds: expected an integer from 1 to 9, got 10; write for instance "
                   "seconds: 9",
                   "a.yaml:4:19: steps[2].loop.steps[0].wait.second: unknown key, did you mean 'seconds'?"}));
  EXPECT_EQ(
      mistakes_of("steps: [walk: 1, stop: 3, ~, [stop]]\n"),
      (Lines{"a.yaml:1:9: steps[0]: expected a known name, got 'walk'; choose one of: stop, wait, loop",
             "a.yaml:1:18: steps[1].stop: expected nothing, or a mapping of options, got 3; write stop alone",
             "a.yaml:1:27: steps[2]: expected a name, alone or followed by its options, got nothing; choose one of: "
             "stop, wait, loop",
             "a.yaml:1:30: steps[3]: expected a name, alone or followed by its options, got the list [stop]; "
             "choose one of: stop, wait, loop"}));
}

TEST(NamedList, SaysHowOptionsBesideTheNameAreWritten) {
  EXPECT_EQ(mistakes_of("steps:\n  - wait:\n    seconds: 3\n  - {type: wait, seconds: 3}\n  - {type: stop}\n"),
            (Lines{"a.yaml:2:5: steps[0]: expected a name, alone or followed by its options, got the mapping {wait: "
                   "null, seconds: 3}; write wait: {seconds: 3}",
                   "a.yaml:4:5: steps[1]: expected a name, alone or followed by its options, got the mapping {type: "
                   "wait, seconds: 3}; write wait: {seconds: 3}",
                   "a.yaml:5:5: steps[2]: expected a name, alone or followed by its options, got the mapping {type: "
                   "stop}; write stop"}));
  // The advice keeps the value that was written behind the name.
  EXPECT_EQ(mistakes_of("steps:\n  - {name: x, wait: 3}\n  - {name: x, wait: {seconds: 3}}\n"),
            (Lines{"a.yaml:2:5: steps[0]: expected a name, alone or followed by its options, got the mapping {name: x, "
                   "wait: 3}; write wait: {seconds: 3, name: x}",
                   "a.yaml:3:5: steps[1]: expected a name, alone or followed by its options, got the mapping {name: x, "
                   "wait: {seconds: 3}}; write wait: {seconds: 3, name: x}"}));
  EXPECT_EQ(mistakes_of("steps:\n  - {wait: {seconds: 3}, stop: }\n"),
            Lines{"a.yaml:2:5: steps[0]: expected a name, alone or followed by its options, got the mapping {wait: "
                  "{seconds: 3}, stop: null}; write each name as an item of its own"});
}

TEST(NamedList, IsNeverEmpty) {
  EXPECT_EQ(mistakes_of("{}\n"),
            Lines{"a.yaml: steps: required, but absent; write steps: <a list of one or more steps>"});
  for (const char* written : {"[]", "{}", "stop"})
    EXPECT_EQ(mistakes_of(std::string("steps: ") + written + "\n").front().substr(0, 60),
              "a.yaml:1:1: steps: expected a list of one or more steps, got");
}

TEST(NamedList, MayBeEmptyWhereItsRuleSaysSo) {
  std::vector<std::string> read;
  const auto read_colors = [&read](ConfigReader& config) {
    const std::vector<ConfigChoice> choices = {{"red", "", [&](ConfigReader&) { read.emplace_back("red"); }}};
    config.named_list("colors", choices, {.definition = "colors", .may_be_empty = true});
  };
  for (const char* written : {"{}\n", "colors: []\n", "colors:\n"}) {
    SCOPED_TRACE(written);
    EXPECT_EQ(ConfigSession(parse_config(written, "a.yaml"), read_colors).resolved_yaml(), "colors: []\n");
    EXPECT_TRUE(read.empty());
  }
  EXPECT_EQ(ConfigSession(parse_config("colors: [red]\n", "a.yaml"), read_colors).resolved_yaml(),
            "colors:\n  - red\n");
  EXPECT_EQ(read, Lines{"red"});
  EXPECT_EQ(error_of([&] { ConfigSession(parse_config("colors: red\n", "a.yaml"), read_colors); }).lines(),
            Lines{"a.yaml:1:1: colors: expected a list of colors, got 'red'; write for instance colors: [red]"});
  const auto schema = nlohmann::json::parse(ConfigSession::schema("colors", read_colors));
  EXPECT_EQ(schema["properties"]["colors"], nlohmann::json::parse(R"({"$ref": "#/$defs/colors", "default": []})"));
  EXPECT_EQ(schema["$defs"]["colors"]["minItems"], 0);
  EXPECT_FALSE(schema.contains("required"));
}

TEST(NamedList, IsTheSameReadAgainFromTheResolvedYaml) {
  const auto resolved = [](const std::string& text) {
    return ConfigSession(parse_config(text, "a.yaml"), [](ConfigReader& config) { read_steps(config); })
        .resolved_yaml();
  };
  const std::string text = "steps: [wait: 4, loop: {steps: [wait: 1, loop: [wait: 2]]}]\n";
  EXPECT_EQ(resolved(text),
            "steps:\n"
            "  - wait:\n"
            "      seconds: 4\n"
            "  - loop:\n"
            "      times: 2\n"
            "      steps:\n"
            "        - wait:\n"
            "            seconds: 1\n"
            "        - loop:\n"
            "            times: 2\n"
            "            steps:\n"
            "              - wait:\n"
            "                  seconds: 2\n");
  EXPECT_EQ(resolved(resolved(text)), resolved(text));
  EXPECT_EQ(steps_of(resolved(text)), steps_of(text));
}

TEST(NamedList, IsDescribedOnceHoweverDeepItGoes) {
  const auto schema = nlohmann::json::parse(ConfigSession::schema("steps", [](ConfigReader& config) {
    config.section("first", [](ConfigReader& inside) { read_steps(inside); });
    config.section("then", [](ConfigReader& inside) { read_steps(inside); });
  }));
  const auto reference = nlohmann::json::parse(R"({"description": "what to do", "$ref": "#/$defs/steps"})");
  EXPECT_EQ(schema["properties"]["first"]["properties"]["steps"], reference);
  EXPECT_EQ(schema["properties"]["then"]["properties"]["steps"], reference);
  EXPECT_EQ(schema["properties"]["then"]["required"], nlohmann::json({"steps"}));
  const auto& steps = schema["$defs"]["steps"];
  EXPECT_EQ(steps["type"], "array");
  EXPECT_EQ(steps["minItems"], 1);
  const auto& any = steps["items"]["anyOf"];
  ASSERT_EQ(any.size(), 4u);
  EXPECT_EQ(any[0]["enum"], nlohmann::json({"stop"})) << "the others have options that are required";
  EXPECT_EQ(any[2]["required"], nlohmann::json({"wait"}));
  EXPECT_EQ(any[2]["properties"]["wait"]["anyOf"][1],
            nlohmann::json::parse(R"({"type": "integer", "minimum": 1, "maximum": 9})"));
  EXPECT_EQ(any[3]["properties"]["loop"]["anyOf"][0]["properties"]["steps"], reference);
  EXPECT_EQ(any[3]["properties"]["loop"]["anyOf"][1], reference);
}

TEST(NamedOptions, AKeyNearANameIsSuggested) {
  const std::vector<ConfigChoice> choices = {{"lenet", "", {}}, {"layers", "", {}}};
  const auto read = [&] {
    ConfigSession session(parse_config("model: {layer: 1}\n", "a.yaml"),
                          [&](ConfigReader& config) { config.named("model", choices, std::nullopt); });
  };
  EXPECT_EQ(error_of(read).lines().front(),
            "a.yaml:1:1: model: expected one of lenet, layers, or a mapping with such a name, got a mapping without "
            "the key 'name': the mapping {layer: 1}; did you mean 'layers'?");
}

}  // namespace
}  // namespace dptrain::testing
