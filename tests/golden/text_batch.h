#pragma once

#include <cstdint>
#include <vector>

#include "nn/text_inputs.h"
#include "support/formula_values.h"
#include "support/test_device.h"
#include "tensor/tensor.h"

namespace dptrain::testing {

/// A batch of golden.py: samples of `length` tokens, all of them text.
struct TextFormulaBatch {
  Tensor tokens;
  nn::TextInputs inputs;
  std::vector<Tensor> targets;
  std::vector<int64_t> counts = {0, 0};
};

struct TextFormulaSizes {
  int64_t samples = 0;
  int64_t length = 0;
  uint64_t vocabulary = 0;
};

inline TextFormulaBatch text_by_formula(Device& device, const TextFormulaSizes& sizes, uint64_t seed) {
  const int64_t samples = sizes.samples, length = sizes.length;
  const auto rows = static_cast<size_t>(samples * length);
  std::vector<int32_t> tokens(rows), segments(rows), positions(rows), labels(rows, -100);
  TextFormulaBatch batch;
  for (size_t i = 0; i < rows; ++i) {
    const auto place = static_cast<int32_t>(i % static_cast<size_t>(length));
    const auto token = static_cast<int32_t>(formula_word(seed, 1001, i) % sizes.vocabulary);
    const bool masked = formula_word(seed, 1002, i) % 100 < 15;
    tokens[i] = masked ? 4 : token;
    if (masked) labels[i] = token;
    batch.counts[0] += masked;
    segments[i] = place >= length / 2;
    positions[i] = place;
  }
  std::vector<int32_t> firsts, next_sentence;
  for (int32_t n = 0; n < samples; ++n) {
    firsts.push_back(n * static_cast<int32_t>(length));
    next_sentence.push_back(n % 2);
  }
  batch.counts[1] = samples;
  const auto place = [&](const std::vector<int32_t>& values, const Shape& shape) {
    return labels_on(device, values).reshaped(shape);
  };
  const std::vector<int32_t> lengths(static_cast<size_t>(samples), static_cast<int32_t>(length));
  batch.tokens = place(tokens, {samples, length});
  batch.inputs = {.segments = place(segments, {samples, length}),
                  .positions = place(positions, {samples, length}),
                  .lengths = place(lengths, {samples}),
                  .firsts = place(firsts, {samples})};
  batch.targets = {place(labels, {samples * length}), place(next_sentence, {samples})};
  return batch;
}

}  // namespace dptrain::testing
