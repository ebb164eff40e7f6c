#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>

#include "config/config_reader.h"
#include "nn/model.h"

namespace dptrain::train {

/// How weights begin.
struct InitSetting {
  nn::InitializationOptions values;                   ///< drawn at random
  std::optional<std::filesystem::path> weights = {};  ///< in place of that
  bool average = false;                               ///< of these the average that lies beside them
};

/// Reads the key `init`: a name such as xavier_uniform, {normal: 0.01}, or {from: FILE}. What is drawn follows from
/// `seed`.
InitSetting read_init(ConfigReader& config, uint64_t seed);

}  // namespace dptrain::train
