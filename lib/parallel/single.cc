#include "parallel/single.h"

#include <fmt/format.h>

namespace dptrain::parallel {

void Single::train_step(const Batch& batch, const StepNumbers& numbers) {
  team().run(fmt::format("step {}", numbers.step), [&](int) {
    Replica& own = replica(0);
    const InPhase computing(own.clock(), Phase::compute);
    const StepParts parts = parts_of(batch, 0);
    own.begin_step(parts, numbers, StepTotals::of(batch));
    own.run_part(0, {}, parts, [&](StepRecorder::How) {
      own.forward_backward(parts, {});
      own.exchange().stamp(StepExchange::Point::reduced);
      own.update();
      own.exchange().stamp(StepExchange::Point::updated);
      own.exchange().publish();
    });
    end_step(0);
  });
  count_samples(0, batch.samples);
}

}  // namespace dptrain::parallel
