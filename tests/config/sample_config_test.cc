#include "config/sample_config.h"

#include <array>

namespace dptrain::testing {

void read_sample(ConfigReader& reader, SampleConfig& config) {
  config.name = reader.text("name", "a", "the run's name");
  const std::vector<ConfigChoice> models = {{"lenet", "LeNet-5", {}},
                                            {"pyramidnet", "PyramidNet", [&](ConfigReader& options) {
                                               config.alpha = options.integer(
                                                   "alpha", std::nullopt, {.min = 1, .max = 1000, .help = "widening"});
                                             }}};
  config.model = reader.named("model", models, std::nullopt, "the network");
  const std::vector<ConfigChoice> compressions = {{"none", "full gradients", {}},
                                                  {"powersgd", "low rank", [&](ConfigReader& options) {
                                                     config.rank = options.optional_integer("rank", {.min = 1});
                                                   }}};
  const std::vector<ConfigChoice> strategies = {
      {"single", "one device", {}},
      {"ddp", "all-reduce", [&](ConfigReader& options) {
         const bool is_auto = options.word("bucket_mb", "auto", true);
         config.bucket_mb = is_auto ? kAuto : options.number("bucket_mb", {}, {.min = 0, .exclusive_min = true});
         config.overlap = options.boolean("overlap", true);
         options.named("compress", compressions, "none");
       }}};
  config.strategy = reader.named("strategy", strategies, "single", "how devices work together");
  config.learning_rate = reader.number("learning_rate", std::nullopt, {.min = 0, .max = 10, .exclusive_min = true});
  config.epochs = reader.integer("epochs", 10, {.min = 1, .help = "passes over the data"});
  config.clip_norm = reader.optional_number("clip_norm", {.min = 0});
  config.note = reader.optional_text("note");
  config.dir = reader.optional_path("dir", "where the files are");
  const std::array<std::string, 3> precisions = {"fp32", "bf16", "fp16"};
  config.precision = reader.one_of("precision", precisions, "fp32", "of the arithmetic");
  config.threads = reader.integers("threads", std::vector<int64_t>{1}, {.min = 1, .max = 64});
  config.split = reader.numbers("split", {}, {.min = 0, .max = 1});
  config.devices = reader.texts("devices", {"cpu:0"}, "where to run");
  config.checkpoints = !reader.word("checkpoint", "none", true);
  if (config.checkpoints)
    reader.section("checkpoint", [&](ConfigReader& inside) { config.keep = inside.integer("keep", 3, {.min = 1}); });
  reader.sections(
      "layers",
      [&](ConfigReader& layer) { config.layers.push_back(layer.text("kind", std::nullopt) + layer.text("name", "")); },
      {}, "[{kind: conv}]");
  reader.section("hosts", [&](ConfigReader& hosts) {
    for (const auto& host : hosts.written_keys()) config.hosts.emplace_back(host, hosts.text(host, ""));
  });
}

SampleConfig sample_of(const ConfigNode& root) {
  SampleConfig config;
  ConfigSession session(root, [&](ConfigReader& reader) { read_sample(reader, config); });
  return config;
}

std::vector<std::string> mistakes_in(const std::string& text, const std::vector<std::string>& overrides) {
  const Error error = error_of([&] {
    ConfigNode root = parse_config(text, "configs/a.yaml");
    for (const auto& assignment : overrides) override_config(root, assignment);
    sample_of(root);
  });
  EXPECT_EQ(error.code(), ExitCode::config);
  return error.lines();
}

}  // namespace dptrain::testing
