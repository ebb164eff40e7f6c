#pragma once

#include <compare>
#include <cstdint>
#include <set>
#include <span>
#include <string_view>
#include <vector>

namespace dptrain::parallel {

/// The order in which the devices of a pipeline work on the micro-batches of a step.
enum class PipelineSchedule {
  gpipe,                 ///< all forward, then all backward (Huang et al., "GPipe", 2019)
  one_forward_one_back,  ///< one backward for each forward, as soon as there is a gradient (Narayanan et al., 2019)
  /// ZB-H1 (Qi et al., "Zero Bubble Pipeline Parallelism", 2023): as one_forward_one_back, but the gradients of weights
  /// have passes of their own. No other stage waits for these passes, so they come after work that other stages do wait
  /// for. The first stage works as in one_forward_one_back, because nobody waits for its gradients.
  zero_bubble,
  /// One backward for each forward, with several stages per device (Narayanan et al., "Efficient Large-Scale Language
  /// Model Training on GPU Clusters Using Megatron-LM", 2021). With V stages per device, a micro-batch goes around the
  /// devices V times. Each stage then takes a V-th of the time, and so does the wait of the next device.
  interleaved
};
inline constexpr PipelineSchedule kPipelineSchedules[] = {PipelineSchedule::one_forward_one_back,
                                                          PipelineSchedule::zero_bubble, PipelineSchedule::interleaved,
                                                          PipelineSchedule::gpipe};

/// The default number of stages per device of `interleaved`.
inline constexpr int kInterleavedStages = 2;

/// The name in the configuration: "gpipe", "1f1b", "zero_bubble" or "interleaved".
std::string_view schedule_name(PipelineSchedule schedule);

/// One pass that a device does.
struct StageAction {
  enum class Kind {
    forward,
    backward,          ///< the gradients of values and weights
    backward_data,     ///< of values, and of those weights that have no separate pass
    backward_weights,  ///< of the weights that have a separate pass
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
  int stages_per_device = 1;  ///< more than 1 only with `interleaved`
  int64_t micro_batches = 2;
  /// For gpipe: micro-batches of one accumulation, which go forward and back before the next accumulation begins. 0:
  /// all.
  int64_t flush = 0;

  int devices() const { return stages / stages_per_device; }
  /// The device of a stage, and the stages of a device in order. Stages are dealt to the devices in turn.
  int device_of(int stage) const { return stage % devices(); }
  std::vector<int> stages_on(int device) const;
};

/// The actions of device `device` (from 0) in a step, in order. Passes of each kind take a stage's micro-batches in the
/// order 0, 1, 2, and so on. Gradients are therefore added in the same order in every schedule.
std::vector<StageAction> actions_of(const PipelineStep& step, int device);

/// The numbers of micro-batches whose values a stage holds at one moment of a step.
struct HeldMicroBatches {
  int64_t whole = 0;    ///< forward is done, but no backward pass
  int64_t weights = 0;  ///< backward_data is done, but not backward_weights

  auto operator<=>(const HeldMicroBatches&) const = default;
};

/// All distinct states of a stage during a step. `actions`: those of its device.
std::set<HeldMicroBatches> held_in(std::span<const StageAction> actions, int stage);

/// Seconds of one micro-batch on a stage.
struct StageSeconds {
  double forward = 0;
  double backward = 0;          ///< without backward_weights
  double backward_weights = 0;  ///< of the weights that have a separate pass
};

/// Seconds until the last device is done with a step. A micro-batch takes the given times on each stage, and messages
/// take no time.
double step_seconds(const PipelineStep& step, std::span<const StageSeconds> stages);

/// The share of the devices' time in a step that they wait; 0 if nothing takes time. For S devices with equal stages
/// and M micro-batches:
///   gpipe, one_forward_one_back  (S - 1) / (M + S - 1); for gpipe with `flush` 0
///   zero_bubble                  (S - 1) / (3 M + S - 1), if M >= S and its three passes take equal time
///   interleaved                  (S - 1) / (V M + S - 1), with V stages per device and M a multiple of S
double predicted_bubble(const PipelineStep& step, std::span<const StageSeconds> stages);

}  // namespace dptrain::parallel
