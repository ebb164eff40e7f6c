#include "train/step_trace.h"

#include <algorithm>
#include <memory>
#include <mutex>
#include <utility>

#include "ops/reorder.h"
#include "parallel/gradient_compression.h"
#include "train/initial_weights.h"
#include "train/nudged_weights.h"
#include "train/strategy_context.h"
#include "train/trainer.h"
#include "train/whole_batches.h"

namespace dptrain::train {
namespace {

std::vector<float> plain_values(const Tensor& tensor) {
  return ops::converted(tensor, {.dtype = DType::f32, .purpose = MemoryPurpose::workspace}).values();
}

/// Records what ranks compute in a step.
class TraceRecorder final : public parallel::StepObserver {
 public:
  void on_stage(const nn::Model& model, int stage, const Tensor& output, const Tensor& sample_ids) override {
    std::vector<int64_t> ids(static_cast<size_t>(sample_ids.elements()));
    sample_ids.device().download(ids.data(), sample_ids.data<int64_t>(), sample_ids.bytes());
    const std::vector<float> values = plain_values(output);
    const auto row = static_cast<ptrdiff_t>(output.shape()[0] > 0 ? output.elements() / output.shape()[0] : 0);
    const std::scoped_lock lock(mutex_);
    StepTrace::Stage& kept = trace_.stages[stage];
    kept.name = model.stage_name(stage);
    for (size_t i = 0; i < ids.size(); ++i) {
      const auto begin = values.begin() + static_cast<ptrdiff_t>(i) * row;
      kept.samples[ids[i]].assign(begin, begin + row);
    }
  }

  void on_gradients(const nn::Model& model, const Tensor& gradients, int64_t begin) override {
    const int64_t end = begin + gradients.elements();
    for (const Parameter* parameter : model.own_parameters()) {
      const int64_t first = model.offset(*parameter);
      const int64_t last = first + storage_elements(parameter->shape(), parameter->layout());
      const int64_t from = std::max(begin, first), to = std::min(end, last);
      if (from >= to) continue;
      const Tensor piece = Tensor::zeros(gradients.device(), {last - first}, {.purpose = MemoryPurpose::workspace});
      piece.window(from - first, {to - from}, Layout::plain)
          .copy_from(gradients.window(from - begin, {to - from}, Layout::plain));
      take(parameter->name(), plain_values(piece.window(0, parameter->shape(), parameter->layout())),
           to - from == last - first);
    }
  }

  /// Everything of the step, once it is done.
  StepTrace take_step() {
    for (auto& [name, values] : pieces_) trace_.gradients[name].push_back(std::move(values));
    pieces_.clear();
    return std::exchange(trace_, {});
  }

 private:
  /// Takes a whole gradient, or a piece of one with zeros for the pieces of other ranks.
  void take(const std::string& name, std::vector<float> values, bool whole) {
    const std::scoped_lock lock(mutex_);
    if (whole) {
      auto& known = trace_.gradients[name];
      if (std::ranges::find(known, values) == known.end()) known.push_back(std::move(values));
      return;
    }
    std::vector<float>& sum = pieces_[name];
    sum.resize(values.size());
    for (size_t i = 0; i < values.size(); ++i) sum[i] += values[i];
  }

  std::mutex mutex_;
  StepTrace trace_;
  std::map<std::string, std::vector<float>> pieces_;
};

std::vector<int64_t> reordered(const std::vector<int64_t>& samples, SampleOrder order) {
  if (order == SampleOrder::reversed) return {samples.rbegin(), samples.rend()};
  std::vector<int64_t> result;
  for (const size_t first : {size_t{1}, size_t{0}})
    for (size_t i = first; i < samples.size(); i += 2) result.push_back(samples[i]);
  return result;
}

void reorder(Batch& batch, const TraceOptions& options, const Experiment& experiment, const Dataset& data,
             Device& device, int64_t epoch) {
  if (options.order == SampleOrder::drawn) return;
  for (MicroBatch& micro : batch.micro_batches)
    micro.parts[0] = load_part(data, reordered(micro.parts[0].sample_ids, options.order), device,
                               {.augmentations = experiment.augmentations, .epoch = epoch});
}

}  // namespace

Trace trace_of(const Experiment& experiment, const Datasets& data, const TraceOptions& options) {
  TraceRecorder recorder;
  parallel::StrategyContext context = strategy_context(experiment, *data.train);
  context.replica.observer = &recorder;
  context.planted = options.planted;
  const auto strategy = experiment.strategy.make(context);
  load_initial_weights(*strategy, experiment, *data.train);
  if (options.nudge_roundings > 0) nudge_weights(*strategy, options.nudge_roundings);
  const std::vector<Device*> devices = strategy->batch_devices();
  BatchLoader loader(data.train, loader_options(experiment, *strategy));
  WholeBatches batches(loader, experiment, *data.train);
  const optim::Schedule schedule = schedule_of(experiment, loader.batches_per_epoch());
  Trace trace;
  for (int64_t step = 1; step <= options.steps; ++step) {
    if (options.stop != nullptr && options.stop->load() != 0) throw TraceStopped();
    const std::shared_ptr<Batch> batch = batches.next();
    reorder(*batch, options, experiment, *data.train, *devices.front(), batches.epoch());
    const parallel::StepNumbers numbers{.step = step, .epoch = batches.epoch(), .learning_rate = schedule.rate(step)};
    strategy->train_step(batch, numbers);
    const std::vector<parallel::Score> scores = strategy->take_scores(true);
    trace.steps.push_back(recorder.take_step());
    trace.steps.back().score = scores.back();
    trace.steps.back().numbers = numbers;
    if (options.unsent && step == 1) trace.steps.back().unsent = parallel::unsent_gradients(strategy->training_state());
  }
  trace.state = strategy->state_dict();
  return trace;
}

}  // namespace dptrain::train
