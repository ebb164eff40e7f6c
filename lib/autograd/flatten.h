#pragma once

#include "autograd/variable.h"

namespace dptrain::autograd {

/// Flattens [N, C, H, W], in any layout, to a plain [N, C*H*W].
Variable flatten(const Variable& x);

/// Merges all dimensions except the last into one: [..., E] -> [R, E]; plain.
Variable flatten_rows(const Variable& x);

/// Returns samples [begin, end) of x, [N, ...].
Variable samples_of(const Variable& x, int64_t begin, int64_t end);

}  // namespace dptrain::autograd
