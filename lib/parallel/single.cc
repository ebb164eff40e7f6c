#include "parallel/single.h"

#include <utility>

namespace dptrain::parallel {

void Single::train_step(std::shared_ptr<const Batch> batch, const StepNumbers& numbers) {
  make_step(steps_, std::move(batch), numbers, [](const RankStep& step) {
    Replica& own = step.replica;
    own.run_section(StepRecorder::Section::passes, step.parts, [&](StepRecorder::How) {
      own.forward_backward(step.parts, {});
      own.update_and_publish([&] { own.update(); });
    });
  });
}

}  // namespace dptrain::parallel
