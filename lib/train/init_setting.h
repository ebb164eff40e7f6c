#pragma once

#include <cstdint>
#include <optional>

#include "config/config_reader.h"
#include "nn/model.h"
#include "train/initial_weights.h"

namespace dptrain::train {

/// The initial weights of a model.
struct InitSetting {
  nn::InitializationOptions values;            ///< drawn at random
  std::optional<InitialWeights> weights = {};  ///< replace drawn values
};

/// Reads the key `init`: a name such as xavier_uniform, {normal: 0.01}, or {from: FILE}. Random values follow from
/// `seed`.
InitSetting read_init(ConfigReader& config, uint64_t seed);

}  // namespace dptrain::train
