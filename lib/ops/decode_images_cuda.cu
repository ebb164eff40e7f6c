#include "ops/cuda_kernels.h"
#include "ops/decode_images_cuda.h"

namespace dptrain::ops::cuda {
namespace {

/// A thread takes one element of the output at a time; neighboring threads take neighboring elements. It reads a byte
/// and writes an element; the table stays in the cache.
template <class T>
__global__ void decode_kernel(const uint8_t* bytes, const float* table, const int64_t* ids, int64_t samples,
                              int channels, int plane, T* images) {
  // All indices except the sample's have 32 bits, in which division is cheap.
  const int elements = channels * plane;
  for (int64_t i = global_thread(); i < samples * elements; i += global_threads()) {
    const int64_t n = i / elements;
    const int inside = static_cast<int>(i - n * elements), position = inside / channels, c = inside % channels;
    const int64_t sample = ids != nullptr ? ids[n] : n;
    images[i] = from_float<T>(table[c * 256 + bytes[sample * elements + c * plane + position]]);
  }
}

/// A thread takes one pixel of the output at a time, with all its channels. It draws its image's augmentations itself.
/// One of them takes 10 rounds of Philox, about 100 instructions. A window that is scaled takes as many once or twice,
/// two roots of 16 steps and two 64-bit divisions, and two more for the pixel's neighbors.
template <class T>
__global__ void decode_augmented_kernel(const uint8_t* bytes, const float* table, const int64_t* ids,
                                        const __grid_constant__ Augmentations augmentations, const int32_t* epoch,
                                        const int64_t* sample_ids, int64_t samples, int channels, ImageSize size,
                                        T* images) {
  const int plane = size.height * size.width;
  for (int64_t i = global_thread(); i < samples * plane; i += global_threads()) {
    const int64_t n = i / plane;
    const int position = static_cast<int>(i - n * plane);
    const AugmentedImage image(augmentations, size, static_cast<uint32_t>(*epoch),
                               static_cast<uint32_t>(sample_ids[n]));
    const PixelSource source = image.source(position / size.width, position % size.width);
    const uint8_t* from = bytes + (ids != nullptr ? ids[n] : n) * channels * plane;
    for (int c = 0; c < channels; ++c)
      images[i * channels + c] = from_float<T>(table[c * 256 + source.byte(from + c * plane)]);
  }
}

__global__ void gather_labels_kernel(const int32_t* values, const int64_t* ids, int64_t count, int32_t* labels) {
  for (int64_t n = global_thread(); n < count; n += global_threads()) labels[n] = values[ids[n]];
}

}  // namespace

Tensor decode_images(const Tensor& bytes, const Tensor& table, const Tensor& ids, const DecodeOptions& options) {
  const int64_t samples = ids.defined() ? ids.elements() : bytes.shape()[0];
  const Shape shape = bytes.shape().with_first(samples);
  const Tensor images = Tensor::empty(bytes.device(), shape, {.dtype = options.dtype, .layout = Layout::nhwc});
  if (images.elements() == 0) return images;
  with_element_type(images, [&]<class T>(ElementType<T>) {
    if (!options.augmentations.empty()) {
      const ImageSize size{.height = static_cast<int32_t>(shape[2]), .width = static_cast<int32_t>(shape[3])};
      launch("decode_images", images, blocks_for(images, samples * shape[2] * shape[3]), kThreads,
             decode_augmented_kernel<T>, bytes.data<uint8_t>(), table.data<float>(), data_or_null<int64_t>(ids),
             options.augmentations, options.epoch.data<int32_t>(), options.sample_ids.data<int64_t>(), samples,
             static_cast<int>(shape[1]), size, images.data<T>());
      return;
    }
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
