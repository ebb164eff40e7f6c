#include "ops/max_pool_cpu.h"

#include "ops/f32_pieces.h"
#include "ops/max_pool_kernels.h"
#include "ops/reorder.h"

namespace dptrain::ops::cpu {
namespace {

/// How images are split into the pieces that kernels work on: samples in nhwc, else blocks of channels or single
/// channels.
struct Images {
  Images(const Shape& x, const Shape& y, Layout layout, const Pool2dOptions& o)
      : windows{.height = x[2],
                .width = x[3],
                .out_height = y[2],
                .out_width = y[3],
                .kernel = o.kernel,
                .stride = o.stride,
                .padding = o.padding,
                .lanes = layout == Layout::nhwc ? x[1] : layout_block(layout)},
        count(x[0] * ((x[1] + windows.lanes - 1) / windows.lanes)) {}

  int64_t inputs() const { return windows.height * windows.width * windows.lanes; }
  int64_t outputs() const { return windows.out_height * windows.out_width * windows.lanes; }

  MaxPoolWindows windows;
  int64_t count;
};

}  // namespace

Pool2dResult max_pool_forward(const Tensor& x, const Shape& output, const Pool2dOptions& options) {
  Pool2dResult result{.y = Tensor::empty(x.device(), output, {.dtype = x.dtype(), .layout = x.layout()}),
                      .workspace = Tensor::empty(x.device(), output, {.dtype = DType::u8, .layout = x.layout()})};
  if (result.y.elements() == 0) return result;
  const Images images(x.shape(), output, x.layout(), options);
  uint8_t* places = result.workspace.data<uint8_t>();
  for_each_unit(x, images.count, images.inputs() + images.outputs(), [&](int64_t image, Pieces& pieces) {
    const int64_t out = image * images.outputs();
    max_pool_kernels().forward(images.windows, pieces.read(x, image * images.inputs(), images.inputs()), options.relu,
                               pieces.write(result.y, out, images.outputs()), places + out);
  });
  return result;
}

Tensor max_pool_backward(const TensorForm& x, const Tensor& workspace, const Tensor& output_gradient,
                         const Pool2dOptions& options) {
  const Tensor gradient = x.empty(), incoming = reorder(output_gradient, x.layout);
  if (gradient.elements() == 0) return gradient;
  const Images images(x.shape, incoming.shape(), x.layout, options);
  const uint8_t* places = workspace.data<uint8_t>();
  for_each_unit(gradient, images.count, images.inputs() + images.outputs(), [&](int64_t image, Pieces& pieces) {
    const int64_t out = image * images.outputs();
    max_pool_kernels().backward(images.windows, pieces.read(incoming, out, images.outputs()), places + out,
                                pieces.write(gradient, image * images.inputs(), images.inputs()));
  });
  return gradient;
}

}  // namespace dptrain::ops::cpu
