#include "data/normalization.h"

#include <fmt/format.h>

#include "base/check.h"
#include "config/f32_range.h"

namespace dptrain {
namespace {

/// Reads one number, or one per channel.
std::vector<float> read_values(ConfigReader& config, const char* key, int64_t channels, double otherwise,
                               const NumberRule& rule) {
  const std::vector<double> values = config.numbers(key, {otherwise}, rule);
  if (values.size() == 1 || static_cast<int64_t>(values.size()) == channels) return {values.begin(), values.end()};
  config.mistake(key, channels == 1 ? "expected one number" : fmt::format("expected 1 or {} numbers", channels),
                 fmt::format("{}", values.size()), "give one for all channels, or one for each");
  return {static_cast<float>(otherwise)};
}

}  // namespace

Normalization read_normalization(ConfigReader& config, int64_t channels) {
  Normalization normalization;
  if (config.word("normalize", "none", true)) return normalization;
  config.section(
      "normalize",
      [&](ConfigReader& values) {
        normalization.mean = read_values(values, "mean", channels, 0.0, {.help = "subtracted from pixels / 255"});
        normalization.std =
            read_values(values, "std", channels, 1.0, {.min = kLeastF32, .max = kMostF32, .help = "divides the rest"});
      },
      "normalization of pixels / 255, to about mean 0 and standard deviation 1");
  return normalization;
}

std::vector<float> normalization_table(const Normalization& normalization, int64_t channels) {
  const auto of_channel = [channels](const std::vector<float>& values, int64_t c) {
    DPTRAIN_CHECK(values.size() == 1 || static_cast<int64_t>(values.size()) == channels, "{} values for {} channels",
                  values.size(), channels);
    return values.size() == 1 ? values.front() : values[static_cast<size_t>(c)];
  };
  std::vector<float> table;
  table.reserve(static_cast<size_t>(channels) * 256);
  for (int64_t c = 0; c < channels; ++c)
    for (int byte = 0; byte < 256; ++byte)
      table.push_back((static_cast<float>(byte) / 255.0f - of_channel(normalization.mean, c)) /
                      of_channel(normalization.std, c));
  return table;
}

}  // namespace dptrain
