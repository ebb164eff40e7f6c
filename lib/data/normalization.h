#pragma once

#include <cstdint>
#include <vector>

#include "config/config_reader.h"

namespace dptrain {

/// Maps a pixel byte to (byte / 255 - mean) / std, in f32. There is one mean and one std, or one of each per channel.
struct Normalization {
  std::vector<float> mean = {0.0f};
  std::vector<float> std = {1.0f};
};

/// Reads the key `normalize` of a data set with `channels` channels: none, or {mean, std}.
Normalization read_normalization(ConfigReader& config, int64_t channels);

/// The normalized values of all 256 bytes for each channel: [channels, 256].
std::vector<float> normalization_table(const Normalization& normalization, int64_t channels);

}  // namespace dptrain
