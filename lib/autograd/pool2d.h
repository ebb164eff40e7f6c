#pragma once

#include "autograd/variable.h"
#include "ops/pool2d.h"

namespace dptrain::autograd {

/// x: [N, C, H, W]; returns [N, C, OH, OW] in the layout of x; see ops/pool2d.h. Unlike there, a ReLU works with
/// windows of any size.
Variable max_pool2d(const Variable& x, const ops::Pool2dOptions& options);
Variable average_pool2d(const Variable& x, const ops::Pool2dOptions& options);
/// [N, C, H, W] to [N, C]
Variable global_average_pool(const Variable& x);

}  // namespace dptrain::autograd
