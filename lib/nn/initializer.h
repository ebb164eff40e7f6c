#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/random.h"
#include "tensor/shape.h"

namespace dptrain::nn {

/// How a parameter begins. `fan_in` is the number of inputs of one output: C * KH * KW, or I of a linear layer.
struct Initializer {
  enum class Kind {
    constant,        ///< `value` everywhere
    normal,          ///< N(0, value^2)
    embedding,       ///< the same, but zero in row 0: that of padding
    uniform,         ///< U(-value, value)
    kaiming_normal,  ///< N(0, 2 / fan_out): He et al., 2015, for ReLU, by fan out
    xavier_uniform,  ///< U(-b, b), b = sqrt(6 / (fan_in + fan_out)): Glorot and Bengio, 2010
    /// N(0, 1 / fan_in), of which values beyond two deviations are drawn again, by as much wider as that takes away:
    /// LeCun et al., 1998, as Flax begins convolutions and linear layers
    lecun_normal,
  };
  Kind kind = Kind::constant;
  double value = 0;

  static Initializer constant(double value) { return {Kind::constant, value}; }
  static Initializer normal(double deviation) { return {Kind::normal, deviation}; }
  static Initializer embedding(double deviation) { return {Kind::embedding, deviation}; }
  static Initializer uniform(double bound) { return {Kind::uniform, bound}; }
  /// PyTorch's own for convolutions and linear layers, weight and bias: U(-1/sqrt(fan_in), 1/sqrt(fan_in)).
  static Initializer by_fan_in(int64_t fan_in);
};

/// The values of a parameter of this shape, in plain order. Each element depends on the key and its position alone.
std::vector<float> initial_values(const Initializer& initializer, const Shape& shape, const KeyedRandom& random);

}  // namespace dptrain::nn
