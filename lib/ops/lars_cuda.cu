#include "ops/lars_cuda.h"
#include "ops/layerwise_cuda.h"
#include "ops/sgd_update_cuda.h"
#include "ops/trust_ratio.h"
#include "ops/update_cuda.h"

// One launch over all parameters. It reads and writes what SGD does.

namespace dptrain::ops::cuda {
namespace {

struct LarsStep {
  SgdUpdate sgd;
  float learning_rate;
  float decay;
  double coefficient;
  double epsilon;
};

template <class Copy>
__global__ void lars_kernel(const int64_t* chunks, const double* numbers, const double* squares, float* weights,
                            const float* gradients, float* velocities, Copy* copies, LarsStep step,
                            UpdateScalars scalars) {
  if (scalars.skipped_now()) return;
  const ChunkOfBlock chunk(chunks);
  __shared__ SgdRates sgd;
  __shared__ float gradient_factor;
  if (threadIdx.x == 0) {
    const TensorNumbers own = TensorNumbers::of(numbers, chunk.tensor);
    const double factor = scalars.factor(), decay = step.decay * own.decay_factor;
    const double ratio = own.adapts
                             ? lars_ratio(sqrt(rounded_square_sum(weights_squares(squares, chunk.tensor))),
                                          factor * sqrt(rounded_square_sum(updates_squares(squares, chunk.tensor))),
                                          decay, step.coefficient, step.epsilon)
                             : 1;
    sgd = {.rate = static_cast<float>(scalars.rate(step.learning_rate) * own.rate_factor),
           .decay = static_cast<float>(ratio * decay)};
    gradient_factor = static_cast<float>(ratio * factor);
  }
  __syncthreads();
  const SgdRates own = sgd;
  const float factor = gradient_factor;
  for (int k = 0; k < kChunkPacks && chunk.has(k); ++k)
    update_sgd_pack<kChunkPack>(chunk.begin + ChunkOfBlock::offset(k), weights, gradients, velocities, copies, step.sgd,
                                own, factor);
}

}  // namespace

void lars_step(const Tensor& weights, const Tensor& gradients, const Tensor& velocity, const TensorTable& table,
               const Tensor& squares, const LarsOptions& options) {
  if (table.count() == 0) return;
  float* velocities = data_or_null<float>(velocity);
  const LarsStep step{
      .sgd = {.momentum = static_cast<float>(options.momentum), .nesterov = options.nesterov},
      .learning_rate = static_cast<float>(options.learning_rate),
      .decay = static_cast<float>(options.weight_decay),
      .coefficient = options.trust_coefficient,
      .epsilon = options.epsilon,
  };
  with_element_type(options.copy.defined() ? options.copy : weights, [&]<class Copy>(ElementType<Copy>) {
    Copy* copies = data_or_null<Copy>(options.copy);
    launch("lars", weights, static_cast<unsigned>(table.count()), kThreads, lars_kernel<Copy>,
           table.chunks.data<int64_t>(), table.numbers.data<double>(), squares.data<double>(), weights.data<float>(),
           gradients.data<float>(), velocities, copies, step, UpdateScalars(options.control));
  });
}

}  // namespace dptrain::ops::cuda
