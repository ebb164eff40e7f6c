#include "parallel/recorded_exchanges.h"

#include <optional>

namespace dptrain::parallel {
namespace {

std::vector<CommCounts> counts_of(const std::vector<Communicator*>& communicators) {
  std::vector<CommCounts> counts;
  for (const Communicator* communicator : communicators) counts.push_back(communicator->counts());
  return counts;
}

}  // namespace

StepRecorder::Signature sizes_of_all(const Batch& batch, const Device& device) {
  StepRecorder::Signature signature = {batch.samples, device.timeline() != nullptr ? 1 : 0};
  for (const MicroBatch& micro : batch.micro_batches)
    for (const BatchPart& part : micro.parts)
      for (const auto& labels : part.targets) signature.push_back(static_cast<int64_t>(labels.size()));
  return signature;
}

StepRecorder::Signature sizes_known_to_all(const RankTeam& team, const Batch& batch, const Device& device) {
  return team.spans_processes() ? StepRecorder::Signature{batch.samples} : sizes_of_all(batch, device);
}

RecordedExchanges::RecordedExchanges(RankTeam& team, bool is_of_text)
    : team_(team),
      is_of_text_(is_of_text),
      communicators_(static_cast<size_t>(team.size())),
      counts_(static_cast<size_t>(team.size())),
      agreements_(static_cast<size_t>(team.size())),
      done_(static_cast<size_t>(team.size())) {
  for (int rank = 0; rank < team.size(); ++rank) exchange_over(rank, {&team.communicator(rank)});
}

void RecordedExchanges::join(int rank, Replica& replica) {
  if (team_.world_size() == 1 || team_.is_logged()) return replica.record_with_others({});
  auto& agreement = agreements_[static_cast<size_t>(rank)];
  agreement = std::make_unique<RecordingAgreement>(team_.host_communicator(rank));
  replica.record_with_others([to = agreement.get()](StepRecorder::How own) { return to->of_all(own); });
}

void RecordedExchanges::run(int rank, Replica& replica, const StepParts& parts, const Batch& batch,
                            const std::function<void()>& give) {
  const std::vector<Communicator*>& communicators = communicators_[static_cast<size_t>(rank)];
  const auto give_apart = [&](bool apart) {
    for (Communicator* communicator : communicators) communicator->begin_recordable(apart);
    give();
    for (Communicator* communicator : communicators) communicator->end_recordable();
  };
  if (!replica.device().can_record() || !replica.records_steps())
    return give_apart(
        done_[static_cast<size_t>(rank)].insert(sizes_known_to_all(team_, batch, replica.device())).second);
  // For images, every rank's sizes follow from how the batch is split.
  if (auto& agreement = agreements_[static_cast<size_t>(rank)])
    agreement->begin_step(is_of_text_ ? std::nullopt : std::optional(sizes_of_all(batch, replica.device())));
  // Logging ranks exchange nothing, so the sizes of all ranks are part of their signature.
  const auto signature = team_.is_logged() ? sizes_of_all(batch, replica.device()) : StepRecorder::Signature();
  const std::vector<CommCounts> before = counts_of(communicators);
  const auto given = [&](StepRecorder::How how) {
    // All ranks record at once: the exchanges go into the graphs of all of them.
    Communicator& world = team_.communicator(rank);
    if (how == StepRecorder::How::recorded) world.barrier();
    give_apart(how == StepRecorder::How::done);
    if (how == StepRecorder::How::recorded) world.barrier();
  };
  const auto how = replica.run_section(StepRecorder::Section::passes, parts, given, signature);
  if (how == StepRecorder::How::done) return;
  // Steps with other numbers of micro-batches exchange more often or less often.
  std::vector<CommCounts>& of_replay = counts_[static_cast<size_t>(rank)][replica.step_signature(parts)];
  if (how == StepRecorder::How::recorded) of_replay = counts_of(communicators);
  for (size_t i = 0; i < communicators.size(); ++i) {
    if (how == StepRecorder::How::recorded)
      of_replay[i] = of_replay[i] - before[i];
    else
      communicators[i]->count_replay(of_replay[i]);
  }
}

}  // namespace dptrain::parallel
