#include "ops/cross_entropy_cuda.h"
#include "ops/cuda_kernels.h"

// A warp a sample: its lanes walk over the classes 32 apart, and fold their numbers by shuffles, always in the same
// order. Exponentials are in double as on the CPU: a loss near zero is a difference of near equals.

namespace dptrain::ops::cuda {
namespace {

constexpr unsigned kAllLanes = 0xffffffffu;
constexpr int kWarps = 8;

template <class T>
struct Row {
  const T* logits;
  int64_t classes;
  int lane;

  /// The largest logit and the first class that has it, on all lanes.
  __device__ void largest(float& value, int64_t& place) const {
    value = -INFINITY;
    place = classes;
    for (int64_t k = lane; k < classes; k += 32)
      if (const float logit = to_float(logits[k]); logit > value) value = logit, place = k;
    for (int step = 16; step > 0; step /= 2) {
      const float other = __shfl_xor_sync(kAllLanes, value, step);
      const int64_t other_place = __shfl_xor_sync(kAllLanes, place, step);
      if (other > value || (other == value && other_place < place)) value = other, place = other_place;
    }
  }

  /// The sum over classes of exp(logit - largest), on all lanes.
  __device__ double exponentials(float largest_logit) const {
    double sum = 0;
    for (int64_t k = lane; k < classes; k += 32) sum += exp(static_cast<double>(logits[k]) - largest_logit);
    for (int step = 16; step > 0; step /= 2) sum += __shfl_xor_sync(kAllLanes, sum, step);
    return sum;
  }
};

template <class T>
__global__ void losses_kernel(const T* logits, const int32_t* labels, int64_t samples, int64_t classes,
                              double* losses) {
  const int64_t n = int64_t{blockIdx.x} * kWarps + threadIdx.y;
  if (n >= samples) return;
  const Row<T> row{logits + n * classes, classes, static_cast<int>(threadIdx.x)};
  float largest;
  int64_t place;
  row.largest(largest, place);
  const double sum = row.exponentials(largest);
  if (threadIdx.x == 0) losses[n] = log(sum) - (static_cast<double>(to_float(row.logits[labels[n]])) - largest);
}

template <class T>
__global__ void gradient_kernel(const T* logits, const int32_t* labels, int64_t samples, int64_t classes, double scale,
                                const float* factor, T* gradient) {
  const int64_t n = int64_t{blockIdx.x} * kWarps + threadIdx.y;
  if (n >= samples) return;
  const Row<T> row{logits + n * classes, classes, static_cast<int>(threadIdx.x)};
  float largest;
  int64_t place;
  row.largest(largest, place);
  if (factor != nullptr) scale *= *factor;
  const double share = scale / row.exponentials(largest);
  for (int64_t k = threadIdx.x; k < classes; k += 32) {
    const double softmax = share * exp(static_cast<double>(to_float(row.logits[k])) - largest);
    gradient[n * classes + k] = from_float<T>(static_cast<float>(k == labels[n] ? softmax - scale : softmax));
  }
}

template <class T>
__global__ void correct_kernel(const T* logits, const int32_t* labels, int64_t samples, int64_t classes,
                               int32_t* correct) {
  const int64_t n = int64_t{blockIdx.x} * kWarps + threadIdx.y;
  if (n >= samples) return;
  const Row<T> row{logits + n * classes, classes, static_cast<int>(threadIdx.x)};
  float largest;
  int64_t place;
  row.largest(largest, place);
  if (threadIdx.x == 0) correct[n] = place == labels[n];
}

unsigned blocks_of(int64_t samples) { return static_cast<unsigned>((samples + kWarps - 1) / kWarps); }

}  // namespace

Tensor cross_entropy_forward(const Tensor& logits, const Tensor& labels) {
  const int64_t samples = logits.shape()[0];
  Tensor losses = Tensor::empty(logits.device(), labels.shape(), {.dtype = DType::f64});
  if (samples == 0) return losses;
  with_element_type(logits, [&]<class T>(ElementType<T>) {
    launch("cross_entropy", logits, blocks_of(samples), dim3(32, kWarps), losses_kernel<T>, logits.data<T>(),
           labels.data<int32_t>(), samples, logits.shape()[1], losses.data<double>());
  });
  return losses;
}

Tensor cross_entropy_backward(const Tensor& logits, const Tensor& labels, double scale, const Tensor& factor) {
  const int64_t samples = logits.shape()[0];
  Tensor gradient = Tensor::empty(logits.device(), logits.shape(), {.dtype = logits.dtype()});
  if (samples == 0) return gradient;
  with_element_type(logits, [&]<class T>(ElementType<T>) {
    launch("cross_entropy backward", logits, blocks_of(samples), dim3(32, kWarps), gradient_kernel<T>, logits.data<T>(),
           labels.data<int32_t>(), samples, logits.shape()[1], scale, factor.defined() ? factor.data<float>() : nullptr,
           gradient.data<T>());
  });
  return gradient;
}

Tensor correct_samples(const Tensor& logits, const Tensor& labels) {
  const int64_t samples = logits.shape()[0];
  Tensor correct = Tensor::empty(logits.device(), labels.shape(), {.dtype = DType::i32});
  if (samples == 0) return correct;
  with_element_type(logits, [&]<class T>(ElementType<T>) {
    launch("correct_samples", logits, blocks_of(samples), dim3(32, kWarps), correct_kernel<T>, logits.data<T>(),
           labels.data<int32_t>(), samples, logits.shape()[1], correct.data<int32_t>());
  });
  return correct;
}

}  // namespace dptrain::ops::cuda
