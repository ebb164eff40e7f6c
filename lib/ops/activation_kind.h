#pragma once

#include <cstdint>

namespace dptrain::ops {

enum class ActivationKind : uint8_t { relu, gelu, tanh, sigmoid, silu, leaky_relu };
inline constexpr int kActivationKinds = 6;

/// A function of one value. The layer of the same name applies it to each element:
///   relu        max(0, x); NaN stays NaN
///   gelu        x (1 + erf(x / sqrt 2)) / 2: the exact one (Hendrycks and Gimpel, 2016), not the tanh approximation
///   tanh        the hyperbolic tangent
///   sigmoid     1 / (1 + exp(-x))
///   silu        x / (1 + exp(-x)) (Elfwing, Uchibe and Doya, 2017)
///   leaky_relu  x if x > 0, else `slope` * x (Maas, Hannun and Ng, 2013)
struct Activation {
  ActivationKind kind;
  float slope = 0.f;  ///< used by leaky_relu only; at least 0
};

}  // namespace dptrain::ops
