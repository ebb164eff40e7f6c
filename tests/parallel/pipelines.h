#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "models/layer_list.h"
#include "models/layered_net.h"
#include "models/layers_of.h"
#include "parallel/digits.h"
#include "parallel/pipeline_schedules.h"
#include "parallel/trained_state.h"

namespace dptrain::parallel {

/// Batches of 26 samples, and a last one of 7. Four micro-batches don't all have the same size, and of eight the last
/// batch leaves one out.
inline constexpr int64_t kBatch = 26, kSamples = 3 * kBatch + 7, kSteps = 4;

/// The state and losses after some steps.
inline Trained trained(Strategy& strategy, int64_t micro_batches, int64_t steps = kSteps) {
  auto losses = train(strategy, digits(kSamples, 10), steps, kBatch, 0.05, micro_batches);
  return {strategy.state_dict(), std::move(losses)};
}

/// A pipeline of these stages, without replicas.
inline StrategyOptions pipeline(const std::vector<std::string>& stages, PipelineSchedule schedule,
                                int64_t micro_batches) {
  return {.name = "model_parallel",
          .devices = static_cast<int>(stages.size()),
          .sgd = {.momentum = 0.9},
          .pipeline = {.cut = {.entries = stages}, .schedule = schedule, .micro_batches = micro_batches}};
}

/// The same pipeline with `stages_per_device` stages per device, interleaved.
inline StrategyOptions interleaved(const std::vector<std::string>& stages, int stages_per_device,
                                   int64_t micro_batches) {
  StrategyOptions options = pipeline(stages, kInterleaved, micro_batches);
  options.devices /= stages_per_device;
  options.pipeline.stages_per_device = stages_per_device;
  return options;
}

/// `replicas` replicas of a pipeline.
inline StrategyOptions of_replicas(StrategyOptions options, int replicas) {
  options.name = "hybrid";
  options.devices *= replicas;
  options.pipeline.replicas = replicas;
  return options;
}

/// A net of layers, written as in a configuration.
inline models::ModelSpec net_of_layers(const std::string& written) {
  return {.name = "layers",
          .build = [layers = models::layers_of(written)](const nn::LayerOptions& of, const models::ModelInput& in) {
            return models::build_layered_net(layers, of, in);
          }};
}

/// A strategy over a net of such layers.
inline std::unique_ptr<Strategy> of_layers(const std::string& written, StrategyOptions options) {
  options.net = net_of_layers(written);
  return make_strategy(options);
}

/// A small net with batch norms, residuals, dropout, and layers without parameters on both sides of the cuts.
inline std::unique_ptr<Strategy> residual_net(const StrategyOptions& options) {
  return of_layers(
      "[avg_pool: 2, conv: {channels: 16, kernel: 3, padding: 1}, batch_norm, relu, "
      "residual: {layers: [conv: {channels: 16, kernel: 3, padding: 1}, batch_norm, relu, "
      "conv: {channels: 16, kernel: 3, padding: 1}, batch_norm]}, relu, max_pool: 2, "
      "conv: {channels: 32, kernel: 3, stride: 2}, relu, dropout: 0.3, flatten, linear: 24, tanh, "
      "linear: {features: 24, bias: false}, batch_norm: {momentum: 0.2}, silu, linear: classes]",
      options);
}

inline const StrategyOptions kSingle = {.name = "single", .devices = 1, .sgd = {.momentum = 0.9}};

}  // namespace dptrain::parallel
