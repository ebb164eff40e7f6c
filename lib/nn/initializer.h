#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/random.h"
#include "tensor/shape.h"

namespace dptrain::nn {

/// How a parameter begins. `fan_in` is the number of inputs of one output: C * KH * KW, or I for a linear layer.
struct Initializer {
  enum class Kind {
    constant,        ///< `value` everywhere
    normal,          ///< N(0, value^2)
    embedding,       ///< N(0, value^2), with zeros in row 0, the row of padding
    uniform,         ///< U(-value, value)
    kaiming_normal,  ///< N(0, 2 / fan_out): He et al., 2015, for ReLU, in fan-out mode
    xavier_uniform,  ///< U(-b, b), b = sqrt(6 / (fan_in + fan_out)): Glorot and Bengio, 2010
    /// N(0, 1 / fan_in), truncated: values beyond two deviations are drawn again, and the deviation is widened to make
    /// up for that. LeCun et al., 1998, as Flax initializes convolutions and linear layers.
    lecun_normal,
  };
  Kind kind = Kind::constant;
  double value = 0;

  static Initializer constant(double value) { return {Kind::constant, value}; }
  static Initializer normal(double deviation) { return {Kind::normal, deviation}; }
  static Initializer embedding(double deviation) { return {Kind::embedding, deviation}; }
  static Initializer uniform(double bound) { return {Kind::uniform, bound}; }
  /// PyTorch's default for weights and biases of convolutions and linear layers: U(-1/sqrt(fan_in), 1/sqrt(fan_in)).
  static Initializer by_fan_in(int64_t fan_in);
};

/// The values of a parameter of this shape, in plain order. Each element depends only on the key and its position.
std::vector<float> initial_values(const Initializer& initializer, const Shape& shape, const KeyedRandom& random);

}  // namespace dptrain::nn
