#include "parallel/single.h"

#include <utility>

namespace dptrain::parallel {

void Single::train_step(std::shared_ptr<const Batch> batch, const StepNumbers& numbers) {
  count_samples(*batch);
  steps_.give(numbers, [this, batch = std::move(batch), numbers](int) {
    Replica& own = replica(0);
    const InPhase computing(own.clock(), Phase::compute);
    const StepParts parts = parts_of(*batch, 0);
    own.begin_step(parts, numbers, totals_of(*batch));
    own.run_part(0, parts, [&](StepRecorder::How) {
      own.forward_backward(parts, {});
      own.exchange().stamp(StepExchange::Point::reduced);
      own.update();
      own.exchange().stamp(StepExchange::Point::updated);
      own.exchange().publish();
    });
    end_step(0);
  });
}

}  // namespace dptrain::parallel
