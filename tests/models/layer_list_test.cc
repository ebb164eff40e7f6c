// Nets as configurations write them: how lists are read, how layers are named, and every mistake that shows without an
// image.

#include "models/layer_list.h"

#include <gtest/gtest.h>

#include "config/config_document.h"
#include "models/layers_of.h"
#include "support/expect_error.h"

namespace dptrain::models {
namespace {

using testing::expect_error;
using Lines = std::vector<std::string>;

/// The names of a list's layers; layers inside a residual follow it.
Lines names_in(const std::vector<LayerSpec>& layers, const std::string& prefix = "") {
  Lines names;
  for (const auto& [layer, name] : written_out(layers)) {
    names.push_back(prefix + name);
    for (const auto* inside : {&layer->layers, &layer->shortcut})
      for (const std::string& inner : names_in(*inside, prefix + name + ".")) names.push_back(inner);
  }
  return names;
}

Lines names_of(const std::string& layers) { return names_in(layers_of(layers)); }

Lines mistakes_of(const std::string& layers) {
  try {
    layers_of(layers);
  } catch (const Error& error) {
    return error.lines();
  }
  return {};
}

TEST(LayerNames, AreKindAndNumber) {
  EXPECT_EQ(names_of("[conv: {channels: 4, kernel: 3}, batch_norm, relu, conv: {channels: 4, kernel: 3}, tanh, "
                     "max_pool: 2, flatten, linear: 5, layer_norm, gelu, dropout: 0.5, sigmoid, silu, leaky_relu, "
                     "linear: classes]"),
            (Lines{"conv1", "bn1", "relu1", "conv2", "tanh1", "max_pool1", "flatten1", "fc1", "ln1", "gelu1",
                   "dropout1", "sigmoid1", "silu1", "leaky_relu1", "fc2"}));
}

TEST(LayerNames, AreNotChangedByNamingAnother) {
  EXPECT_EQ(names_of("[linear: {features: 5, name: first}, linear: 6, linear: 7]"), (Lines{"first", "fc2", "fc3"}));
}

TEST(LayerNames, InARepeatEndInItsNumber) {
  EXPECT_EQ(names_of("[linear: 5, repeat: {times: 2, layers: [linear: 5, relu]}, linear: 5]"),
            (Lines{"fc1", "fc2.0", "relu1.0", "fc2.1", "relu1.1", "fc3"}));
  EXPECT_EQ(names_of("[repeat: {times: 2, layers: [repeat: {times: 2, layers: [linear: 5]}]}]"),
            (Lines{"fc1.0.0", "fc1.0.1", "fc1.1.0", "fc1.1.1"}));
}

TEST(LayerNames, InAResidualBeginWithItsOwn) {
  EXPECT_EQ(names_of("[linear: 5, residual: {layers: [linear: 5, relu, linear: 5], shortcut: [linear: 5]}]"),
            (Lines{"fc1", "residual1", "residual1.fc1", "residual1.relu1", "residual1.fc2", "residual1.fc3"}));
  EXPECT_EQ(names_of("[repeat: {times: 2, layers: [residual: {name: layer1, layers: [linear: 5]}, relu]}]"),
            (Lines{"layer1.0", "layer1.0.fc1", "relu1.0", "layer1.1", "layer1.1.fc1", "relu1.1"}));
}

TEST(LayerMistakes, AreAllReportedWithTheirPlace) {
  EXPECT_EQ(
      mistakes_of("\n  - convv: {channels: 3}\n  - linear: 0\n  - max_pool: {kernel: 2, padding: 2}\n"
                  "  - dropout: 1\n  - linear: {features: 3, init: {normal: 0}}\n"
                  "  - batch_norm: {momentum: 1.5, eps: -1}\n  - layer_norm: {eps: 0}\n"
                  "  - leaky_relu: -1\n  - leaky_relu: steep"),
      (Lines{"a.yaml:2:5: layers[0]: expected a known name, got 'convv'; did you mean 'conv'?",
             "a.yaml:3:5: layers[1].linear.features: expected an integer from 1 to 262144, or classes, got 0; "
             "write for instance features: 1",
             "a.yaml:4:27: layers[2].max_pool.padding: expected at most 1, half of the window, got 2; write "
             "padding: 1",
             "a.yaml:5:5: layers[3].dropout.probability: expected a number from 0 to 0.999, got 1; write for "
             "instance probability: 0.1",
             "a.yaml:6:34: layers[4].linear.init.normal: expected a number over 0 and of at most 1.0e+30, got 0; "
             "write for instance normal: 0.01",
             "a.yaml:7:18: layers[5].batch_norm.momentum: expected a number from 0 to 1, got 1.5; write for "
             "instance momentum: 0.1",
             "a.yaml:7:33: layers[5].batch_norm.eps: expected a number from 1.0e-30 to 1.0e+30, got -1; write for "
             "instance eps: 1.0e-05",
             "a.yaml:8:18: layers[6].layer_norm.eps: expected a number from 1.0e-30 to 1.0e+30, got 0; write for "
             "instance eps: 1.0e-05",
             "a.yaml:9:5: layers[7].leaky_relu.slope: expected a number from 0 to 1.0e+30, got -1; write for "
             "instance slope: 0.01",
             "a.yaml:10:5: layers[8].leaky_relu.slope: expected a number from 0 to 1.0e+30, got 'steep'; write "
             "for instance slope: 0.01"}));
}

TEST(LayerMistakes, EmptyListsAndRepeats) {
  EXPECT_EQ(mistakes_of("[]"), Lines{"a.yaml:1:1: layers: expected a list of one or more layers, got the list []; "
                                     "write for instance layers: [flatten, linear: classes]"});
  EXPECT_EQ(mistakes_of("[repeat: {times: 0, layers: [relu]}, residual: {layers: [relu], shortcut: []}]"),
            (Lines{"a.yaml:1:19: layers[0].repeat.times: expected an integer from 1 to 1000, got 0; write for instance "
                   "times: 1",
                   "a.yaml:1:73: layers[1].residual.shortcut: expected a list of one or more layers, or padded, got "
                   "the list []; write for instance shortcut: [relu]"}));
  EXPECT_EQ(mistakes_of("[residual: {layers: [relu], shortcut: paded}]"),
            Lines{"a.yaml:1:37: layers[0].residual.shortcut: expected a list of one or more layers, or padded, got "
                  "'paded'; did you mean 'padded'?"});
  EXPECT_EQ(mistakes_of("[repeat: 3, residual]"),
            (Lines{"a.yaml:1:10: layers[0].repeat.layers: required, but absent; write layers: <a list of one or more "
                   "layers>",
                   "a.yaml:1:21: layers[1].residual.layers: required, but absent; write layers: <a list of one or more "
                   "layers>"}));
}

TEST(LayerMistakes, NamesThatTwoLayersShare) {
  EXPECT_EQ(mistakes_of("\n  - linear: 5\n  - linear: {features: 5, name: fc1}"),
            Lines{"a.yaml:1:1: layers: expected a name of its own for each layer, got fc1 for a.yaml:2:5: "
                  "layers[0].linear and for a.yaml:3:5: layers[1].linear; write another name: in one of them"});
  EXPECT_EQ(mistakes_of("[repeat: {times: 3, layers: [linear: {features: 5, name: a}]}, linear: {features: 5, name: "
                        "a.2}]")
                .size(),
            1u)
      << "the number of a repeat may be what a name says, too";
  EXPECT_EQ(mistakes_of("[linear: {features: 2, name: a.fc1}, residual: {name: a, layers: [linear: 2]}]").size(), 1u)
      << "so may the name of a residual";
}

TEST(LayerMistakes, NamesThatNoParameterCanHave) {
  for (const char* name : {"''", "a b", ".a", "a.", "a..b", "é", "a/b"})
    expect_error(ExitCode::config,
                 {"layers[0].linear.name", "expected letters, digits", "write for instance name: fc1"},
                 [&] { layers_of(std::string("[linear: {features: 5, name: ") + name + "}]"); });
}

TEST(LayerMistakes, MoreLayersThanAnyNetHas) {
  EXPECT_NO_THROW(layers_of("[repeat: {times: 1000, layers: [repeat: {times: 4, layers: [relu]}]}]"));
  expect_error(
      ExitCode::config, {"expected at most 4096 layers, counting every repeat, got 1000000000; repeat less"}, [] {
        layers_of(
            "[repeat: {times: 1000, layers: [repeat: {times: 1000, layers: [repeat: {times: 1000, layers: [relu]}]}]"
            "}]");
      });
}

TEST(Layers, MeanTheSameWhenReadAgainFromTheResolvedYaml) {
  const auto resolved = [](const std::string& text) {
    return ConfigSession(parse_config(text, "a.yaml"), [](ConfigReader& config) { read_layers(config); })
        .resolved_yaml();
  };
  const std::string text =
      "layers: [conv: {channels: 4, kernel: 3, bias: false, init: {normal: 0.01}}, batch_norm, relu, max_pool: 2, "
      "repeat: {times: 2, layers: [residual: {name: block, layers: [conv: {channels: 4, kernel: 1}], shortcut: "
      "[avg_pool: {kernel: 3, stride: 1, padding: 1}]}, residual: {layers: [relu], shortcut: padded}, dropout: 0.1]}, "
      "global_avg_pool, linear: classes]\n";
  const std::string once = resolved(text);
  EXPECT_EQ(resolved(once), once);
  EXPECT_EQ(names_in(layers_of(once.substr(std::string("layers:").size()))), names_of(text.substr(8)));
}

}  // namespace
}  // namespace dptrain::models
