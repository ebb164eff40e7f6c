#include "parallel/single.h"

#include <fmt/format.h>

namespace dptrain::parallel {

void Single::train_step(const Batch& batch, const StepNumbers& numbers) {
  const BatchPart& part = batch.parts[0];
  team().run(fmt::format("step {}", numbers.step), [&](int) {
    Replica& own = replica(0);
    const InPhase computing(own.clock(), Phase::compute);
    own.begin_step(part, numbers);
    own.run_part(0, {}, part, [&](StepRecorder::How) {
      own.forward_backward(part, 1.0 / static_cast<double>(batch.samples), {});
      own.exchange().stamp(StepExchange::Point::reduced);
      own.update(numbers.learning_rate);
      own.exchange().stamp(StepExchange::Point::updated);
      own.exchange().publish();
    });
    end_step(0);
  });
  count_samples(0, batch.samples);
}

}  // namespace dptrain::parallel
