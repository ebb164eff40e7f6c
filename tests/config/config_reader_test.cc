#include "config/config_reader.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <array>

#include "config/sample_config.h"

namespace dptrain::testing {
namespace {

using Lines = std::vector<std::string>;

/// The mistakes when one more line follows the smallest configuration.
Lines mistakes_of_line(const std::string& line) { return mistakes_in(kSmallest + line + "\n"); }

SampleConfig with(const std::string& line) { return sample_of(parse_config(kSmallest + line + "\n", "a.yaml")); }

void read_only(const std::string& text, const std::function<void(ConfigReader&)>& read) {
  ConfigSession session(parse_config(text, "a.yaml"), read);
}

TEST(ConfigReader, GivesDefaultsForWhatIsAbsentOrEmpty) {
  const SampleConfig config = with("epochs:\nstrategy: ~\nthreads: null\nclip_norm:\n");
  EXPECT_EQ(config.epochs, 10);
  EXPECT_EQ(config.strategy, "single");
  EXPECT_EQ(config.threads, std::vector<int64_t>{1});
  EXPECT_EQ(config.clip_norm, std::nullopt);
  EXPECT_EQ(config.checkpoints, false);
}

TEST(ConfigReader, ReadsEveryKind) {
  const SampleConfig config = sample_of(parse_config(R"(
model: {name: pyramidnet, alpha: 270}
strategy:
  name: ddp
  bucket_mb: .5
  overlap: false
  compress: {name: powersgd, rank: 4}
learning_rate: 1e-3
note: 123
precision: bf16
threads: [1, 3]
split: [0.7, 0.3]
devices: cuda:0, cpu:0
checkpoint: {keep: 2}
layers:
  - {kind: conv, name: c}
  - kind: fc
hosts: {node-a: cuda:0}
)",
                                                     "a.yaml"));
  EXPECT_EQ(config.model, "pyramidnet");
  EXPECT_EQ(config.alpha, 270);
  EXPECT_EQ(config.strategy, "ddp");
  EXPECT_EQ(config.bucket_mb, 0.5);
  EXPECT_EQ(config.overlap, false);
  EXPECT_EQ(config.rank, 4);
  EXPECT_EQ(config.learning_rate, 1e-3);
  EXPECT_EQ(config.note, "123");
  EXPECT_EQ(config.precision, "bf16");
  EXPECT_EQ(config.threads, (std::vector<int64_t>{1, 3}));
  EXPECT_EQ(config.split, (std::vector<double>{0.7, 0.3}));
  EXPECT_EQ(config.devices, (Lines{"cuda:0", "cpu:0"}));
  EXPECT_EQ(config.keep, 2);
  EXPECT_EQ(config.layers, (Lines{"convc", "fc"}));
  EXPECT_EQ(config.hosts, (std::vector<std::pair<std::string, std::string>>{{"node-a", "cuda:0"}}));
}

TEST(ConfigReader, TakesOneValueForAListOfOne) {
  EXPECT_EQ(with("threads: 4").threads, std::vector<int64_t>{4});
  EXPECT_EQ(with("devices: cpu:0-3").devices, Lines{"cpu:0-3"});
  EXPECT_EQ(with("devices: []").devices, Lines{});
}

TEST(ConfigReader, AbsentOrEmptyRequiredKeys) {
  EXPECT_EQ(mistakes_in("epochs: 1\nlearning_rate:\n"),
            (Lines{"configs/a.yaml:2:1: learning_rate: required, but empty; write learning_rate: <a number over 0 and "
                   "of at most 10>",
                   "configs/a.yaml: model: required, but absent; write model: <one of lenet, pyramidnet, or a mapping "
                   "with such a name>"}));
  EXPECT_EQ(mistakes_in("model: pyramidnet\nlearning_rate: 1\n"),
            Lines{"configs/a.yaml:1:1: model.alpha: required, but absent; write alpha: <an integer from 1 to 1000>"});
}

TEST(ConfigReader, Integers) {
  EXPECT_EQ(with("epochs: 9223372036854775807").epochs, INT64_MAX);
  const std::string begin = "configs/a.yaml:3:1: epochs: expected an integer of at least 1, got ";
  EXPECT_EQ(mistakes_of_line("epochs: many"), Lines{begin + "'many'; write for instance epochs: 10"});
  EXPECT_EQ(mistakes_of_line("epochs: 0"), Lines{begin + "0; write for instance epochs: 1"});
  EXPECT_EQ(mistakes_of_line("epochs: '20'"), Lines{begin + "the text '20'; leave out the quotes: write epochs: 20"});
  EXPECT_EQ(mistakes_of_line("epochs: 010"), Lines{begin + "'010'; write for instance epochs: 10"});
  EXPECT_EQ(mistakes_of_line("epochs: 1.0"), Lines{begin + "1.0; write for instance epochs: 1"});
  EXPECT_EQ(mistakes_of_line("epochs: 1e2"), Lines{begin + "1e2; write for instance epochs: 100"});
  EXPECT_EQ(mistakes_of_line("epochs: 1e300"), Lines{begin + "1e300; write for instance epochs: 10"});
  EXPECT_EQ(mistakes_of_line("epochs: [1]"), Lines{begin + "the list [1]; write for instance epochs: 10"});
  EXPECT_EQ(mistakes_of_line("epochs: {a: 1}"), Lines{begin + "the mapping {a: 1}; write for instance epochs: 10"});
  for (const char* text : {"0x10", "1_000", "+1", "1e3", "9223372036854775808", "true"})
    EXPECT_EQ(mistakes_of_line(std::string("epochs: ") + text).size(), 1u) << text;
}

TEST(ConfigReader, Numbers) {
  for (const auto& [text, value] : {std::pair("1e-3", 1e-3), {".5", 0.5}, {"0.1", 0.1}, {"2", 2.0}, {"1.5E+0", 1.5}})
    EXPECT_EQ(sample_of(parse_config(std::string("model: lenet\nlearning_rate: ") + text, "a.yaml")).learning_rate,
              value);
  const std::string begin = "configs/a.yaml:3:1: clip_norm: expected a number of at least 0, got ";
  EXPECT_EQ(mistakes_of_line("clip_norm: .inf"), Lines{begin + "'.inf'; write for instance clip_norm: 0.1"});
  EXPECT_EQ(mistakes_of_line("clip_norm: -1"), Lines{begin + "-1; write for instance clip_norm: 0.1"});
  EXPECT_EQ(mistakes_of_line("clip_norm: '3'"),
            Lines{begin + "the text '3'; leave out the quotes: write clip_norm: 3"});
  for (const char* text : {"nan", "inf", "0x1p3", "1e", ".", "1e999", "1 2", "010", "1,5"})
    EXPECT_EQ(mistakes_of_line(std::string("clip_norm: ") + text).size(), 1u) << text;
  EXPECT_EQ(mistakes_in("model: lenet\nlearning_rate: 0\n"),
            Lines{"configs/a.yaml:2:1: learning_rate: expected a number over 0 and of at most 10, got 0; write for "
                  "instance learning_rate: 0.1"});
}

TEST(ConfigReader, Booleans) {
  const std::string begin = "configs/a.yaml:3:26: strategy.overlap: expected true or false, got ";
  EXPECT_EQ(mistakes_of_line("strategy:   {name:  ddp, overlap: yes}"),
            Lines{begin + "'yes'; write for instance overlap: true"});
  EXPECT_EQ(mistakes_of_line("strategy:   {name:  ddp, overlap: 'true'}"),
            Lines{begin + "the text 'true'; leave out the quotes: write overlap: true"});
  for (const char* no : {"no", "Off", "0", "False"})
    EXPECT_TRUE(mistakes_of_line(fmt::format("strategy:   {{name:  ddp, overlap: {}}}", no))
                    .at(0)
                    .ends_with("; write for instance overlap: false"))
        << no;
}

TEST(ConfigReader, OneOf) {
  const std::string begin = "configs/a.yaml:3:1: precision: expected one of fp32, bf16, fp16, got ";
  EXPECT_EQ(mistakes_of_line("precision: fp3"), Lines{begin + "'fp3'; did you mean 'fp32'?"});
  EXPECT_EQ(mistakes_of_line("precision: double"), Lines{begin + "'double'; write for instance precision: fp32"});
}

TEST(ConfigReader, NamesTheWrongItemOfAList) {
  EXPECT_EQ(mistakes_of_line("threads: [1, 99,\n  x]"),
            (Lines{"configs/a.yaml:3:14: threads[1]: expected an integer from 1 to 64, or a list of them, got 99; "
                   "write for instance 64 in its place",
                   "configs/a.yaml:4:3: threads[2]: expected an integer from 1 to 64, or a list of them, got 'x'; "
                   "write for instance threads: [1]"}));
  EXPECT_EQ(mistakes_of_line("devices: cpu:0,,cpu:1"),
            Lines{"configs/a.yaml:3:1: devices: expected a list of texts, or one text with commas, got 'cpu:0,,cpu:1'; "
                  "write for instance devices: [cpu:0]"});
}

TEST(ConfigReader, NamesWithOptions) {
  EXPECT_EQ(mistakes_of_line("strategy: dpp"),
            Lines{"configs/a.yaml:3:1: strategy: expected one of single, ddp, or a mapping with such a name, got "
                  "'dpp'; did you mean 'ddp'?"});
  EXPECT_EQ(mistakes_of_line("strategy: {name: kvstore, type: local}"),
            Lines{"configs/a.yaml:3:12: strategy.name: expected one of single, ddp, or a mapping with such a name, "
                  "got 'kvstore'; write for instance strategy: single"});
  EXPECT_EQ(mistakes_of_line("strategy: [ddp]"),
            Lines{"configs/a.yaml:3:1: strategy: expected one of single, ddp, or a mapping with such a name, got the "
                  "list [ddp]; write for instance strategy: single"});
  EXPECT_EQ(mistakes_of_line("strategy: {bucket_mb: 3}"),
            Lines{"configs/a.yaml:3:1: strategy: expected one of single, ddp, or a mapping with such a name, got a "
                  "mapping without the key 'name': the mapping {bucket_mb: 3}; add name: ddp"});
  EXPECT_EQ(mistakes_of_line("strategy: {type: ddp, bucket_mb: 3}"),
            Lines{"configs/a.yaml:3:1: strategy: expected one of single, ddp, or a mapping with such a name, got a "
                  "mapping without the key 'name': the mapping {type: ddp, bucket_mb: 3}; write name: ddp in place of "
                  "type: ddp"});
  EXPECT_EQ(mistakes_of_line("strategy: {name: dpd, bucket_m: 3}"),
            (Lines{"configs/a.yaml:3:12: strategy.name: expected one of single, ddp, or a mapping with such a name, "
                   "got 'dpd'; did you mean 'ddp'?",
                   "configs/a.yaml:3:23: strategy.bucket_m: unknown key, did you mean 'bucket_mb'?"}));
  EXPECT_EQ(mistakes_of_line("strategy: {name: single, bucket_mb: 3}"),
            Lines{"configs/a.yaml:3:26: strategy.bucket_mb: unknown key, choose one of: name"});
}

TEST(ConfigReader, TheOnlyKeyThatIsANameChooses) {
  double normal = 0;
  const std::vector<ConfigChoice> choices = {
      {"zeros", "", {}}, {"normal", "", [&](ConfigReader& options) { normal = options.number("normal", 1.0); }}};
  std::string chosen;
  read_only("init: {normal: 0.01}", [&](ConfigReader& reader) { chosen = reader.named("init", choices, {}); });
  EXPECT_EQ(chosen, "normal");
  EXPECT_EQ(normal, 0.01);
}

TEST(ConfigReader, AMappingWithoutANameIsAdvisedTheDefault) {
  const std::vector<ConfigChoice> choices = {{"single", "", {}}, {"ddp", "", {}}};
  const auto mistake = [&](const std::optional<std::string>& otherwise) -> std::string {
    try {
      read_only("strategy: {bucket_mb: 5}",
                [&](ConfigReader& reader) { reader.named("strategy", choices, otherwise); });
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_TRUE(mistake("ddp").ends_with("; add name: ddp")) << mistake("ddp");
  EXPECT_TRUE(mistake(std::nullopt).ends_with("; add name: single")) << "the first, where one has to be chosen";
}

TEST(ConfigReader, OptionsUnderTheirNameAreShownBesideIt) {
  EXPECT_EQ(mistakes_of_line("strategy: {ddp: {bucket_mb: 3}}"),
            Lines{"configs/a.yaml:3:12: strategy.ddp: unknown key, write {name: ddp, bucket_mb: 3}"});
  EXPECT_EQ(mistakes_of_line("strategy: {single: {}}"),
            Lines{"configs/a.yaml:3:12: strategy.single: unknown key, write {name: single}"});
}

TEST(ConfigReader, SectionsAndTheirItems) {
  EXPECT_EQ(mistakes_of_line("checkpoint: 3"),
            Lines{"configs/a.yaml:3:1: checkpoint: expected a mapping, or none, got 3; write for instance checkpoint: "
                  "{keep: 3}"});
  // The value may be meant for the first key.
  EXPECT_EQ(mistakes_of_line("checkpoint: 7"),
            Lines{"configs/a.yaml:3:1: checkpoint: expected a mapping, or none, got 7; write for instance checkpoint: "
                  "{keep: 7}"});
  EXPECT_EQ(mistakes_of_line("checkpoint: {kep: 3}"),
            Lines{"configs/a.yaml:3:14: checkpoint.kep: unknown key, did you mean 'keep'?"});
  EXPECT_EQ(mistakes_of_line("checkpoint: {keep:3}"),
            Lines{"configs/a.yaml:3:14: checkpoint.keep:3: unknown key, write keep: 3, with a space after the colon"});
  EXPECT_EQ(mistakes_of_line("layers: conv"),
            Lines{"configs/a.yaml:3:1: layers: expected a list of mappings, got 'conv'; write for instance layers: "
                  "[{kind: conv}]"});
  EXPECT_EQ(mistakes_of_line("layers:\n  - conv\n  - {name: a}"),
            (Lines{"configs/a.yaml:4:5: layers[0]: expected a list of mappings, got 'conv'; write for instance "
                   "layers: [{kind: conv}]",
                   "configs/a.yaml:5:5: layers[1].kind: required, but absent; write kind: <a text>"}));
  EXPECT_EQ(mistakes_of_line("hosts: a"),
            Lines{"configs/a.yaml:3:1: hosts: expected a mapping, got 'a'; write hosts: <a mapping>"})
      << "no example is known";
}

TEST(ConfigReader, FindsAllMistakesInOnePassInTheOrderOfTheFile) {
  const Lines lines = mistakes_in(
      "learnig_rate: 0.1\nstrategy:\n  name: ddp\n  overlap: 1\n  bucket: 3\nthreads: 0\nzzz: 1\nepochs: -3\n");
  ASSERT_EQ(lines.size(), 7u);
  const std::array<std::string, 7> begins = {
      "configs/a.yaml:1:1: learnig_rate: unknown key, did you mean 'learning_rate'?",
      "configs/a.yaml:4:3: strategy.overlap: expected true or false, got 1;",
      "configs/a.yaml:5:3: strategy.bucket: unknown key, did you mean 'bucket_mb'?",
      "configs/a.yaml:6:1: threads: expected an integer from 1 to 64",
      "configs/a.yaml:7:1: zzz: unknown key, choose one of: name, model,",
      "configs/a.yaml:8:1: epochs: expected an integer of at least 1, got -3;",
      "configs/a.yaml: model: required, but absent;"};
  for (size_t i = 0; i < begins.size(); ++i) EXPECT_EQ(lines[i].substr(0, begins[i].size()), begins[i]);
}

TEST(ConfigReader, SeveralFunctionsReadTheSameMapping) {
  const auto read_two = [](ConfigReader& reader) {
    reader.integer("a", 1);
    reader.section("s", [](ConfigReader& inside) { inside.integer("x", 1); });
  };
  const auto read_three = [](ConfigReader& reader) {
    reader.integer("a", 1);
    reader.section("s", [](ConfigReader& inside) { inside.integer("y", 1); });
  };
  const ConfigNode root = parse_config("a: 2\ns: {x: 3, y: 4}\n", "a.yaml");
  const ConfigSession session(root, [&](ConfigReader& reader) {
    read_two(reader);
    read_three(reader);
  });
  EXPECT_EQ(session.resolved_yaml(), "a: 2\ns:\n  x: 3\n  y: 4\n");
}

TEST(ConfigReader, MistakesOfTheCallerPointAtTheirKey) {
  const Error error = error_of([&] {
    read_only("epochs: 1\nsteps: 2\n", [](ConfigReader& reader) {
      reader.integer("epochs", 1);
      reader.integer("steps", 1);
      EXPECT_EQ(reader.where("batch_size"), "a.yaml: batch_size");
      EXPECT_EQ(reader.where("steps"), "a.yaml:2:1: steps");
      EXPECT_TRUE(reader.has("steps"));
      EXPECT_FALSE(reader.has("batch_size"));
      reader.mistake("batch_size", "expected it or per_device_batch_size", "neither", "write batch_size: 64");
      reader.mistake("steps", "expected epochs or steps", "both", "keep one");
    });
  });
  EXPECT_EQ(error.lines(),
            (Lines{"a.yaml:2:1: steps: expected epochs or steps, got both; keep one",
                   "a.yaml: batch_size: expected it or per_device_batch_size, got neither; write batch_size: 64"}));
}

TEST(ConfigReader, AnErrorOfTheCallerFollowsTheMistakesBeforeIt) {
  const auto fail = [](ConfigReader& reader) {
    reader.integer("epochs", 1);
    throw Error(ExitCode::device, "no GPU");
  };
  EXPECT_EQ(error_of([&] { read_only("epochs: 1\n", fail); }).code(), ExitCode::device);
  const Error error = error_of([&] { read_only("epochs: x\n", fail); });
  EXPECT_EQ(error.code(), ExitCode::config);
  ASSERT_EQ(error.lines().size(), 2u);
  EXPECT_EQ(error.lines()[1], "no GPU");
}

TEST(ConfigReader, AnErrorMayWaitForTheEnd) {
  const auto wait = [](ConfigReader& reader) {
    reader.fail_at_end(Error(ExitCode::device, "no GPU"));
    reader.integer("epochs", 1);
  };
  EXPECT_EQ(error_of([&] { read_only("epochs: 1\n", wait); }).code(), ExitCode::device);
  const Error error = error_of([&] { read_only("epochs: x\nfoo: 1\n", wait); });
  EXPECT_EQ(error.code(), ExitCode::config);
  ASSERT_EQ(error.lines().size(), 3u);
  EXPECT_EQ(error.lines()[2], "no GPU");
  const Error consequence = error_of([&] {
    read_only("epochs: 1\n", [&](ConfigReader& reader) {
      wait(reader);
      throw Error(ExitCode::config, "a consequence");
    });
  });
  EXPECT_EQ(consequence.lines(), Lines{"no GPU"});
}

TEST(ConfigReader, WhereTheMeasureIsMissingOnlyWhatIsWrongByItselfIsNoted) {
  const Error error = error_of([&] {
    read_only("devices: x\nepochs: y\nthreads: 3\nsteps: 2\n", [](ConfigReader& reader) {
      reader.text("devices", std::nullopt);
      constexpr std::array<std::string_view, 1> kMeasured = {"threads"};
      reader.doubt("devices", Error(ExitCode::config, "devices: what are they?"), kMeasured);
      reader.integer("steps", 1);
      reader.mistake("steps", "expected epochs or steps", "both", "keep one");
      reader.integer("threads", 1);
      reader.mistake("threads", "expected one for each device", "3", "write threads: 1");
      reader.integer("epochs", 1);
    });
  });
  EXPECT_EQ(error.lines(), (Lines{"devices: what are they?",
                                  "a.yaml:2:1: epochs: expected an integer, got 'y'; write for instance epochs: 1",
                                  "a.yaml:4:1: steps: expected epochs or steps, got both; keep one"}));
}

TEST(ConfigReader, KeysThatStandTwiceAreNotedWithTheOtherMistakes) {
  const Error error = error_of([&] {
    read_only("epochs: 1\nepochs: 2\nfoo: {d: 1, d: 2}\n", [](ConfigReader& reader) { reader.integer("epochs", 1); });
  });
  EXPECT_EQ(error.code(), ExitCode::config);
  EXPECT_EQ(
      error.lines(),
      (Lines{"a.yaml:2:1: expected the key epochs once, got it on line 1 and again on line 2; keep one of the two",
             "a.yaml:3:1: foo: unknown key, choose one of: epochs",
             "a.yaml:3:13: expected the key d once, got it on line 3 and again on line 3; keep one of the two"}));
}

TEST(ConfigReader, AKeyThatStandsTwiceIsAMistakeWhereItIsOverriddenToo) {
  ConfigNode root = parse_config("epochs: 1\nepochs: 2\n", "a.yaml");
  override_config(root, "epochs=3");
  const Error error = error_of([&] { ConfigSession(root, [](ConfigReader& reader) { reader.integer("epochs", 1); }); });
  EXPECT_EQ(error.lines(),
            Lines{"a.yaml:2:1: expected the key epochs once, got it again on line 2; keep one of the two"});
}

TEST(ConfigReader, AnOverrideWithAKeyTwiceIsNotedWithTheOtherMistakes) {
  ConfigNode root = parse_config("epochs: x\nfoo: 1\n", "a.yaml");
  override_config(root, "sgd.b={c: 1, d: [{e: 2, e: 3}]}");
  const Error error = error_of([&] {
    ConfigSession(root, [](ConfigReader& reader) {
      reader.integer("epochs", 1);
      reader.integer("foo", 1);
      reader.section("sgd", [](ConfigReader& sgd) {
        sgd.section("b", [](ConfigReader& b) {
          b.integer("c", 1);
          b.sections("d", [](ConfigReader& d) { d.integer("e", 1); });
        });
      });
    });
  });
  EXPECT_EQ(error.lines(), (Lines{"a.yaml:1:1: epochs: expected an integer, got 'x'; write for instance epochs: 1",
                                  "--set: sgd.b.d: expected the key e once, got it again; keep one of the two"}));
}

TEST(ConfigReader, AReaderGoesOnWithHarmlessValues) {
  error_of([&] {
    read_only("a: x\nb: x\nc: x\nd: {name: x}\n", [](ConfigReader& reader) {
      EXPECT_EQ(reader.integer("a", std::nullopt, {.min = 5, .max = 9}), 5);
      const double between = reader.number("b", std::nullopt, {.min = 0, .max = 1, .exclusive_min = true});
      EXPECT_GT(between, 0);
      EXPECT_LE(between, 1);
      const std::array<std::string, 1> names = {"only"};
      EXPECT_EQ(reader.one_of("c", names, std::nullopt), "only");
      bool was_read = false;
      const std::vector<ConfigChoice> choices = {{"first", "", [&](ConfigReader& options) {
                                                    was_read = options.integer("n", std::nullopt, {.min = 1}) == 1;
                                                  }}};
      EXPECT_EQ(reader.named("d", choices, std::nullopt), "first");
      EXPECT_TRUE(was_read);
    });
  });
}

TEST(ConfigReader, PathsAreRelativeToTheirFile) {
  const auto here = std::filesystem::current_path();
  ConfigNode root = parse_config(std::string(kSmallest) + "dir: ../data\n", "configs/a.yaml");
  EXPECT_EQ(sample_of(root).dir, here / "data");
  override_config(root, "dir=data");
  EXPECT_EQ(sample_of(root).dir, here / "data");
  override_config(root, "dir=/data");
  EXPECT_EQ(sample_of(root).dir, "/data");
  EXPECT_EQ(mistakes_of_line("dir: ''"), Lines{"configs/a.yaml:3:1: dir: expected a path, got ''; write for instance "
                                               "dir: '...'"});
}

}  // namespace
}  // namespace dptrain::testing
