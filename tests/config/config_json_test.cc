#include "config/config_json.h"

#include <gtest/gtest.h>

namespace dptrain {
namespace {

TEST(ConfigJson, ValuesAreWhatTheyAreInYaml) {
  EXPECT_EQ(config_json("b: [1, -2.5, 1e-05, true]\n"
                        "a: {text: '1', name: ddp, none: null, empty: {}}\n"),
            "{\n"
            "  \"b\": [\n    1,\n    -2.5,\n    1e-05,\n    true\n  ],\n"
            "  \"a\": {\n    \"text\": \"1\",\n    \"name\": \"ddp\",\n    \"none\": null,\n    \"empty\": {}\n  }\n"
            "}");
}

}  // namespace
}  // namespace dptrain
