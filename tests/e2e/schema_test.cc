// What `dptrain schema` says of a configuration, compared with what the other commands read.
#include "e2e/command_fixture.h"

namespace dptrain {
namespace {

using nlohmann::json;
using testing::Arguments;

class SchemaTest : public testing::CommandTest {
 protected:
  SchemaTest() : schema_(json::parse(run({"schema"}).out)) {}

  json resolved(const Arguments& settings) const {
    Arguments arguments = {"--config", "digits.yaml", "--devices", "cpu:0-3", "--dump-config", "--json"};
    for (const std::string& setting : settings) arguments.insert(arguments.end(), {"--set", setting});
    const testing::Finished finished = run(arguments);
    EXPECT_EQ(finished.exit, 0) << finished.err;
    return json::parse(finished.out);
  }

  /// Keys of `value` that neither `schema` nor any of its alternatives describes. Their values aren't checked.
  std::vector<std::string> undescribed(const json& schema, const json& value, const std::string& at = "") const {
    if (schema.contains("$ref")) {
      const std::string reference = schema["$ref"];
      return undescribed(schema_.at(json::json_pointer(reference.substr(1))), value, at);
    }
    if (schema.contains("anyOf")) {
      std::vector<std::string> fewest = {at + ": no alternative"};
      for (const json& alternative : schema["anyOf"]) {
        const auto found = undescribed(alternative, value, at);
        if (found.empty()) return {};
        const json::json_pointer name("/properties/name/const");
        if (alternative.contains(name) && value.is_object() && value.contains("name") &&
            alternative[name] == value["name"])
          fewest = found;
      }
      return fewest;
    }
    if (value.is_object() != schema.contains("properties")) return {at + ": " + value.dump()};
    std::vector<std::string> found;
    const auto add = [&](const std::vector<std::string>& more) { found.insert(found.end(), more.begin(), more.end()); };
    if (value.is_object())
      for (const auto& [key, inner] : value.items()) {
        const std::string here = at + "/" + key;
        const bool is_free = !schema["properties"].contains(key) && schema["additionalProperties"].is_object();
        const json described = is_free ? schema["additionalProperties"] : schema["properties"].value(key, json());
        if (described.is_null() || described.value("const", inner) != inner)
          found.push_back(here + ": " + inner.dump());
        else
          add(undescribed(described, inner, here));
      }
    if (value.is_array() && schema.contains("items"))
      for (const json& item : value) add(undescribed(schema["items"], item, at + "[]"));
    return found;
  }

  const json schema_;
};

TEST_F(SchemaTest, DescribesEveryOptionOfAResolvedConfiguration) {
  const std::vector<Arguments> all = {
      {"strategy={name: ddp, inside: none}", "threads=[1, 2, 1, 1]"},
      {"strategy={name: data_parallel, output_device: 1}"},
      {"strategy={name: ddp, bucket_mb: 5, shard_optimizer: true}", "shards=0", "split=[1, 1, 1, 2]"},
      {"strategy={name: ddp, compress: {name: powersgd, rank: 2}}"},
      {"strategy={name: ddp, compress: {name: two_bit, threshold: 0.5}}"},
      {"strategy={name: fsdp, unit_mb: 0.5, reshard_after_forward: false}"},
      {"strategy={name: kvstore, type: local}"},
      {"strategy={name: local_sgd, period: 4, warmup_steps: 20, optimizer_state: own, outer_learning_rate: 0.7, "
       "outer_momentum: 0.9, compress: {name: powersgd, rank: 2}}"},
      {"strategy={name: kvstore, type: dist_sync, servers: 0}"},
      {"strategy={name: kvstore, type: dist_async, max_staleness: 3}"},
      {"strategy={name: model_parallel, micro_batches: 8, schedule: gpipe}"},
      {"strategy={name: hybrid, model_parallel: 2, stages: [1, 1], schedule: zero_bubble}"},
      {"strategy={name: model_parallel, schedule: interleaved, stages_per_device: 3}"},
      {"strategy={name: auto, candidates: [ddp, kvstore: {type: local}]}", "split=auto"},
      {"dataset={name: fashion_mnist, classes: 5, normalize: {mean: 0.3, std: 0.2}}", "optimizer={name: adam}"},
      {"dataset=cifar10", "augment=[random_crop: {padding: 2}, flip, cutout: {size: 8}]"},
      {"dataset={name: image_folder, dir: photos, test_folder: val}", "optimizer={name: adamw}"},
      {"dataset={name: synthetic, samples: 50, shape: [3, 8, 8]}", "lr_rule={name: linear, reference_batch_size: 32}"},
      {"model={name: bert, hidden: 32, layers: 1, heads: 2}", "dataset=text"},
      {"model={name: bert, hidden: 32, layers: 1, heads: 2}", "dataset={name: synthetic, full: true}"},
      {"model={name: pyramidnet, alpha: 48}", "schedule={name: step, gamma: 0.5, warmup_steps: 3}"},
      {"model={layers: [conv: {channels: 4, kernel: 3}, relu, flatten, linear: classes]}"},
      {"schedule={name: cosine, min: 0.001, warmup_epochs: 1}", "clip_norm=1", "ema=0.9", "label_smoothing=0.1"},
      {"schedule={name: one_cycle, peak_at: 0.4}", "init={normal: 0.02}", "batch_norm=sync", "memory_limit=1000000000"},
      {"links={latency_us: 5, gbps: 1, pairs: {'cpu:0-cpu:1': {gbps: 2}}}", "checkpoint={every_steps: 9, keep: 2}"},
      {"init={from: weights.safetensors, average: true}", "precision=bf16", "recompute=none", "log_steps=true"}};
  for (const Arguments& settings : all)
    EXPECT_EQ(undescribed(schema_, resolved(settings)), std::vector<std::string>()) << settings.front();
}

TEST_F(SchemaTest, ItsDefaultsAreThoseOfAConfigurationWithoutThem) {
  const json resolved = this->resolved({});
  int compared = 0;
  for (const auto& [key, shape] : schema_["properties"].items()) {
    if (!shape.contains("default") || !resolved.contains(key) || key == "devices") continue;
    EXPECT_EQ(resolved[key].is_object() ? resolved[key]["name"] : resolved[key], shape["default"]) << key;
    ++compared;
  }
  EXPECT_GT(compared, 12);
  for (const char* varying : {"name", "threads", "strategy", "deterministic"})
    EXPECT_FALSE(schema_["properties"][varying].contains("default")) << varying;
}

}  // namespace
}  // namespace dptrain
