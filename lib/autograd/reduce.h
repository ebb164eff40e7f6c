#pragma once

#include "autograd/variable.h"

namespace dptrain::autograd {

/// The sum or mean of all elements of x, of any shape and layout: [1].
Variable sum(const Variable& x);
Variable mean(const Variable& x);

}  // namespace dptrain::autograd
