#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "config/sample_config.h"

namespace dptrain::testing {
namespace {

using nlohmann::json;

json sample_schema() {
  return json::parse(ConfigSession::schema("sample", [](ConfigReader& reader) {
    EXPECT_TRUE(reader.describing());
    SampleConfig config;
    read_sample(reader, config);
  }));
}

TEST(ConfigSchema, DescribesTheDocument) {
  const json schema = sample_schema();
  EXPECT_EQ(schema["$schema"], "https://json-schema.org/draft/2020-12/schema");
  EXPECT_EQ(schema["title"], "sample");
  EXPECT_EQ(schema["type"], "object");
  EXPECT_EQ(schema["required"], json({"model", "learning_rate"}));
  EXPECT_EQ(schema["additionalProperties"], false);
}

TEST(ConfigSchema, DescribesEachKind) {
  const json keys = sample_schema()["properties"];
  EXPECT_EQ(keys["epochs"], json::parse(R"({"description": "passes over the data", "type": "integer", "minimum": 1,
                                            "default": 10})"));
  EXPECT_EQ(keys["learning_rate"], json::parse(R"({"type": "number", "exclusiveMinimum": 0.0, "maximum": 10.0})"));
  EXPECT_EQ(keys["precision"], json::parse(R"({"description": "of the arithmetic", "enum": ["fp32", "bf16", "fp16"],
                                               "default": "fp32"})"));
  EXPECT_EQ(keys["dir"], json::parse(R"({"description": "where the files are", "type": "string"})"));
  EXPECT_EQ(keys["threads"], json::parse(R"({"anyOf": [{"type": "integer", "minimum": 1, "maximum": 64},
      {"type": "array", "items": {"type": "integer", "minimum": 1, "maximum": 64}}], "default": [1]})"));
  EXPECT_EQ(keys["checkpoint"], json::parse(R"({"anyOf": [{"enum": ["none"]}, {"type": "object", "properties":
      {"keep": {"type": "integer", "minimum": 1, "default": 3}}, "additionalProperties": false}], "default": "none"})"));
  EXPECT_EQ(keys["layers"]["items"]["required"], json({"kind"}));
  EXPECT_EQ(keys["hosts"]["additionalProperties"]["default"], "");
}

TEST(ConfigSchema, DescribesEveryNameWithItsOptions) {
  const json strategy = sample_schema()["properties"]["strategy"];
  EXPECT_EQ(strategy["description"], "how devices work together");
  EXPECT_EQ(strategy["default"], "single");
  const json& any = strategy["anyOf"];
  ASSERT_EQ(any.size(), 3u);
  EXPECT_EQ(any[0], json::parse(R"({"enum": ["single", "ddp"], "enumDescriptions": ["one device", "all-reduce"]})"));
  EXPECT_EQ(any[1], json::parse(R"({"description": "one device", "type": "object", "properties":
      {"name": {"const": "single"}}, "required": ["name"], "additionalProperties": false})"));
  EXPECT_EQ(any[2]["properties"]["bucket_mb"], json::parse(R"({"anyOf": [{"enum": ["auto"]},
      {"type": "number", "exclusiveMinimum": 0.0}], "default": "auto"})"));
  EXPECT_EQ(any[2]["properties"]["compress"]["anyOf"][2]["properties"]["rank"],
            json::parse(R"({"type": "integer", "minimum": 1})"));
}

TEST(ConfigSchema, ANameWhoseOptionsAreRequiredDoesNotStandAlone) {
  const json model = sample_schema()["properties"]["model"];
  EXPECT_EQ(model["anyOf"][0]["enum"], json({"lenet"}));
  EXPECT_EQ(model["anyOf"][2]["required"], json({"name", "alpha"}));
}

}  // namespace
}  // namespace dptrain::testing
