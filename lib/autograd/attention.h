#pragma once

#include "autograd/variable.h"
#include "ops/attention.h"

namespace dptrain::autograd {

struct AttentionArguments {
  Variable query;
  Variable key;
  Variable value;
  Tensor lengths = {};  ///< i32 [N]: how many keys of each sample are read; undefined: all
};

/// ops::attention with gradients. query, key, value: [N, S, H * D]; returns the same shape.
Variable attention(const AttentionArguments& arguments, const ops::AttentionOptions& options);

}  // namespace dptrain::autograd
