#pragma once

#include <string>
#include <vector>

#include "config/config_node.h"

namespace dptrain::train {

/// A key and its value in each of several configurations, as YAML on one line; "-" for a configuration without the key.
struct DifferingKey {
  std::string key;  ///< dotted: strategy.overlap
  std::vector<std::string> values;
};

/// The keys in which configurations differ, in the order of the first configuration that has them. `except` are
/// top-level keys that are ignored. `strategy: ddp` and `strategy: {name: ddp, overlap: false}` agree in `strategy`.
/// - Mappings are compared key by key.
/// - Lists of mappings with the same length in all configurations are compared item by item:
///   `model.layers[7].linear.features`.
/// - Other lists of mappings are compared as one value without the items that all have at the beginning and the end:
///   `model.layers[7...]`.
/// - Lists of values are compared as a whole.
std::vector<DifferingKey> differing_keys(const std::vector<ConfigNode>& configs,
                                         const std::vector<std::string>& except);

/// Removes the options that differ only because another name has other options: for `strategy: ddp` and `strategy:
/// kvstore` neither bucket_mb nor type is left. Options stay if they differ between configurations that have them.
/// Options of data sets also stay, because data sets have most of them in common.
std::vector<DifferingKey> without_options_of_names(const std::vector<DifferingKey>& keys);

}  // namespace dptrain::train
