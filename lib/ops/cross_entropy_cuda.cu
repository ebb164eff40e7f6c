#include "ops/cross_entropy_cuda.h"
#include "ops/warp_cuda.h"

// A warp a sample: its lanes walk over the classes 32 apart, and fold their numbers by shuffles, always in the same
// order. Exponentials are in double as on the CPU: a loss near zero is a difference of near equals.

namespace dptrain::ops::cuda {
namespace {

template <class T>
struct Batch {
  const T* logits;
  const int32_t* labels;
  int64_t samples;
  int64_t classes;
};

/// The largest logit of a row, and the first class that has it.
struct Largest {
  float logit;
  int64_t place;
};

/// A warp's sample, and the lane's part of its logits.
template <class T>
struct Row {
  int64_t sample;
  bool exists;  ///< false where the grid hangs over the samples
  const T* logits;
  int64_t classes;
  int64_t lane;

  __device__ explicit Row(const Batch<T>& batch)
      : sample(row_of_warp()),
        exists(sample < batch.samples),
        logits(batch.logits + sample * batch.classes),
        classes(batch.classes),
        lane(threadIdx.x) {}

  __device__ double logit(int64_t k) const { return to_float(logits[k]); }

  /// On all lanes.
  __device__ Largest largest() const {
    Largest own{-INFINITY, classes};
    for (int64_t k = lane; k < classes; k += 32)
      if (const float value = to_float(logits[k]); value > own.logit) own = {value, k};
    for (int step = 16; step > 0; step /= 2) {
      const float other = __shfl_xor_sync(kAllLanes, own.logit, step);
      const int64_t place = __shfl_xor_sync(kAllLanes, own.place, step);
      if (other > own.logit || (other == own.logit && place < own.place)) own = {other, place};
    }
    return own;
  }

  /// The sum over classes of exp(logit - largest), on all lanes.
  __device__ double exponentials(float largest) const {
    double sum = 0;
    for (int64_t k = lane; k < classes; k += 32) sum += exp(logit(k) - largest);
    return sum_of_warp(sum);
  }

  /// The mean over classes of logit - largest, on all lanes.
  __device__ double mean_distance(float largest) const {
    double sum = 0;
    for (int64_t k = lane; k < classes; k += 32) sum += logit(k) - largest;
    return sum_of_warp(sum) / static_cast<double>(classes);
  }
};

template <class T>
__global__ void losses_kernel(Batch<T> batch, double smoothing, double* losses) {
  const Row<T> row(batch);
  if (!row.exists) return;
  const int32_t label = batch.labels[row.sample];
  if (label < 0) {
    if (row.lane == 0) losses[row.sample] = 0;
    return;
  }
  const float largest = row.largest().logit;
  double loss = log(row.exponentials(largest)) - (1 - smoothing) * (row.logit(label) - largest);
  if (smoothing > 0) loss -= smoothing * row.mean_distance(largest);
  if (row.lane == 0) losses[row.sample] = loss;
}

template <class T>
__global__ void gradient_kernel(Batch<T> batch, double scale, const int32_t* count, const float* factor,
                                double smoothing, T* gradient) {
  const Row<T> row(batch);
  if (!row.exists) return;
  const int32_t label = batch.labels[row.sample];
  T* out = gradient + row.sample * row.classes;
  if (label < 0) {
    for (int64_t k = row.lane; k < row.classes; k += 32) out[k] = from_float<T>(0.f);
    return;
  }
  const float largest = row.largest().logit;
  if (count != nullptr) scale /= *count;
  if (factor != nullptr) scale *= *factor;
  // The target's parts: of the label alone, and of every class.
  const double own = scale * (1 - smoothing), every = scale * smoothing / static_cast<double>(row.classes);
  const double share = scale / row.exponentials(largest);
  for (int64_t k = row.lane; k < row.classes; k += 32) {
    const double spread = share * exp(row.logit(k) - largest) - every;
    out[k] = from_float<T>(static_cast<float>(k == label ? spread - own : spread));
  }
}

template <class T>
__global__ void correct_kernel(Batch<T> batch, int32_t* correct) {
  const Row<T> row(batch);
  if (!row.exists) return;
  const int64_t place = row.largest().place;
  if (row.lane == 0) correct[row.sample] = place == batch.labels[row.sample];
}

template <class T>
Batch<T> batch_of(const Tensor& logits, const Tensor& labels) {
  return {logits.data<T>(), labels.data<int32_t>(), logits.shape()[0], logits.shape()[1]};
}

}  // namespace

Tensor cross_entropy_forward(const Tensor& logits, const Tensor& labels, const CrossEntropyOptions& options) {
  const int64_t samples = logits.shape()[0];
  Tensor losses = Tensor::empty(logits.device(), labels.shape(), {.dtype = DType::f64});
  if (samples == 0) return losses;
  with_element_type(logits, [&]<class T>(ElementType<T>) {
    launch("cross_entropy", logits, blocks_of_rows(samples), block_of_warps(), losses_kernel<T>,
           batch_of<T>(logits, labels), options.label_smoothing, losses.data<double>());
  });
  return losses;
}

Tensor cross_entropy_backward(const Tensor& logits, const Tensor& labels, const CrossEntropyOptions& options) {
  const int64_t samples = logits.shape()[0];
  Tensor gradient = Tensor::empty(logits.device(), logits.shape(), {.dtype = logits.dtype()});
  if (samples == 0) return gradient;
  with_element_type(logits, [&]<class T>(ElementType<T>) {
    launch("cross_entropy backward", logits, blocks_of_rows(samples), block_of_warps(), gradient_kernel<T>,
           batch_of<T>(logits, labels), options.scale, data_or_null<int32_t>(options.count),
           data_or_null<float>(options.factor), options.label_smoothing, gradient.data<T>());
  });
  return gradient;
}

Tensor correct_samples(const Tensor& logits, const Tensor& labels) {
  const int64_t samples = logits.shape()[0];
  Tensor correct = Tensor::empty(logits.device(), labels.shape(), {.dtype = DType::i32});
  if (samples == 0) return correct;
  with_element_type(logits, [&]<class T>(ElementType<T>) {
    launch("correct_samples", logits, blocks_of_rows(samples), block_of_warps(), correct_kernel<T>,
           batch_of<T>(logits, labels), correct.data<int32_t>());
  });
  return correct;
}

}  // namespace dptrain::ops::cuda
