#include "parallel/pass_agreements.h"

#include <optional>

#include "parallel/recorded_exchanges.h"

namespace dptrain::parallel {

PassAgreements::PassAgreements(RankTeam& team, bool is_of_text)
    : team_(team), is_of_text_(is_of_text), agreements_(static_cast<size_t>(team.size())) {}

void PassAgreements::join(int rank, PassRecorder& passes) {
  auto& agreement = agreements_[static_cast<size_t>(rank)];
  agreement = std::make_unique<RecordingAgreement>(team_.host_communicator(rank));
  passes.agree_by([to = agreement.get()](StepRecorder::How own) { return to->of_all(own); });
}

void PassAgreements::begin_step(int rank, const Batch& batch) {
  auto& agreement = agreements_[static_cast<size_t>(rank)];
  if (!agreement) return;
  // For images, every rank's sizes follow from how the batch is split.
  agreement->begin_step(is_of_text_ ? std::nullopt : std::optional(sizes_of_all(batch, team_.device(rank))));
}

}  // namespace dptrain::parallel
