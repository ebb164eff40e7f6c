#pragma once

#include <compare>
#include <cstdint>
#include <set>
#include <span>
#include <string_view>
#include <vector>

namespace dptrain::parallel {

/// In which order the devices of a pipeline work on the micro-batches of a step.
enum class PipelineSchedule {
  gpipe,                 ///< all forward, then all backward (Huang et al., "GPipe", 2019)
  one_forward_one_back,  ///< as early as there is a gradient, one back for each forward (Narayanan et al., 2019)
  /// That, with the gradients of weights, which no other stage waits for, in passes of their own, behind what others do
  /// wait for: ZB-H1 (Qi et al., "Zero Bubble Pipeline Parallelism", 2023). The first stage, whose gradients nobody
  /// waits for, does as before.
  zero_bubble,
  /// One back for each forward, of several stages a device: a micro-batch goes around the devices as often as a device
  /// has stages, which are as many times shorter, and so is what the next device waits for (Narayanan et al.,
  /// "Efficient Large-Scale Language Model Training on GPU Clusters Using Megatron-LM", 2021).
  interleaved
};
inline constexpr PipelineSchedule kPipelineSchedules[] = {PipelineSchedule::one_forward_one_back,
                                                          PipelineSchedule::zero_bubble, PipelineSchedule::interleaved,
                                                          PipelineSchedule::gpipe};

/// Stages a device of `interleaved`, where nothing else is said.
inline constexpr int kInterleavedStages = 2;

/// "gpipe", "1f1b", "zero_bubble" or "interleaved", as the configuration names it.
std::string_view schedule_name(PipelineSchedule schedule);

/// What a device does next.
struct StageAction {
  enum class Kind {
    forward,
    backward,          ///< the gradients of values and weights
    backward_data,     ///< of values, and of such weights as take no pass of their own
    backward_weights,  ///< of the others
  };
  Kind kind = Kind::forward;
  int64_t micro_batch = 0;
  int stage = 0;  ///< of the pipeline

  bool operator==(const StageAction&) const = default;
};

/// A step of a pipeline.
struct PipelineStep {
  PipelineSchedule schedule = PipelineSchedule::one_forward_one_back;
  int stages = 2;
  int stages_per_device = 1;  ///< more than one under `interleaved` alone
  int64_t micro_batches = 2;
  /// How many micro-batches go through gpipe's forward passes before they go back: those of one accumulation. 0: all.
  int64_t flush = 0;

  int devices() const { return stages / stages_per_device; }
  /// Where a stage lies, and what lies on a device, in order: stages are dealt out all around.
  int device_of(int stage) const { return stage % devices(); }
  std::vector<int> stages_on(int device) const;
};

/// What device `device` (from 0) does in a step, in order. Passes of each kind take a stage's micro-batches by number,
/// 0, 1, 2..., so that gradients are added in one order whatever the schedule.
std::vector<StageAction> actions_of(const PipelineStep& step, int device);

/// Micro-batches that a stage keeps something of at a moment of a step.
struct HeldMicroBatches {
  int64_t whole = 0;    ///< whose forward pass is done, and no backward pass
  int64_t weights = 0;  ///< whose backward_data is done, and backward_weights isn't

  auto operator<=>(const HeldMicroBatches&) const = default;
};

/// All that there is of a stage in a step, each once. `actions`: its device's.
std::set<HeldMicroBatches> held_in(std::span<const StageAction> actions, int stage);

/// Seconds of one micro-batch on a stage.
struct StageSeconds {
  double forward = 0;
  double backward = 0;          ///< without what is below
  double backward_weights = 0;  ///< of those weights that take a pass of their own
};

/// Until the last device is done with a step, where a micro-batch takes so long on each of the stages and messages take
/// no time.
double step_seconds(const PipelineStep& step, std::span<const StageSeconds> stages);

/// The share of the devices' time in a step that they wait, of such stages: (S - 1) / (M + S - 1) for S devices with
/// equal stages and M micro-batches; by `zero_bubble`, of as many micro-batches as stages or more, whose three passes
/// take the same time, (S - 1) / (3 M + S - 1); by `interleaved` with V stages a device and a multiple of S
/// micro-batches (S - 1) / (V M + S - 1). 0 where nothing takes time.
double predicted_bubble(const PipelineStep& step, std::span<const StageSeconds> stages);

}  // namespace dptrain::parallel
