#include "ops/summed_gradient.h"

#include "ops/add.h"
#include "ops/reorder.h"

namespace dptrain::ops {

Tensor SummedGradient::sum() && {
  if (!second.defined()) return std::move(first);
  const Tensor added = reorder(second, first.layout());
  if (!first.is_unique()) return add(first, added);
  add_into(first, added);
  return std::move(first);
}

}  // namespace dptrain::ops
