#include "parallel/compression_options.h"

#include <fmt/format.h>

#include <array>

#include "ops/two_bit.h"

namespace dptrain::parallel {

const char* compression_name(CompressionOptions::Method method) {
  switch (method) {
    case CompressionOptions::Method::none: return "none";
    case CompressionOptions::Method::bf16: return "bf16";
    case CompressionOptions::Method::fp16: return "fp16";
    case CompressionOptions::Method::powersgd: return "powersgd";
    case CompressionOptions::Method::two_bit: return "two_bit";
  }
  return "";
}

CompressionOptions read_compression(ConfigReader& strategy, int devices) {
  using Method = CompressionOptions::Method;
  CompressionOptions read;
  const auto chooses = [&read](Method method) { return [&read, method](ConfigReader&) { read.method = method; }; };
  const std::array<ConfigChoice, 5> choices = {{
      {"none", "unchanged, in f32", chooses(Method::none)},
      {"bf16", "rounded to bf16: half the bytes", chooses(Method::bf16)},
      {"fp16", "scaled and rounded to fp16: half the bytes", chooses(Method::fp16)},
      {"powersgd", "each matrix is sent as two thin factors; what they leave out is kept for the next time",
       [&read](ConfigReader& options) {
         read.method = Method::powersgd;
         read.rank = static_cast<int>(
             options.integer("rank", read.rank, {.min = 1, .max = 1024, .help = "columns of the thin matrices"}));
       }},
      {"two_bit", "two bits per number; what they leave out is kept for the next time",
       [&read](ConfigReader& options) {
         read.method = Method::two_bit;
         read.threshold = options.number(
             "threshold", read.threshold,
             {.min = 0,
              .max = 1000,
              .exclusive_min = true,
              .help =
                  "a number at least as large as this is sent as this, in multiples of its tensor's root mean square"});
       }},
  }};
  strategy.named(
      "compress", choices, "none",
      "how gradients (under local_sgd: how far the weights have moved) are made smaller before devices exchange them");
  if (read.method == Method::two_bit && devices > ops::kMostTwoBitRanks)
    strategy.mistake("compress", fmt::format("two_bit adds up the signs of at most {} devices", ops::kMostTwoBitRanks),
                     fmt::format("{}", devices), "choose bf16 or powersgd");
  return read;
}

}  // namespace dptrain::parallel
