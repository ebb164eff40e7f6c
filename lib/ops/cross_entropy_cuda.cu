#include "ops/cross_entropy_cuda.h"
#include "ops/warp_cuda.h"

// A warp takes a sample, or a block of warps if there are many classes. Threads walk over the classes in steps of the
// number of threads, and fold their numbers by shuffles, then warp by warp, always in the same order. Exponentials are
// in double as on the CPU, as a loss near zero is a difference of nearly equal numbers. Exponentials for 16-bit
// gradients are in f32: such gradients hold no more digits, and a GPU computes many f32 exponentials in the time of one
// in double.

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

/// From this many classes on, a block takes a sample. A vocabulary has so many, and there are hardly more masked tokens
/// than a GPU has warps.
constexpr int64_t kManyClasses = 1024;

/// The sample of a warp, or of a block of kWarpsOfRow warps, and the thread's part of its logits.
template <class T, int kWarpsOfRow>
struct Row {
  static constexpr int kStep = 32 * kWarpsOfRow;
  int64_t sample;
  bool exists;  ///< false past the last sample
  const T* logits;
  int64_t classes;
  int64_t lane;

  __device__ explicit Row(const Batch<T>& batch)
      : sample(kWarpsOfRow == 1 ? row_of_warp() : int64_t{blockIdx.x}),
        exists(sample < batch.samples),
        logits(batch.logits + sample * batch.classes),
        classes(batch.classes),
        lane(kWarpsOfRow == 1 ? threadIdx.x : threadIdx.y * 32 + threadIdx.x) {}

  __device__ double logit(int64_t k) const { return to_float(logits[k]); }
  /// Returns exp(logit - largest), with the digits that a gradient of the logits' type holds.
  __device__ double exponential_for_gradient(int64_t k, float largest) const {
    if constexpr (sizeof(T) == 2) return expf(to_float(logits[k]) - largest);
    return exp(logit(k) - largest);
  }

  /// Returns the row's largest logit to all threads of the row.
  __device__ Largest largest() const {
    Largest own{-INFINITY, classes};
    for (int64_t k = lane; k < classes; k += kStep)
      if (const float value = to_float(logits[k]); value > own.logit) own = {value, k};
    for (int step = 16; step > 0; step /= 2) {
      const float other = __shfl_xor_sync(kAllLanes, own.logit, step);
      const int64_t place = __shfl_xor_sync(kAllLanes, own.place, step);
      own = larger(own, {other, place});
    }
    return over_warps(own, larger);
  }

  /// Returns the sum of f(class) over the classes to all threads of the row.
  template <class F>
  __device__ double sum_over_classes(const F& f) const {
    double sum = 0;
    for (int64_t k = lane; k < classes; k += kStep) sum += f(k);
    return over_warps(sum_of_warp(sum), plus);
  }

 private:
  __device__ static Largest larger(const Largest& a, const Largest& b) {
    return b.logit > a.logit || (b.logit == a.logit && b.place < a.place) ? b : a;
  }
  __device__ static double plus(double a, double b) { return a + b; }

  /// Folds the numbers of the row's warps, from the first to the last.
  template <class V, class F>
  __device__ static V over_warps(V own, const F& fold) {
    if constexpr (kWarpsOfRow > 1) {
      __shared__ V of_warps[kWarpsOfRow];
      if (threadIdx.x == 0) of_warps[threadIdx.y] = own;
      __syncthreads();
      own = of_warps[0];
      for (int warp = 1; warp < kWarpsOfRow; ++warp) own = fold(own, of_warps[warp]);
      __syncthreads();  // all have read `of_warps` before it is written again
    }
    return own;
  }
};

template <class T, int kWarpsOfRow>
__global__ void losses_kernel(Batch<T> batch, double smoothing, double* losses) {
  const Row<T, kWarpsOfRow> row(batch);
  if (!row.exists) return;
  const int32_t label = batch.labels[row.sample];
  if (label < 0) {
    if (row.lane == 0) losses[row.sample] = 0;
    return;
  }
  const float largest = row.largest().logit;
  const auto distance = [&](int64_t k) { return row.logit(k) - largest; };
  const double exponentials = row.sum_over_classes([&](int64_t k) { return exp(distance(k)); });
  double loss = log(exponentials) - (1 - smoothing) * distance(label);
  if (smoothing > 0) loss -= smoothing * (row.sum_over_classes(distance) / static_cast<double>(row.classes));
  if (row.lane == 0) losses[row.sample] = loss;
}

template <class T, int kWarpsOfRow>
__global__ void gradient_kernel(Batch<T> batch, double scale, const int32_t* count, const float* factor,
                                double smoothing, T* gradient) {
  const Row<T, kWarpsOfRow> row(batch);
  if (!row.exists) return;
  const int32_t label = batch.labels[row.sample];
  T* out = gradient + row.sample * row.classes;
  if (label < 0) {
    for (int64_t k = row.lane; k < row.classes; k += row.kStep) out[k] = from_float<T>(0.f);
    return;
  }
  const float largest = row.largest().logit;
  if (count != nullptr) scale /= *count;
  if (factor != nullptr) scale *= *factor;
  // The parts of the target: `own` is for the label alone, `every` for every class.
  const double own = scale * (1 - smoothing), every = scale * smoothing / static_cast<double>(row.classes);
  const auto exponential = [&](int64_t k) { return row.exponential_for_gradient(k, largest); };
  const double share = scale / row.sum_over_classes(exponential);
  for (int64_t k = row.lane; k < row.classes; k += row.kStep) {
    const double spread = share * exponential(k) - every;
    out[k] = from_float<T>(static_cast<float>(k == label ? spread - own : spread));
  }
}

template <class T, int kWarpsOfRow>
__global__ void correct_kernel(Batch<T> batch, int32_t* correct) {
  const Row<T, kWarpsOfRow> row(batch);
  if (!row.exists) return;
  const int64_t place = row.largest().place;
  if (row.lane == 0) correct[row.sample] = place == batch.labels[row.sample];
}

/// Launches narrow(...), the kernel with a warp per row, or wide(...), the one with a block per row, on the logits'
/// device.
template <class... Parameters, class... Arguments>
void launch_rows(const char* name, const Tensor& logits, void (*narrow)(Parameters...), void (*wide)(Parameters...),
                 Arguments&&... arguments) {
  const int64_t samples = logits.shape()[0];
  const bool many = logits.shape()[1] >= kManyClasses;
  launch(name, logits, many ? static_cast<unsigned>(samples) : blocks_of_rows(samples), block_of_warps(),
         many ? wide : narrow, std::forward<Arguments>(arguments)...);
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
    launch_rows("cross_entropy", logits, losses_kernel<T, 1>, losses_kernel<T, kWarps>, batch_of<T>(logits, labels),
                options.label_smoothing, losses.data<double>());
  });
  return losses;
}

Tensor cross_entropy_backward(const Tensor& logits, const Tensor& labels, const CrossEntropyOptions& options) {
  const int64_t samples = logits.shape()[0];
  Tensor gradient = Tensor::empty(logits.device(), logits.shape(), {.dtype = logits.dtype()});
  if (samples == 0) return gradient;
  with_element_type(logits, [&]<class T>(ElementType<T>) {
    launch_rows("cross_entropy backward", logits, gradient_kernel<T, 1>, gradient_kernel<T, kWarps>,
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
    launch_rows("correct_samples", logits, correct_kernel<T, 1>, correct_kernel<T, kWarps>, batch_of<T>(logits, labels),
                correct.data<int32_t>());
  });
  return correct;
}

}  // namespace dptrain::ops::cuda
