#pragma once

#include "config/config_reader.h"

namespace dptrain::parallel {

/// How gradients, or how far weights have come, are made smaller before ranks exchange them.
struct CompressionOptions {
  enum class Method { none, bf16, fp16, powersgd, two_bit };
  Method method = Method::none;
  int rank = 4;          ///< of powersgd: columns of the factors that stand for a matrix
  double threshold = 1;  ///< of two_bit: what is sent of a value, by the root mean square of its tensor's
};

/// As configurations name it.
const char* compression_name(CompressionOptions::Method method);

/// Reads the key `compress` among a strategy's options. A method that so many devices can't use is a mistake.
CompressionOptions read_compression(ConfigReader& strategy, int devices);

}  // namespace dptrain::parallel
