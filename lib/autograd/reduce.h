#pragma once

#include "autograd/variable.h"

namespace dptrain::autograd {

/// The sum or mean of all elements: [1].
Variable sum(const Variable& x);
Variable mean(const Variable& x);

}  // namespace dptrain::autograd
