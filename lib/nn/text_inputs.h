#pragma once

#include "tensor/tensor.h"

namespace dptrain::nn {

/// What a model of text reads besides the tokens, [N, S], of its N samples; all i32 and on the device. A row is a
/// token: sample n has rows n*S to (n+1)*S - 1.
struct TextInputs {
  Tensor segments = {};   ///< [N, S]
  Tensor positions = {};  ///< [N, S]: each token's place in its sample
  Tensor lengths = {};    ///< [N]: tokens before the padding
  Tensor firsts = {};     ///< [N]: the row of each sample's first token
  Tensor read = {};       ///< [N + M]: `firsts`, then the M rows whose token is predicted; undefined: all rows are read
};

/// Whether a tensor of this shape holds only the rows that are read, [R, E], instead of all tokens, [N, S, E].
inline bool are_read_rows(const Shape& shape, const TextInputs& text) {
  return text.read.defined() && shape.rank() == 2;
}

}  // namespace dptrain::nn
