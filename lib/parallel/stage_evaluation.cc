// How a device's pipeline stages evaluate test samples.
#include <algorithm>

#include "parallel/pipeline_stages.h"

namespace dptrain::parallel {

std::vector<StepResults> PipelineStages::evaluate(const PipelineStep& step, const Dataset& dataset,
                                                  std::span<const Block> blocks, PredictedRows rows) {
  const auto is_backward = [](const StageAction& action) { return action.kind != StageAction::Kind::forward; };
  const auto passes_on = [&](int device) {
    std::vector<StageAction> passes = actions_of(step, device);
    std::erase_if(passes, is_backward);
    return passes;
  };
  std::vector<BatchPart> parts;
  for (const auto& [begin, end] : blocks) parts.push_back(load_block_without_images(dataset, begin, end, rows));
  const auto part_of = [&](int64_t number) -> const BatchPart& { return parts[static_cast<size_t>(number)]; };
  list_arrivals(step, passes_on, part_of, false);
  std::vector<StepResults> results;
  std::unique_ptr<CommWork> sending;
  for (const StageAction& action : passes_on(device_number())) {
    Stage& at = stage(action.stage);
    const bool reads_images = !at.previous && part_of(action.micro_batch).text.tokens.empty();
    BatchPart with_images;
    if (reads_images) {
      const auto& [begin, end] = blocks[static_cast<size_t>(action.micro_batch)];
      with_images = load_block(dataset, begin, end, replica_.device(), rows);
    }
    const BatchPart& block = reads_images ? with_images : part_of(action.micro_batch);
    Tape tape(Tape::Mode::forget);
    const ModelSamples samples = replica_.reader().uploaded(block, at.position.units);
    const Variable x =
        tape.input(at.previous ? inbox_of(*at.previous).receive(*at.previous, action.micro_batch).value : samples.x);
    const auto outputs = replica_.evaluation_outputs(x, samples, at.position.units);
    if (!at.next) {
      results.push_back(replica_.results_of(outputs, samples, block));
      continue;
    }
    if (sending != nullptr) sending->wait();
    sending = at.next->start_send(signature_of(block, false), {.value = outputs.front().value()});
  }
  if (sending != nullptr) sending->wait();
  end_arrivals();
  return results;
}

}  // namespace dptrain::parallel
