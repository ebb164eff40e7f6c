#include "comm/job_progress.h"

#include <fmt/format.h>

namespace dptrain {

std::string describe_progress(JobPhase phase, int64_t step) {
  switch (phase) {
    case JobPhase::loading: return fmt::format("while loading the batch of step {}", step + 1);
    case JobPhase::step: return fmt::format("in step {}", step);
    case JobPhase::evaluation: return fmt::format("in the evaluation after step {}", step);
    case JobPhase::checkpoint: return fmt::format("in the checkpoint after step {}", step);
    default: return "before the first step";
  }
}

}  // namespace dptrain
