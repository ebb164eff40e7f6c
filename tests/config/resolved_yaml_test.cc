#include <gtest/gtest.h>

#include <random>

#include "config/sample_config.h"
#include "config/yaml_scalar.h"

namespace dptrain::testing {
namespace {

constexpr const char* kFull = R"(strategy: {overlap: false, name: ddp, compress: {name: powersgd, rank: 2}}
model:
  name: pyramidnet
  alpha: 270
learning_rate: 0.30000000000000004
name: 'yes'
note: "a: 'b' # c\n\td"
dir: data
split: [0.7, 3e-1]
devices: cuda:0-1, cpu:0
checkpoint: {}
layers: [{kind: conv, name: '1'}, {kind: fc}]
hosts: {'node: a': "cuda:0"}
)";

struct Resolved {
  SampleConfig config;
  std::string yaml;
  std::string with_origins;
};

Resolved resolved(const ConfigNode& root) {
  SampleConfig config;
  const ConfigSession session(root, [&](ConfigReader& reader) { read_sample(reader, config); });
  return {config, session.resolved_yaml(), session.resolved_yaml_with_origins()};
}

TEST(ResolvedYaml, WritesDefaultsAndLeavesAbsentOptionsOut) {
  EXPECT_EQ(resolved(parse_config(kSmallest, "a.yaml")).yaml,
            "name: a\nmodel: lenet\nstrategy: single\nlearning_rate: 0.2\nepochs: 10\nprecision: fp32\nthreads: [1]\n"
            "split: []\ndevices: [cpu:0]\ncheckpoint: none\n");
}

TEST(ResolvedYaml, SaysWhereEachValueCameFrom) {
  ConfigNode root = parse_config("model: lenet\nstrategy: ddp\nlearning_rate: 0.2\n", "configs/a.yaml");
  override_config(root, "strategy.overlap=false");
  EXPECT_EQ(resolved(root).with_origins,
            "name: a             # default\n"
            "model: lenet        # configs/a.yaml:1\n"
            "strategy:           # configs/a.yaml:2\n"
            "  name: ddp         # configs/a.yaml:2\n"
            "  bucket_mb: auto   # default\n"
            "  overlap: false    # --set\n"
            "  compress: none    # default\n"
            "learning_rate: 0.2  # configs/a.yaml:3\n"
            "epochs: 10          # default\n"
            "precision: fp32     # default\n"
            "threads: [1]        # default\n"
            "split: []           # default\n"
            "devices: [cpu:0]    # default\n"
            "checkpoint: none    # default\n");
}

TEST(ResolvedYaml, MeansTheSameWhenReadAgainElsewhere) {
  const Resolved first = resolved(parse_config(kFull, "configs/a.yaml"));
  EXPECT_EQ(first.config.layers.size(), 2u);
  const Resolved again = resolved(parse_config(first.yaml, "/elsewhere/config.yaml"));
  EXPECT_EQ(first.config, again.config) << first.yaml;
  EXPECT_EQ(first.yaml, again.yaml);
  EXPECT_EQ(resolved(parse_config(first.with_origins, "/elsewhere/config.yaml")).config, first.config);
}

TEST(ResolvedYaml, KeepsEveryTextAndNumber) {
  const std::vector<std::string> texts = {"",           " ",
                                          "a b",        " a",
                                          "a ",         "null",
                                          "~",          "true",
                                          "No",         "12",
                                          "-1",         "1e5",
                                          "0x1f",       "1:30",
                                          "2024-01-01", "-",
                                          "--- a",      "- a",
                                          "? a",        ":a",
                                          "a:",         "a: b",
                                          "a:b",        "#a",
                                          "a #b",       "a#b",
                                          "[a",         "a]",
                                          "{a",         "a, b",
                                          "*a",         "&a",
                                          "!a",         "|",
                                          ">",          "'",
                                          "\"",         "it's",
                                          "\"q\"",      "%a",
                                          "@a",         "`a",
                                          "\n",         "a\nb",
                                          "\t",         "a\\b",
                                          "\x7f",       "\x1b[31m",
                                          "\xc3\xa9",   "\xf0\x9f\x98\x80",
                                          "<<",         "=",
                                          ".inf",       "http://a?b=c#d",
                                          "/tmp/a b/c", "1f1b",
                                          "cuda:0-3",   "...",
                                          "a\r\nb"};
  for (const auto& text : texts) {
    const ConfigNode root = parse_config(
        "k: " + yaml_text(text) + "\nl: [" + yaml_text(text) + ", x]\n" + yaml_text(text + ".") + ": 1\n", "a.yaml");
    EXPECT_EQ(root.find("k")->scalar, text);
    EXPECT_EQ(root.find("k")->kind, ConfigNode::Kind::scalar);
    ASSERT_EQ(root.find("l")->list.size(), 2u) << text;
    EXPECT_EQ(root.find("l")->list[0].scalar, text);
    EXPECT_NE(root.find(text + "."), nullptr) << text;
    EXPECT_EQ(parse_config("k: " + root.text(), "a.yaml").find("k")->text(), root.text());
  }
  EXPECT_EQ(yaml_text("1f1b"), "1f1b");
  EXPECT_EQ(yaml_text("cuda:0"), "cuda:0");
  EXPECT_EQ(yaml_text("no"), "'no'");

  EXPECT_EQ(yaml_number(0.05), "0.05");
  EXPECT_EQ(yaml_number(1e-5), "1.0e-05") << "1e-05 is a text to YAML 1.1";
  EXPECT_EQ(yaml_number(1.5e-7), "1.5e-07");
  EXPECT_EQ(yaml_number(-1e30), "-1.0e+30");
  std::mt19937_64 random(1);
  for (int i = 0; i < 1000; ++i) {
    const double value =
        std::ldexp(std::uniform_real_distribution<>(-1, 1)(random), static_cast<int>(random() % 1000) - 500);
    EXPECT_EQ(plain_number(yaml_number(value)), value);
  }
}

TEST(ResolvedYaml, ShowsWhatWasResolved) {
  const ConfigNode root = parse_config("devices: auto\nthreads: [1]\nstrategy: {name: single}\n", "a.yaml");
  const std::vector<ConfigChoice> choices = {{"single", "", {}}};
  const ConfigSession session(root, [&](ConfigReader& reader) {
    reader.texts("devices", {});
    reader.resolve("devices", "[cuda:0, cuda:1]", "a.yaml:1, auto");
    reader.texts("devices", {});
    reader.integers("threads", std::vector<int64_t>());
    reader.named("strategy", choices, {});
    reader.resolve("strategy", "{name: ddp, bucket_mb: 2.5}", "auto");
  });
  EXPECT_EQ(session.resolved_yaml_with_origins(),
            "devices: [cuda:0, cuda:1]              # a.yaml:1, auto\n"
            "threads: [1]                           # a.yaml:2\n"
            "strategy: {name: ddp, bucket_mb: 2.5}  # auto\n");
}

TEST(ResolvedYaml, KeepsThatAnEmptySectionWasWritten) {
  const auto yaml_of = [](const std::string& text) {
    const auto read = [](ConfigReader& inside) { inside.optional_integer("every_steps"); };
    const ConfigSession session(parse_config(text, "a.yaml"), [&](ConfigReader& reader) {
      reader.section("checkpoint", read);
      reader.integer("seed", 0);
    });
    return session.resolved_yaml();
  };
  EXPECT_EQ(yaml_of("checkpoint: {}\n"), "checkpoint: {}\nseed: 0\n");
  EXPECT_EQ(yaml_of("seed: 0\n"), "seed: 0\n");
}

/// The options of "net" in this configuration.
ResolvedOptions options_of(const std::string& yaml) {
  ResolvedOptions options;
  const std::vector<ConfigChoice> layers = {
      {"relu", "", {}}, {"linear", "", [](ConfigReader& layer) { layer.integer("features", {}); }, "features"}};
  const std::vector<ConfigChoice> nets = {{"small", "", {}}, {"net", "", [&](ConfigReader& net) {
                                                                net.section("scale", [](ConfigReader& scale) {
                                                                  scale.numbers("mean", {0.5});
                                                                  scale.optional_text("note");
                                                                });
                                                                net.named_list("layers", layers,
                                                                               {.definition = "layers"});
                                                                net.optional_integer("width");
                                                                net.named("inner", std::span(layers).first(1), "relu");
                                                              }}};
  const ConfigSession session(parse_config(yaml, "a.yaml"), [&](ConfigReader& reader) {
    reader.named("net", nets, {});
    options = reader.resolved_options("net");
  });
  return options;
}

TEST(ResolvedYaml, OptionsAreALineEachHoweverTheyWereWritten) {
  const ResolvedOptions expected = {
      {"scale", "{mean: [0.5]}"}, {"layers", "[relu, linear: {features: 3}]"}, {"inner", "relu"}};
  EXPECT_EQ(options_of("net: {name: net, layers: [relu, linear: 3]}\n"), expected);
  EXPECT_EQ(options_of("net:\n  inner: {name: relu}\n  layers:\n  - relu:\n  - linear: {features: 3}\n"
                       "  name: net\n  scale: {mean: 5e-1}\n"),
            expected);
  EXPECT_EQ(options_of("net: small\n"), ResolvedOptions());
}

TEST(ResolvedYaml, OfNothingIsAnEmptyMapping) {
  const ConfigSession session(parse_config("{}", "a.yaml"), [](ConfigReader&) {});
  EXPECT_EQ(session.resolved_yaml(), "{}\n");
}

}  // namespace
}  // namespace dptrain::testing
