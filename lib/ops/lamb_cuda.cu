#include "ops/lamb_cuda.h"
#include "ops/layerwise_cuda.h"
#include "ops/trust_ratio.h"
#include "ops/update_cuda.h"

// Three launches over all parameters. Bytes per weight: the first launch reads 16 (weight, gradient, both moments),
// reads the weight again from the cache, and writes 8. The last reads 12, as it computes the directions again, and
// writes 4, and 2 more for a half precision copy. The second launch reads 2 x 128 bytes for each 8192 weights.

namespace dptrain::ops::cuda {
namespace {

struct LambStep {
  float learning_rate;
  int64_t step;
  double beta1;
  double beta2;
  float first_share;   ///< 1 - beta1
  float second_share;  ///< 1 - beta2
  float epsilon;
  double decay;

  explicit LambStep(const LambOptions& options)
      : learning_rate(static_cast<float>(options.learning_rate)),
        step(options.step),
        beta1(options.beta1),
        beta2(options.beta2),
        first_share(static_cast<float>(1 - options.beta1)),
        second_share(static_cast<float>(1 - options.beta2)),
        epsilon(static_cast<float>(options.epsilon)),
        decay(options.weight_decay) {}
};

/// A step's numbers for a tensor. They depend on how many steps there have been.
struct LambDirection {
  float first_factor;   ///< 1 / (1 - beta1^step)
  float second_factor;  ///< 1 / sqrt(1 - beta2^step)
  float epsilon;
  float decay;

  __device__ static LambDirection of(const LambStep& s, const UpdateScalars& scalars, double decay_factor) {
    const auto step = static_cast<double>(scalars.step_number(s.step));
    return {.first_factor = static_cast<float>(1 / (1 - pow(s.beta1, step))),
            .second_factor = static_cast<float>(1 / sqrt(1 - pow(s.beta2, step))),
            .epsilon = s.epsilon,
            .decay = static_cast<float>(s.decay * decay_factor)};
  }
  /// Returns the direction of a weight's update. Each rounding is written out, as in Adam's kernel.
  __device__ float along(float weight, float first, float second) const {
    const float denominator = fmaf(sqrtf(second), second_factor, epsilon);
    return fmaf(decay, weight, __fmul_rn(first, first_factor) / denominator);
  }
};

__global__ void lamb_measure_kernel(const int64_t* chunks, const double* numbers, const float* weights,
                                    const float* gradients, float* firsts, float* seconds, int64_t* runs, LambStep s,
                                    UpdateScalars scalars) {
  if (scalars.skipped_now()) return;
  const ChunkOfBlock chunk(chunks);
  __shared__ LambDirection shared;
  if (threadIdx.x == 0) shared = LambDirection::of(s, scalars, TensorNumbers::of(numbers, chunk.tensor).decay_factor);
  __syncthreads();
  const LambDirection direction = shared;
  const float factor = scalars.factor(), beta2 = static_cast<float>(s.beta2);
  float own[kEach];
#pragma unroll
  for (int k = 0; k < kChunkPacks; ++k) {
    using Floats = Pack<float, kChunkPack>;
    if (!chunk.has(k)) {
#pragma unroll
      for (int i = 0; i < kChunkPack; ++i) own[k * kChunkPack + i] = 0;
      continue;
    }
    const int64_t at = chunk.begin + ChunkOfBlock::offset(k);
    const auto weight = Floats::load(weights + at), gradient = Floats::load(gradients + at);
    auto first = Floats::load(firsts + at), second = Floats::load(seconds + at);
#pragma unroll
    for (int i = 0; i < kChunkPack; ++i) {
      const float g = __fmul_rn(gradient.at[i], factor);
      first.at[i] = fmaf(s.first_share, g - first.at[i], first.at[i]);
      second.at[i] = fmaf(beta2, second.at[i], __fmul_rn(__fmul_rn(s.second_share, g), g));
      own[k * kChunkPack + i] = direction.along(weight.at[i], first.at[i], second.at[i]);
    }
    first.store(firsts + at);
    second.store(seconds + at);
  }
  int64_t* run = runs + 2 * int64_t{blockIdx.x} * kSquareSumNumbers;
  write_square_run(own, run + kSquareSumNumbers);
  write_square_run_of(chunk, weights, run);
}

template <class Copy>
__global__ void lamb_kernel(const int64_t* chunks, const double* numbers, const double* squares, float* weights,
                            const float* firsts, const float* seconds, Copy* copies, LambStep s,
                            UpdateScalars scalars) {
  if (scalars.skipped_now()) return;
  const ChunkOfBlock chunk(chunks);
  __shared__ LambDirection shared;
  __shared__ float shared_rate;
  if (threadIdx.x == 0) {
    const TensorNumbers own = TensorNumbers::of(numbers, chunk.tensor);
    const double ratio = own.adapts ? lamb_ratio(sqrt(rounded_square_sum(weights_squares(squares, chunk.tensor))),
                                                 sqrt(rounded_square_sum(updates_squares(squares, chunk.tensor))))
                                    : 1;
    shared = LambDirection::of(s, scalars, own.decay_factor);
    shared_rate = static_cast<float>(scalars.rate(s.learning_rate) * own.rate_factor * ratio);
  }
  __syncthreads();
  const LambDirection direction = shared;
  const float rate = shared_rate;
  for (int k = 0; k < kChunkPacks && chunk.has(k); ++k) {
    using Floats = Pack<float, kChunkPack>;
    const int64_t at = chunk.begin + ChunkOfBlock::offset(k);
    auto weight = Floats::load(weights + at);
    const auto first = Floats::load(firsts + at), second = Floats::load(seconds + at);
    Pack<Copy, kChunkPack> copy;
#pragma unroll
    for (int i = 0; i < kChunkPack; ++i) {
      weight.at[i] = fmaf(-rate, direction.along(weight.at[i], first.at[i], second.at[i]), weight.at[i]);
      copy.set(i, weight.at[i]);
    }
    weight.store(weights + at);
    if (copies != nullptr) copy.store(copies + at);
  }
}

}  // namespace

void lamb_measure(const Tensor& weights, const Tensor& gradients, const AdamMoments& moments, const TensorTable& table,
                  const Tensor& squares, const LambOptions& options) {
  if (table.count() == 0) return;
  const Tensor runs = runs_of_chunks(table);
  launch("lamb_measure", weights, static_cast<unsigned>(table.count()), kThreads, lamb_measure_kernel,
         table.chunks.data<int64_t>(), table.numbers.data<double>(), weights.data<float>(), gradients.data<float>(),
         moments.first.data<float>(), moments.second.data<float>(), runs.data<int64_t>(), LambStep(options),
         UpdateScalars(options.control));
  add_tensor_runs(table, runs, squares, options.control.skip);
}

void lamb_step(const Tensor& weights, const AdamMoments& moments, const TensorTable& table, const Tensor& squares,
               const LambOptions& options) {
  if (table.count() == 0) return;
  with_element_type(options.copy.defined() ? options.copy : weights, [&]<class Copy>(ElementType<Copy>) {
    Copy* copies = data_or_null<Copy>(options.copy);
    launch("lamb", weights, static_cast<unsigned>(table.count()), kThreads, lamb_kernel<Copy>,
           table.chunks.data<int64_t>(), table.numbers.data<double>(), squares.data<double>(), weights.data<float>(),
           moments.first.data<float>(), moments.second.data<float>(), copies, LambStep(options),
           UpdateScalars(options.control));
  });
}

}  // namespace dptrain::ops::cuda
