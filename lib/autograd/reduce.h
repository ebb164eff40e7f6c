#pragma once

#include "autograd/variable.h"

namespace dptrain::autograd {

/// The sum or the mean of all elements of x, which may have any shape and layout: [1].
Variable sum(const Variable& x);
Variable mean(const Variable& x);

}  // namespace dptrain::autograd
