#pragma once

#include <cstdint>

namespace dptrain::ops {

enum class ActivationKind : uint8_t { relu, gelu, tanh, sigmoid, silu, leaky_relu };
inline constexpr int kActivationKinds = 6;

/// A function of one value, which a layer of that name computes of each:
///   relu        max(0, x); a NaN stays one
///   gelu        x (1 + erf(x / sqrt 2)) / 2: the exact one (Hendrycks and Gimpel, 2016), not its approximation by tanh
///   tanh        the hyperbolic tangent
///   sigmoid     1 / (1 + exp(-x))
///   silu        x / (1 + exp(-x)) (Elfwing, Uchibe and Doya, 2017)
///   leaky_relu  x over 0, `slope` x below (Maas, Hannun and Ng, 2013)
struct Activation {
  ActivationKind kind;
  float slope = 0.f;  ///< of leaky_relu alone; at least 0
};

}  // namespace dptrain::ops
