#include "ops/block_sum_cuda.h"
#include "ops/reduce_cuda.h"

namespace dptrain::ops::cuda {
namespace {

template <class T>
__global__ void runs_kernel(const T* x, int64_t count, double* runs) {
  double own = 0;
  const int64_t begin = blockIdx.x * kRun, end = begin + kRun < count ? begin + kRun : count;
  for (int64_t i = begin + threadIdx.x; i < end; i += kThreads) own += to_float(x[i]);
  const double sum = sum_of_block(own);
  if (threadIdx.x == 0) runs[blockIdx.x] = sum;
}

__global__ void fold_runs_kernel(const double* runs, int64_t count, double factor, float* sum) {
  double own = 0;
  for (int64_t i = threadIdx.x; i < count; i += kThreads) own += runs[i];
  const double total = sum_of_block(own);
  if (threadIdx.x == 0) *sum = static_cast<float>(total * factor);
}

template <class T>
__global__ void spread_kernel(const float* value, double factor, T* out, int64_t count) {
  const T share = from_float<T>(static_cast<float>(*value * factor));
  for (int64_t i = global_thread(); i < count; i += global_threads()) out[i] = share;
}

}  // namespace

Tensor scaled_sum(const Tensor& x, double factor) {
  const int64_t count = x.storage_elements(), blocks = (count + kRun - 1) / kRun;
  const Tensor runs = Tensor::empty(x.device(), {blocks}, {.dtype = DType::f64, .purpose = MemoryPurpose::workspace});
  const Tensor total = Tensor::empty(x.device(), {1});
  if (blocks > 0) {
    with_element_type(x, [&]<class T>(ElementType<T>) {
      launch("runs", x, static_cast<unsigned>(blocks), kThreads, runs_kernel<T>, x.data<T>(), count,
             runs.data<double>());
    });
  }
  launch("fold_runs", x, 1, kThreads, fold_runs_kernel, runs.data<double>(), blocks, factor, total.data<float>());
  return total;
}

Tensor spread(const Tensor& value, double factor, const TensorForm& like) {
  const Tensor out = like.empty();
  if (out.elements() == 0) return out;
  with_element_type(out, [&]<class T>(ElementType<T>) {
    launch("spread", out, blocks_for(out, out.storage_elements()), kThreads, spread_kernel<T>, value.data<float>(),
           factor, out.data<T>(), out.storage_elements());
  });
  return out;
}

}  // namespace dptrain::ops::cuda
