#include "ops/elementwise_kernels.h"

#include "ops/float_functions.h"

// Compiled once for each instruction set, see cmake/DptrainKernels.cmake. Contains only plain loops, which the compiler
// vectorizes. No inline function of other headers may be compiled here, since it would use instructions that the
// machine may lack.

namespace dptrain::ops::DPTRAIN_ISA_NAMESPACE {
namespace {

void add(const float* a, const float* b, float* __restrict out, int64_t count) {
  for (int64_t i = 0; i < count; ++i) out[i] = a[i] + b[i];
}

void add_into(float* __restrict to, const float* from, int64_t count) {
  for (int64_t i = 0; i < count; ++i) to[i] += from[i];
}

// Each activation as functions of one float: its value, and the incoming gradient times its slope.

struct Relu {
  static float value(float x, float) { return x <= 0.f ? 0.f : x; }
  static float gradient(float y, float incoming, float) { return y > 0.f ? incoming : 0.f; }
};
struct Gelu {
  static float value(float x, float) { return gelu_of(x); }
  static float gradient(float x, float incoming, float) { return incoming * gelu_slope_of(x); }
};
struct Tanh {
  static float value(float x, float) { return tanh_of(x); }
  static float gradient(float y, float incoming, float) { return incoming * (1.f - y * y); }
};
struct Sigmoid {
  static float value(float x, float) { return sigmoid_at(x).value; }
  static float gradient(float y, float incoming, float) { return incoming * (y * (1.f - y)); }
};
struct Silu {
  static float value(float x, float) { return x * sigmoid_at(x).value; }
  static float gradient(float x, float incoming, float) {
    const auto [value, rest] = sigmoid_at(x);
    return incoming * (value * (1.f + x * rest));
  }
};
struct LeakyRelu {
  static float value(float x, float slope) { return x > 0.f ? x : slope * x; }
  static float gradient(float y, float incoming, float slope) { return y > 0.f ? incoming : slope * incoming; }
};

template <class Function>
void forward(const float* x, float* __restrict y, int64_t count, float slope) {
  for (int64_t i = 0; i < count; ++i) y[i] = Function::value(x[i], slope);
}

template <class Function>
void backward(const float* kept, const float* incoming, float* __restrict out, int64_t count, float slope) {
  for (int64_t i = 0; i < count; ++i) out[i] = Function::gradient(kept[i], incoming[i], slope);
}

template <class Function>
constexpr ActivationKernels kKernelsOf = {forward<Function>, backward<Function>};

void masked_scale(const float* x, const uint8_t* mask, float scale, float* __restrict out, int64_t count) {
  for (int64_t i = 0; i < count; ++i) out[i] = mask[i] != 0 ? x[i] * scale : 0.f;
}

void scale(float* __restrict x, float factor, int64_t count) {
  for (int64_t i = 0; i < count; ++i) x[i] *= factor;
}

void approach(float* __restrict to, const float* __restrict from, float share, int64_t count) {
  for (int64_t i = 0; i < count; ++i) to[i] += share * (from[i] - to[i]);
}

double sum_of_squares(const float* x, int64_t count) {
  // 16 separate sums, so that the order of additions doesn't depend on the compiler.
  constexpr int kLanes = 16;
  double lanes[kLanes] = {};
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    for (int lane = 0; lane < kLanes; ++lane) {
      const double value = x[i + lane];
      lanes[lane] += value * value;
    }
  }
  double sum = 0;
  for (; i < count; ++i) sum += static_cast<double>(x[i]) * x[i];
  for (const double lane : lanes) sum += lane;
  return sum;
}

void fill(float* to, float value, int64_t count) {
  for (int64_t i = 0; i < count; ++i) to[i] = value;
}

// SGD as in PyTorch: the weight decay joins the gradient, the velocity accumulates gradients without damping, and
// Nesterov's momentum looks ahead.
void sgd(float* __restrict weight, const float* __restrict gradient, int64_t count, const SgdNumbers& n) {
  const float rate = n.learning_rate, decay = n.weight_decay;
  for (int64_t i = 0; i < count; ++i) weight[i] -= rate * (gradient[i] + decay * weight[i]);
}

void sgd_momentum(float* __restrict weight, const float* __restrict gradient, float* __restrict velocity, int64_t count,
                  const SgdNumbers& n) {
  const float rate = n.learning_rate, decay = n.weight_decay, momentum = n.momentum;
  if (n.nesterov) {
    for (int64_t i = 0; i < count; ++i) {
      const float g = gradient[i] + decay * weight[i];
      velocity[i] = momentum * velocity[i] + g;
      weight[i] -= rate * (g + momentum * velocity[i]);
    }
  } else {
    for (int64_t i = 0; i < count; ++i) {
      const float g = gradient[i] + decay * weight[i];
      velocity[i] = momentum * velocity[i] + g;
      weight[i] -= rate * velocity[i];
    }
  }
}

void adam(float* __restrict weight, const float* __restrict gradient, float* __restrict first, float* __restrict second,
          int64_t count, const AdamNumbers& n) {
  const AdamNumbers c = n;
  for (int64_t i = 0; i < count; ++i) {
    const float w = weight[i] * c.kept, g = gradient[i] + c.weight_decay * w;
    first[i] += c.first_share * (g - first[i]);
    second[i] = c.beta2 * second[i] + c.second_share * g * g;
    weight[i] = w - c.step_size * (first[i] / (__builtin_sqrtf(second[i]) * c.second_factor + c.epsilon));
  }
}

float lamb_direction(float weight, float first, float second, const LambNumbers& c) {
  return first * c.first_factor / (__builtin_sqrtf(second) * c.second_factor + c.epsilon) + c.weight_decay * weight;
}

void lamb_measure(const float* __restrict weight, const float* __restrict gradient, float* __restrict first,
                  float* __restrict second, float* __restrict direction, int64_t count, const LambNumbers& n) {
  const LambNumbers c = n;
  for (int64_t i = 0; i < count; ++i) {
    const float g = gradient[i];
    first[i] += c.first_share * (g - first[i]);
    second[i] = c.beta2 * second[i] + c.second_share * g * g;
    direction[i] = lamb_direction(weight[i], first[i], second[i], c);
  }
}

void lamb(float* __restrict weight, const float* __restrict first, const float* __restrict second, int64_t count,
          const LambNumbers& n) {
  const LambNumbers c = n;
  for (int64_t i = 0; i < count; ++i) weight[i] -= c.rate * lamb_direction(weight[i], first[i], second[i], c);
}

}  // namespace

extern const ElementwiseKernels kElementwise;
const ElementwiseKernels kElementwise = {.add = add,
                                         .add_into = add_into,
                                         .activations = {kKernelsOf<Relu>, kKernelsOf<Gelu>, kKernelsOf<Tanh>,
                                                         kKernelsOf<Sigmoid>, kKernelsOf<Silu>, kKernelsOf<LeakyRelu>},
                                         .masked_scale = masked_scale,
                                         .scale = scale,
                                         .approach = approach,
                                         .sum_of_squares = sum_of_squares,
                                         .fill = fill,
                                         .sgd = sgd,
                                         .sgd_momentum = sgd_momentum,
                                         .adam = adam,
                                         .lamb_measure = lamb_measure,
                                         .lamb = lamb};

}  // namespace dptrain::ops::DPTRAIN_ISA_NAMESPACE
