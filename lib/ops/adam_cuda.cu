#include "ops/adam_cuda.h"
#include "ops/cuda_kernels.h"
#include "ops/update_cuda.h"

// One launch over all parameters. Bytes per weight: it reads 16 (weight, gradient, both moments), and writes 12, and 2
// more for a half precision copy.

namespace dptrain::ops::cuda {
namespace {

struct Step {
  float learning_rate;
  int64_t step;
  double beta1;
  double beta2;
  float first_share;   ///< 1 - beta1
  float second_share;  ///< 1 - beta2
  float epsilon;
  float decay;
  bool decoupled;
};

/// A step's numbers for a group of weights. They depend on how many steps there have been.
struct Numbers {
  float step_size;      ///< learning rate / (1 - beta1^step)
  float second_factor;  ///< 1 / sqrt(1 - beta2^step)
  float kept;           ///< factor of a weight if decay is decoupled, else 1
  float decay;          ///< if it isn't decoupled, else 0

  __device__ static Numbers of(const Step& s, const UpdateScalars& scalars, double rate_factor, double decay_factor) {
    const double rate = scalars.rate(s.learning_rate) * rate_factor, decay = s.decay * decay_factor,
                 step = static_cast<double>(scalars.step_number(s.step));
    return {.step_size = static_cast<float>(rate / (1 - pow(s.beta1, step))),
            .second_factor = static_cast<float>(1 / sqrt(1 - pow(s.beta2, step))),
            .kept = s.decoupled ? static_cast<float>(1 - rate * decay) : 1.f,
            .decay = s.decoupled ? 0.f : static_cast<float>(decay)};
  }
};

template <int V, class Copy>
__global__ void adam_kernel(int64_t packs, float* weights, const float* gradients, float* firsts, float* seconds,
                            Copy* copies, Step s, UpdateScalars scalars, GroupTable groups) {
  if (scalars.skipped_now()) return;
  // Powers in double are many instructions, so one thread of the block computes them for each group.
  __shared__ Numbers numbers[UpdateGroups::kMost];
  groups.fill(numbers, [&](double rate_factor, double decay_factor) {
    return Numbers::of(s, scalars, rate_factor, decay_factor);
  });
  const float factor = scalars.factor(), beta2 = static_cast<float>(s.beta2);
  for (int64_t pack = global_thread(); pack < packs; pack += global_threads()) {
    const int64_t at = pack * V;
    const Numbers c = numbers[groups.of(at)];
    auto weight = Pack<float, V>::load(weights + at), first = Pack<float, V>::load(firsts + at),
         second = Pack<float, V>::load(seconds + at);
    const auto gradient = Pack<float, V>::load(gradients + at);
    Pack<Copy, V> copy;
    // Each rounding is written out, because the compiler may fuse different products for different elements of a pack.
    // A part of a range must get the same bits as it gets in the whole range.
    for (int i = 0; i < V; ++i) {
      float g = __fmul_rn(gradient.at[i], factor);
      const float w = __fmul_rn(weight.at[i], c.kept);
      if (!s.decoupled) g = fmaf(c.decay, w, g);
      first.at[i] = fmaf(s.first_share, g - first.at[i], first.at[i]);
      second.at[i] = fmaf(beta2, second.at[i], __fmul_rn(__fmul_rn(s.second_share, g), g));
      const float denominator = fmaf(sqrtf(second.at[i]), c.second_factor, s.epsilon);
      weight.at[i] = fmaf(-c.step_size, first.at[i] / denominator, w);
      copy.set(i, weight.at[i]);
    }
    weight.store(weights + at);
    first.store(firsts + at);
    second.store(seconds + at);
    if (copies != nullptr) copy.store(copies + at);
  }
}

}  // namespace

void adam_step(const Tensor& weights, const Tensor& gradients, const AdamMoments& moments, const AdamOptions& options) {
  const int64_t count = weights.storage_elements();
  if (count == 0) return;
  const Step step{.learning_rate = static_cast<float>(options.learning_rate),
                  .step = options.step,
                  .beta1 = options.beta1,
                  .beta2 = options.beta2,
                  .first_share = static_cast<float>(1 - options.beta1),
                  .second_share = static_cast<float>(1 - options.beta2),
                  .epsilon = static_cast<float>(options.epsilon),
                  .decay = static_cast<float>(options.weight_decay),
                  .decoupled = options.decoupled};
  const UpdateScalars scalars(options.control);
  const GroupTable groups(options.groups);
  float *const firsts = moments.first.data<float>(), *const seconds = moments.second.data<float>();
  with_element_type(options.copy.defined() ? options.copy : weights, [&]<class Copy>(ElementType<Copy>) {
    Copy* copies = data_or_null<Copy>(options.copy);
    const auto launch_with = [&]<int V>(std::integral_constant<int, V>) {
      launch("adam", weights, blocks_for(weights, count / V), kThreads, adam_kernel<V, Copy>, count / V,
             weights.data<float>(), gradients.data<float>(), firsts, seconds, copies, step, scalars, groups);
    };
    if (in_packs(count, 4, {weights.raw(), gradients.raw(), firsts, seconds, copies}))
      launch_with(std::integral_constant<int, 4>());
    else
      launch_with(std::integral_constant<int, 1>());
  });
}

}  // namespace dptrain::ops::cuda
