#include "ops/activation.h"

#include <array>

#include "ops/dispatch.h"
#include "ops/elementwise_cpu.h"
#include "ops/elementwise_cuda.h"
#include "ops/reorder.h"

namespace dptrain::ops {
namespace {

/// An activation's names in an operator log, and what its backward reads: the output or the input.
struct ActivationFacts {
  const char* forward;
  const char* backward;
  bool by_output;
};

/// In the order of ActivationKind.
constexpr std::array<ActivationFacts, kActivationKinds> kActivations = {{{"relu", "relu backward", true},
                                                                         {"gelu", "gelu backward", false},
                                                                         {"tanh", "tanh backward", true},
                                                                         {"sigmoid", "sigmoid backward", true},
                                                                         {"silu", "silu backward", false},
                                                                         {"leaky_relu", "leaky_relu backward", true}}};

const ActivationFacts& facts_of(ActivationKind kind) { return kActivations[static_cast<size_t>(kind)]; }

}  // namespace

Tensor activation_forward(const Activation& activation, const Tensor& x) {
  const char* const name = facts_of(activation.kind).forward;
  Device& device = common_device(name, {&x});
  Tensor y = Tensor::empty(device, x.shape(), {.dtype = x.dtype(), .layout = x.layout()});
  on_device(
      name, device, [&] { cpu::activation_forward(activation, x, y); },
      [&] { cuda::activation_forward(activation, x, y); });
  return y;
}

bool slope_follows_from_output(ActivationKind kind) { return facts_of(kind).by_output; }

Tensor activation_backward(const Activation& activation, const Tensor& kept, const Tensor& output_gradient) {
  const char* const name = facts_of(activation.kind).backward;
  Device& device = common_device(name, {&kept, &output_gradient});
  require_shape(name, "output gradient", output_gradient.shape(), kept.shape());
  const Tensor incoming = reorder(output_gradient, kept.layout());
  Tensor gradient = Tensor::empty(device, kept.shape(), {.dtype = kept.dtype(), .layout = kept.layout()});
  on_device(
      name, device, [&] { cpu::activation_backward(activation, kept, incoming, gradient); },
      [&] { cuda::activation_backward(activation, kept, incoming, gradient); });
  return gradient;
}

}  // namespace dptrain::ops
