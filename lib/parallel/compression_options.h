#pragma once

#include "config/config_reader.h"

namespace dptrain::parallel {

/// How ranks compress what they exchange: gradients, or the distance of weights from the last mean.
struct CompressionOptions {
  enum class Method { none, bf16, fp16, powersgd, two_bit };
  Method method = Method::none;
  int rank = 4;          ///< powersgd only: columns of the factors that replace a matrix
  double threshold = 1;  ///< two_bit only: the magnitude that is sent, as a multiple of the tensor's root mean square

  /// Whether what a message leaves out is kept for later ones.
  bool keeps_residual() const { return method == Method::powersgd || method == Method::two_bit; }
};

/// The name of a method in configurations.
const char* compression_name(CompressionOptions::Method method);

/// Reads the key `compress` among a strategy's options. Reports a mistake if `devices` are too many for the method.
CompressionOptions read_compression(ConfigReader& strategy, int devices);

}  // namespace dptrain::parallel
