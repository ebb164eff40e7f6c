#pragma once

#include <cstdint>
#include <optional>

#include "config/config_reader.h"
#include "nn/model.h"
#include "train/initial_weights.h"

namespace dptrain::train {

/// How weights begin.
struct InitSetting {
  nn::InitializationOptions values;            ///< drawn at random
  std::optional<InitialWeights> weights = {};  ///< in place of that
};

/// Reads the key `init`: a name such as xavier_uniform, {normal: 0.01}, or {from: FILE}. What is drawn follows from
/// `seed`.
InitSetting read_init(ConfigReader& config, uint64_t seed);

}  // namespace dptrain::train
