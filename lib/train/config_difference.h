#pragma once

#include <string>
#include <vector>

#include "config/config_node.h"

namespace dptrain::train {

/// A key and what each of several configurations says of it, as YAML on one line; "-" where one has no such key.
struct DifferingKey {
  std::string key;  ///< dotted: strategy.overlap
  std::vector<std::string> values;
};

/// The keys in which configurations differ, in the order of the first that has them. Mappings are compared key by key;
/// lists of mappings that are as long in all of them item by item, `model.layers[7].linear.features`, and of others
/// what lies between the items that all have, `model.layers[7...]`; lists of values as a whole. `strategy: ddp` and
/// `strategy: {name: ddp, overlap: false}` agree in `strategy`. `except` are keys of the top level that aren't looked
/// at.
std::vector<DifferingKey> differing_keys(const std::vector<ConfigNode>& configs,
                                         const std::vector<std::string>& except);

/// Without the options that only come with another name: of `strategy: ddp` and `strategy: kvstore` neither bucket_mb
/// nor type. Those that differ between configurations that have them stay, and those of data sets, which
/// have most in common.
std::vector<DifferingKey> without_options_of_names(const std::vector<DifferingKey>& keys);

}  // namespace dptrain::train
