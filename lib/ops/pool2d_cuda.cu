#include "ops/cuda_kernels.h"
#include "ops/divisor.h"
#include "ops/max_pool_place.h"
#include "ops/nhwc_cuda.h"
#include "ops/pool2d_cuda.h"
#include "ops/reorder.h"

// A maximum's place in its window is a byte: pool2d.cc refuses windows over 16 x 16.

namespace dptrain::ops::cuda {
namespace {

/// The sizes of a pooling, as kernels take them. The type I counts elements. It has 32 bits if they suffice: a kernel
/// divides by sizes for each element, and 64 bits cost several times as much.
template <class I>
struct Windows {
  I samples;
  Divisor<I> channels, height, width, out_height, out_width, stride;
  int kernel, padding;

  __host__ __device__ I outputs() const { return samples * out_height.by() * out_width.by() * channels.by(); }
  __host__ __device__ I inputs() const { return samples * height.by() * width.by() * channels.by(); }
  __device__ bool inside(I h, I w) const { return h >= 0 && h < height.by() && w >= 0 && w < width.by(); }
  /// The input at which the window of an output begins.
  __device__ I begin(I out) const { return out * stride.by() - padding; }
  /// The first output whose window may contain an input.
  __device__ I first_output(I in) const {
    const I before = in + padding - kernel + stride.by();
    return before < 0 ? 0 : stride.quotient(before);
  }
  __device__ I last_output(I in, I outputs) const { return min(stride.quotient(in + padding), outputs - 1); }
};

/// The place of an element in an nhwc tensor.
template <class I>
struct Place {
  I n, h, w, c;
  __device__ Place(I index, const Divisor<I>& height, const Divisor<I>& width, const Divisor<I>& channels) {
    const I pixel = channels.quotient(index), row = width.quotient(pixel);
    c = index - pixel * channels.by();
    w = pixel - row * width.by();
    n = height.quotient(row);
    h = row - n * height.by();
  }
};

template <class I>
__device__ I offset(const Windows<I>& p, I n, I h, I w, I c) {
  return ((n * p.height.by() + h) * p.width.by() + w) * p.channels.by() + c;
}

/// The number of cells that an average divides by: with padding all cells of the window, without it those inside the
/// image, as windows may overhang with Pool2dOptions::ceil.
template <class I>
__device__ float divisor(const Windows<I>& p, I h0, I w0) {
  if (p.padding > 0) return static_cast<float>(p.kernel * p.kernel);
  const I rows = min(h0 + p.kernel, p.height.by()) - h0, columns = min(w0 + p.kernel, p.width.by()) - w0;
  return static_cast<float>(rows * columns);
}

template <class T, class I>
__global__ void max_forward_kernel(Windows<I> p, const T* x, bool relu, T* y, uint8_t* places) {
  for (I i = static_cast<I>(global_thread()); i < p.outputs(); i += static_cast<I>(global_threads())) {
    const Place<I> out(i, p.out_height, p.out_width, p.channels);
    const I h0 = p.begin(out.h), w0 = p.begin(out.w);
    float best = -INFINITY;
    int place = 0;
    for (int u = 0; u < p.kernel; ++u) {
      for (int v = 0; v < p.kernel; ++v) {
        const I h = h0 + u, w = w0 + v;
        if (!p.inside(h, w)) continue;
        const float value = to_float(x[offset(p, out.n, h, w, out.c)]);
        // A NaN counts as the largest value, so that it isn't lost.
        if (value > best || value != value) best = value, place = u * p.kernel + v;
      }
    }
    if (relu && best <= 0) best = 0, place = kNoPlace;
    y[i] = from_float<T>(best);
    places[i] = static_cast<uint8_t>(place);
  }
}

template <class T, class I>
__global__ void average_forward_kernel(Windows<I> p, const T* x, T* y) {
  for (I i = static_cast<I>(global_thread()); i < p.outputs(); i += static_cast<I>(global_threads())) {
    const Place<I> out(i, p.out_height, p.out_width, p.channels);
    const I h0 = p.begin(out.h), w0 = p.begin(out.w);
    float sum = 0;
    for (int u = 0; u < p.kernel; ++u)
      for (int v = 0; v < p.kernel; ++v)
        if (p.inside(h0 + u, w0 + v)) sum += to_float(x[offset(p, out.n, h0 + u, w0 + v, out.c)]);
    y[i] = from_float<T>(sum / divisor(p, h0, w0));
  }
}

/// Each input gathers from the windows that contain it, row by row. So there are no atomics, and sums have one order.
/// `places` is null for averages.
template <class T, class I>
__global__ void backward_kernel(Windows<I> p, const T* incoming, const uint8_t* places, T* gradient) {
  for (I i = static_cast<I>(global_thread()); i < p.inputs(); i += static_cast<I>(global_threads())) {
    const Place<I> in(i, p.height, p.width, p.channels);
    const I bottom = p.last_output(in.h, p.out_height.by()), right = p.last_output(in.w, p.out_width.by());
    const I left = p.first_output(in.w);
    float sum = 0;
    for (I oh = p.first_output(in.h); oh <= bottom; ++oh) {
      for (I ow = left; ow <= right; ++ow) {
        const I h0 = p.begin(oh), w0 = p.begin(ow);
        const I o = ((in.n * p.out_height.by() + oh) * p.out_width.by() + ow) * p.channels.by() + in.c;
        if (places == nullptr)
          sum += to_float(incoming[o]) / divisor(p, h0, w0);
        else if (places[o] == (in.h - h0) * p.kernel + (in.w - w0))
          sum += to_float(incoming[o]);
      }
    }
    gradient[i] = from_float<T>(sum);
  }
}

/// A thread takes a channel of a sample. Neighboring threads take neighboring channels, so that reads are coalesced.
template <class T>
__global__ void global_average_kernel(const T* x, T* y, int64_t samples, int64_t channels, int64_t positions) {
  const int64_t i = global_thread();
  if (i >= samples * channels) return;
  const T* first = x + i / channels * positions * channels + i % channels;
  float sum = 0;
  for (int64_t p = 0; p < positions; ++p) sum += to_float(first[p * channels]);
  y[i] = from_float<T>(sum / static_cast<float>(positions));
}

template <class T>
__global__ void global_average_backward_kernel(const T* incoming, T* gradient, int64_t count, int64_t channels,
                                               int64_t positions) {
  for (int64_t i = global_thread(); i < count; i += global_threads())
    gradient[i] = from_float<T>(to_float(incoming[i / (positions * channels) * channels + i % channels]) /
                                static_cast<float>(positions));
}

template <class I>
Windows<I> windows_of(const Shape& x, const Shape& y, const Pool2dOptions& o) {
  const auto by = [](int64_t value) { return Divisor<I>(static_cast<I>(value)); };
  return {.samples = static_cast<I>(x[0]),
          .channels = by(x[1]),
          .height = by(x[2]),
          .width = by(x[3]),
          .out_height = by(y[2]),
          .out_width = by(y[3]),
          .stride = by(o.stride),
          .kernel = static_cast<int>(o.kernel),
          .padding = static_cast<int>(o.padding)};
}

/// Calls f(ElementType<T>(), ElementType<I>()) with the tensor's element type and the index type for its pooling.
template <class F>
void with_types(const Tensor& x, const F& f) {
  with_element_type(x, [&]<class T>(ElementType<T> type) {
    // The index must also fit one stride of a grid past the last element.
    if (x.elements() < (int64_t{1} << 30))
      f(type, ElementType<int32_t>());
    else
      f(type, ElementType<int64_t>());
  });
}

}  // namespace

Pool2dResult pool2d_forward(const Tensor& any, const Shape& output, Pooling pooling, const Pool2dOptions& options) {
  const Tensor x = in_nhwc(any);
  Pool2dResult result{.y = empty_nhwc(x, output), .workspace = {}};
  if (output.elements() == 0) return result;
  with_types(x, [&]<class T, class I>(ElementType<T>, ElementType<I>) {
    const Windows<I> windows = windows_of<I>(x.shape(), output, options);
    const unsigned blocks = blocks_for(x, output.elements());
    if (pooling == Pooling::max) {
      result.workspace = Tensor::empty(x.device(), output, {.dtype = DType::u8, .layout = Layout::nhwc});
      launch("max_pool2d", x, blocks, kThreads, max_forward_kernel<T, I>, windows, x.data<T>(), options.relu,
             result.y.data<T>(), result.workspace.data<uint8_t>());
    } else {
      launch("average_pool2d", x, blocks, kThreads, average_forward_kernel<T, I>, windows, x.data<T>(),
             result.y.data<T>());
    }
  });
  result.y = reorder(result.y, any.layout());
  return result;
}

Tensor pool2d_backward(const TensorForm& x, const Tensor& workspace, const Tensor& output_gradient, Pooling pooling,
                       const Pool2dOptions& options) {
  const Tensor incoming = in_nhwc(output_gradient);
  const Tensor gradient = empty_nhwc(incoming, x.shape);
  if (gradient.elements() == 0) return reorder(gradient, x.layout);
  with_types(gradient, [&]<class T, class I>(ElementType<T>, ElementType<I>) {
    const Windows<I> windows = windows_of<I>(x.shape, incoming.shape(), options);
    launch("pool2d backward", gradient, blocks_for(gradient, gradient.elements()), kThreads, backward_kernel<T, I>,
           windows, incoming.data<T>(), pooling == Pooling::max ? workspace.data<uint8_t>() : nullptr,
           gradient.data<T>());
  });
  return reorder(gradient, x.layout);
}

Tensor global_average_pool_forward(const Tensor& any) {
  const Tensor x = in_nhwc(any);
  const int64_t samples = x.shape()[0], channels = x.shape()[1];
  Tensor y = Tensor::empty(x.device(), {samples, channels}, {.dtype = x.dtype()});
  if (y.elements() == 0) return y;
  with_element_type(x, [&]<class T>(ElementType<T>) {
    launch("global_average_pool", x, blocks_of_all(y.elements()), kThreads, global_average_kernel<T>, x.data<T>(),
           y.data<T>(), samples, channels, x.shape()[2] * x.shape()[3]);
  });
  return y;
}

Tensor global_average_pool_backward(const TensorForm& x, const Tensor& output_gradient) {
  const Tensor gradient = empty_nhwc(output_gradient, x.shape);
  if (gradient.elements() == 0) return reorder(gradient, x.layout);
  with_element_type(gradient, [&]<class T>(ElementType<T>) {
    launch("global_average_pool backward", gradient, blocks_for(gradient, gradient.elements()), kThreads,
           global_average_backward_kernel<T>, output_gradient.data<T>(), gradient.data<T>(), gradient.elements(),
           x.shape[1], x.shape[2] * x.shape[3]);
  });
  return reorder(gradient, x.layout);
}

}  // namespace dptrain::ops::cuda
