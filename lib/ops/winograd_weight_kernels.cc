#include "ops/winograd_layout.h"
#include "ops/winograd_transforms.h"

// Transforms Winograd's weights, and their gradients back.

namespace dptrain::ops::DPTRAIN_ISA_NAMESPACE {
namespace {

constexpr int64_t kTaps = kWinogradWeights * kWinogradWeights;

/// Transposes a block of inputs by a block of outputs, [3, 3, inputs, outputs], and turns the window by 180 degrees.
void turn(const float* weights, float (&to)[kTaps][kLanes][kLanes]) {
  for (int64_t tap = 0; tap < kTaps; ++tap) {
    Vector rows[kLanes];
    for (int i = 0; i < kLanes; ++i) rows[i] = load<kLanes>(weights + (tap * kLanes + i) * kLanes);
    transpose<kLanes>(rows);
    for (int i = 0; i < kLanes; ++i) store<kLanes>(to[kTaps - 1 - tap][i], rows[i]);
  }
}

}  // namespace

void transform_weights(const WinogradWeights& w, float* u) {
  constexpr int64_t kBlock = kTaps * kLanes * kLanes;
  const int64_t product = weight_product(w.outputs);
  const auto block_of = [&](int64_t input, int64_t output) {
    const int64_t from = w.first_input + input, to = w.first_output + output;
    return w.weights + (w.turned ? from * w.input_blocks + to : to * w.input_blocks + from) * kBlock;
  };
  float turned[kTaps][kLanes][kLanes];
  for (int64_t input = 0; input < w.inputs; ++input)
    for (int64_t output = 0; output < w.outputs; ++output) {
      const float* block = block_of(input, output);
      // The next block lies elsewhere, so it is prefetched. After the last one there may be none, which does no harm.
      const bool is_last = output + 1 == w.outputs;
      const float* next = block_of(input + (is_last ? 1 : 0), is_last ? 0 : output + 1);
      if (w.turned) {
        turn(block, turned);
        block = &turned[0][0][0];
      }
      for (int i = 0; i < kLanes; ++i) {
        for (int64_t tap = 0; tap < kTaps; ++tap) __builtin_prefetch(next + (tap * kLanes + i) * kLanes);
        float* at = u + input * weight_numbers(w.outputs) + (i * w.outputs + output) * kLanes;
        transform_both_ways<WeightTransform, Vector>(
            [&](int y, int x) { return load<kLanes>(block + ((y * kWinogradWeights + x) * kLanes + i) * kLanes); },
            [&](int y, int x, const Vector& value) { store<kLanes>(at + (y * kWinogradInputs + x) * product, value); });
      }
    }
}

void transform_weight_gradient(const WinogradWeightGradient& of) {
  const int64_t product = weight_product(of.outputs);
  for (int i = 0; i < kLanes; ++i) {
    const float* from = of.du + (i * of.outputs + of.output) * kLanes;
    transform_both_ways<WeightGradientTransform, Vector>(
        [&](int y, int x) {
          const float* at = from + (y * kWinogradInputs + x) * product;
          Vector sum = load<kLanes>(at);
          for (int64_t part = 1; part < of.parts; ++part) sum += load<kLanes>(at + part * of.part_stride);
          return sum;
        },
        [&](int y, int x, const Vector& value) {
          float* to = of.gradient + ((y * kWinogradWeights + x) * kLanes + i) * kLanes;
          store<kLanes>(to, of.accumulate ? load<kLanes>(to) + value : value);
        });
  }
}

}  // namespace dptrain::ops::DPTRAIN_ISA_NAMESPACE
