#include "nn/stateless_layers.h"

#include "autograd/elementwise.h"
#include "autograd/flatten.h"
#include "autograd/pool2d.h"

namespace dptrain::nn {

Variable Activation::forward(const Variable& x, const ForwardContext&) { return autograd::activation(x, function_); }

Variable Pool2d::forward(const Variable& x, const ForwardContext&) {
  return pooling_ == ops::Pooling::max ? autograd::max_pool2d(x, options_) : autograd::average_pool2d(x, options_);
}

Variable GlobalAveragePool::forward(const Variable& x, const ForwardContext&) {
  return autograd::global_average_pool(x);
}

Variable Flatten::forward(const Variable& x, const ForwardContext&) { return autograd::flatten(x); }

}  // namespace dptrain::nn
