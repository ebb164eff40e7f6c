#include "nn/stateless_layers.h"

#include "autograd/elementwise.h"
#include "autograd/flatten.h"
#include "autograd/pool2d.h"

namespace dptrain::nn {

Variable Relu::forward(const Variable& x, const ForwardContext&) { return autograd::relu(x); }

Variable Gelu::forward(const Variable& x, const ForwardContext&) { return autograd::gelu(x); }

Variable Tanh::forward(const Variable& x, const ForwardContext&) { return autograd::tanh(x); }

Variable Pool2d::forward(const Variable& x, const ForwardContext&) {
  return pooling_ == ops::Pooling::max ? autograd::max_pool2d(x, options_) : autograd::average_pool2d(x, options_);
}

Variable GlobalAveragePool::forward(const Variable& x, const ForwardContext&) {
  return autograd::global_average_pool(x);
}

Variable Flatten::forward(const Variable& x, const ForwardContext&) { return autograd::flatten(x); }

}  // namespace dptrain::nn
