#include "parallel/single.h"

#include <fmt/format.h>

namespace dptrain::parallel {

Score Single::train_step(const Batch& batch, const StepNumbers& numbers) {
  std::vector<SampleResults> results(1);
  team().run(fmt::format("step {}", numbers.step), [&](int) {
    Replica& own = replica(0);
    const InPhase computing(own.clock(), Phase::compute);
    results[0] = own.forward_backward(batch.parts[0], 1.0 / static_cast<double>(batch.samples),
                                      static_cast<uint32_t>(numbers.epoch), {});
    update(0, numbers.learning_rate);
  });
  count_samples(0, batch.samples);
  return total(results);
}

}  // namespace dptrain::parallel
