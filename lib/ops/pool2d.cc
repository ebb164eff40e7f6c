#include "ops/pool2d.h"

#include "base/check.h"
#include "ops/dispatch.h"
#include "ops/max_pool_place.h"
#include "ops/pool2d_cpu.h"
#include "ops/pool2d_cuda.h"

namespace dptrain::ops {
namespace {

Shape output_shape(const Shape& x, Pooling pooling, const Pool2dOptions& options) {
  DPTRAIN_CHECK(x.rank() == 4, "pool2d: input {}", x.text());
  DPTRAIN_CHECK(pooling == Pooling::max || options.padding == 0 || !options.ceil,
                "pool2d: an average with padding {} and a ceiling", options.padding);
  const auto size = [&](int dimension) {
    // The distance over which the window can move.
    const int64_t span = x[dimension] + 2 * options.padding - options.kernel + (options.ceil ? options.stride - 1 : 0);
    DPTRAIN_CHECK(span >= 0, "pool2d: input {} is smaller than the window {}", x.text(), options.kernel);
    int64_t windows = span / options.stride + 1;
    // A window that would begin past the input and its padding is dropped, as in PyTorch.
    if (options.ceil && (windows - 1) * options.stride >= x[dimension] + options.padding) --windows;
    return windows;
  };
  return {x[0], x[1], size(2), size(3)};
}

/// The tensors that a GPU returns, see pool2d_cuda.cu.
Pool2dResult logged_forward(const Tensor& x, const Shape& shape, Pooling pooling) {
  Pool2dResult result{.y = Tensor::empty(x.device(), shape, {.dtype = x.dtype(), .layout = x.layout()}),
                      .workspace = {}};
  if (pooling == Pooling::max)
    result.workspace = Tensor::empty(x.device(), shape, {.dtype = DType::u8, .layout = Layout::nhwc});
  return result;
}

}  // namespace

Pool2dResult pool2d_forward(const Tensor& x, Pooling pooling, const Pool2dOptions& options) {
  Device& device = common_device("pool2d", {&x});
  const Shape shape = output_shape(x.shape(), pooling, options);
  // On a GPU a maximum's place in its window is stored in a byte.
  DPTRAIN_CHECK(device.kind() == DeviceKind::cpu || pooling == Pooling::average || options.kernel <= 16,
                "pool2d: a window of {} on a GPU, of 16 at most", options.kernel);
  DPTRAIN_CHECK(!options.relu || (pooling == Pooling::max && options.kernel <= kLargestWindowOfPlaces),
                "pool2d: a ReLU of averages, or of a window of {}", options.kernel);
  return on_device(
      "pool2d", device,
      [&] {
        return is_logged_gpu(device) ? logged_forward(x, shape, pooling)
                                     : cpu::pool2d_forward(x, shape, pooling, options);
      },
      [&] { return cuda::pool2d_forward(x, shape, pooling, options); });
}

Tensor pool2d_backward(const TensorForm& x, const Tensor& workspace, const Tensor& output_gradient, Pooling pooling,
                       const Pool2dOptions& options) {
  Device& device = common_device("pool2d backward", x, {&workspace, &output_gradient});
  require_shape("pool2d backward", "output gradient", output_gradient.shape(), output_shape(x.shape, pooling, options));
  return on_device(
      "pool2d backward", device,
      [&] {
        return is_logged_gpu(device) ? x.empty()
                                     : cpu::pool2d_backward(x, workspace, output_gradient, pooling, options);
      },
      [&] { return cuda::pool2d_backward(x, workspace, output_gradient, pooling, options); });
}

Tensor global_average_pool_forward(const Tensor& x) {
  Device& device = common_device("global_average_pool", {&x});
  DPTRAIN_CHECK(x.shape().rank() == 4, "global_average_pool: input {}", x.shape().text());
  return on_device(
      "global_average_pool", device, [&] { return cpu::global_average_pool_forward(x); },
      [&] { return cuda::global_average_pool_forward(x); });
}

Tensor global_average_pool_backward(const TensorForm& x, const Tensor& output_gradient) {
  Device& device = common_device("global_average_pool backward", x, {&output_gradient});
  require_shape("global_average_pool backward", "output gradient", output_gradient.shape(), {x.shape[0], x.shape[1]});
  return on_device(
      "global_average_pool backward", device, [&] { return cpu::global_average_pool_backward(x, output_gradient); },
      [&] { return cuda::global_average_pool_backward(x, output_gradient); });
}

}  // namespace dptrain::ops
