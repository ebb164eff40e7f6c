#include "ops/cuda_kernels.h"
#include "ops/decode_images_cuda.h"

namespace dptrain::ops::cuda {
namespace {

/// A thread an element of the output, neighbours being neighbours in memory. Reads a byte, writes an element; the table
/// stays in the cache.
template <class T>
__global__ void decode_kernel(const uint8_t* bytes, const float* table, const int64_t* ids, int64_t samples,
                              int channels, int plane, T* images) {
  // 32 bits, in which dividing is cheap, for all but the sample.
  const int elements = channels * plane;
  for (int64_t i = global_thread(); i < samples * elements; i += global_threads()) {
    const int64_t n = i / elements;
    const int inside = static_cast<int>(i - n * elements), position = inside / channels, c = inside % channels;
    const int64_t sample = ids != nullptr ? ids[n] : n;
    images[i] = from_float<T>(table[c * 256 + bytes[sample * elements + c * plane + position]]);
  }
}

__global__ void gather_labels_kernel(const int32_t* values, const int64_t* ids, int64_t count, int32_t* labels) {
  for (int64_t n = global_thread(); n < count; n += global_threads()) labels[n] = values[ids[n]];
}

}  // namespace

Tensor decode_images(const Tensor& bytes, const Tensor& table, const Tensor& ids, DType dtype) {
  const int64_t samples = ids.defined() ? ids.elements() : bytes.shape()[0];
  const Shape shape = bytes.shape().with_first(samples);
  const Tensor images = Tensor::empty(bytes.device(), shape, {.dtype = dtype, .layout = Layout::nhwc});
  if (images.elements() == 0) return images;
  with_element_type(images, [&]<class T>(ElementType<T>) {
    launch("decode_images", images, blocks_for(images, images.elements()), kThreads, decode_kernel<T>,
           bytes.data<uint8_t>(), table.data<float>(), data_or_null<int64_t>(ids), samples, static_cast<int>(shape[1]),
           static_cast<int>(shape[2] * shape[3]), images.data<T>());
  });
  return images;
}

Tensor gather_labels(const Tensor& values, const Tensor& ids) {
  Tensor labels = Tensor::empty(ids.device(), ids.shape(), {.dtype = DType::i32});
  if (ids.elements() == 0) return labels;
  launch("gather_labels", ids, blocks_for(ids, ids.elements()), kThreads, gather_labels_kernel, values.data<int32_t>(),
         ids.data<int64_t>(), ids.elements(), labels.data<int32_t>());
  return labels;
}

}  // namespace dptrain::ops::cuda
