#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "nn/layers.h"
#include "ops/reorder.h"
#include "parallel/gradient_compression.h"
#include "parallel/rank_team.h"
#include "support/formula_values.h"

namespace dptrain::parallel {

/// Ranks that do nothing but exchange gradients, bucket by bucket; the test makes the gradients up. The model's
/// convolution has a padded weight in blocks of channels. Two of the model's weights are large enough for low-rank
/// factors.
class CompressedRanks {
 public:
  using Values = std::vector<nn::NamedValues>;
  /// The gradient of a parameter on a rank, in plain order.
  using Gradients = std::function<std::vector<float>(int rank, const Parameter& parameter)>;

  CompressedRanks(const CompressionOptions& options, int ranks, const BucketOptions& buckets = {.bucket_mb = 0.01})
      : team_(team_options(ranks)), ends_(static_cast<size_t>(ranks)) {
    team_.run("start", [&](int rank) {
      End& end = ends_[static_cast<size_t>(rank)];
      end.model = std::make_unique<nn::Model>();
      const nn::LayerOptions layers{.device = team_.device(rank)};
      end.model->add_stage(std::make_unique<nn::Conv2d>(layers, nn::Conv2dSizes{.in_channels = 24, .out_channels = 40}),
                           "conv.");
      end.model->add_stage(std::make_unique<nn::Linear>(64, 48), "fc1.");
      end.model->add_stage(std::make_unique<nn::Linear>(48, 7), "fc2.");
      end.model->place(team_.device(rank), {});
      end.compression = std::make_unique<GradientCompression>(
          GradientCompression::Context{
              .model = *end.model, .communicator = team_.communicator(rank), .loss_factor = {}, .seed = 3},
          options);
      end.buckets = std::make_unique<GradientBuckets>(*end.model, buckets, [&](const Bucket& bucket, int priority) {
        return end.compression->sum_of(bucket, priority);
      });
    });
  }

  int size() const { return static_cast<int>(ends_.size()); }
  const nn::Model& model() const { return *ends_[0].model; }
  int buckets() const { return ends_[0].buckets->count(); }

  /// Runs one step's exchange. Returns every rank's gradients after it, in memory order.
  std::vector<std::vector<float>> exchange(const Gradients& gradients) {
    std::vector<std::vector<float>> after(ends_.size());
    team_.run("step", [&](int rank) {
      End& end = ends_[static_cast<size_t>(rank)];
      for (const Parameter* parameter : end.model->parameters())
        ops::reorder_into(Tensor::from(team_.device(rank), parameter->shape(), gradients(rank, *parameter)),
                          parameter->gradient());
      end.buckets->begin_step();
      for (auto at = end.model->parameters().rbegin(); at != end.model->parameters().rend(); ++at)
        end.buckets->gradient_ready(**at);
      end.buckets->finish();
      after[static_cast<size_t>(rank)] = end.model->gradients().values();
    });
    return after;
  }
  /// The residual that a rank keeps, laid out as gradients are in memory; zeros where the method keeps none.
  std::vector<float> residual(int rank) const {
    const Tensor& kept = ends_[static_cast<size_t>(rank)].compression->residual();
    return kept.defined() ? kept.values() : std::vector<float>(static_cast<size_t>(model().gradients().elements()));
  }
  /// The values of all parameters, laid out as gradients are in memory.
  std::vector<float> laid_out(const std::function<std::vector<float>(const Parameter&)>& values) {
    std::vector<float> result;
    team_.run("layout", [&](int rank) {
      if (rank != 0) return;
      const Tensor flat = Tensor::zeros(team_.device(0), model().gradients().shape());
      for (const Parameter* parameter : model().parameters())
        ops::reorder_into(Tensor::from(team_.device(0), parameter->shape(), values(*parameter)),
                          flat.window(model().offset(*parameter), parameter->shape(), parameter->layout()));
      result = flat.values();
    });
    return result;
  }
  int64_t sent_bytes() {
    int64_t bytes = 0;
    for (int rank = 0; rank < size(); ++rank) bytes += team_.communicator(rank).counts().bytes;
    return bytes;
  }
  Values state() {
    Values state;
    team_.run("state", [&](int rank) {
      Values gathered = ends_[static_cast<size_t>(rank)].compression->gather_state();
      if (rank == 0) state = std::move(gathered);
    });
    return state;
  }
  void load(const Values& state) {
    team_.run("restore", [&](int rank) { ends_[static_cast<size_t>(rank)].compression->load_state(state); });
  }

 private:
  struct End {
    std::unique_ptr<nn::Model> model;
    std::unique_ptr<GradientCompression> compression;
    std::unique_ptr<GradientBuckets> buckets;
  };
  static RankTeam::Options team_options(int ranks) {
    RankTeam::Options options{.devices = {}, .threads = std::vector<int>(static_cast<size_t>(ranks), 1)};
    for (int rank = 0; rank < ranks; ++rank) options.devices.push_back({DeviceKind::cpu, rank});
    return options;
  }

  RankTeam team_;
  std::vector<End> ends_;
};

}  // namespace dptrain::parallel
