#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "comm/communicator.h"
#include "nn/named_values.h"
#include "parallel/bucket_sum.h"
#include "parallel/compression_options.h"
#include "parallel/gradient_buckets.h"
#include "parallel/training_state.h"

namespace dptrain::parallel {

/// What begins the names of what ranks haven't sent, in a training's state.
inline constexpr const char* kResidual = "residual";

/// By parameter, what all ranks of a saved training together haven't sent, in the units that gradients have under
/// fp16's loss scale; empty where nothing is kept.
std::map<std::string, std::vector<float>> unsent_gradients(const TrainingState& state);

/// One rank's end of sums of compressed gradients, or of what lies in their memory: makes those of its buckets, and has
/// what methods carry from sum to sum, which is part of the training's state.
class GradientCompression {
 public:
  struct Context {
    nn::Model& model;
    Communicator& communicator;
    Tensor loss_factor;  ///< f32 [1], what losses are multiplied by; undefined for 1
    uint64_t seed = 0;   ///< of PowerSGD's first directions
    /// What is left out is called in the state: what is summed has another size than gradients where it isn't them.
    std::string residual_name = kResidual;
  };
  GradientCompression(const Context& context, const CompressionOptions& options);

  /// `priority`: of its all-reduces; PowerSGD's and two_bit's small exchanges go by no priority.
  std::unique_ptr<BucketSum> sum_of(const Bucket& bucket, int priority) const;

  /// Whether its sums may be recorded with the device's work, as Communicator has it.
  bool can_be_recorded() const;

  /// Whether sums are the same bits on all ranks. PowerSGD multiplies its factors on each, and cuBLAS promises the same
  /// bits on GPUs of one model alone.
  bool is_alike_everywhere() const;

  /// What this rank hasn't sent, flat, as the model's gradients lie; undefined where the method keeps nothing.
  const Tensor& residual() const { return residual_; }

  /// On rank 0, of all ranks: "residual.1.conv1.weight", what rank 1 hasn't sent; "direction.conv1.weight", [R, I].
  /// Nothing elsewhere. Every rank calls it.
  std::vector<nn::NamedValues> gather_state();
  /// Goes on from there. Where as many ranks have kept it, each gets its own residual back; else all residuals are
  /// added up on rank 0, so that nothing is lost. Directions of another PowerSGD rank than this one's are left out.
  void load_state(const std::vector<nn::NamedValues>& state);

 private:
  std::unique_ptr<BucketSum> two_bit_sum(const Bucket& bucket) const;
  std::unique_ptr<BucketSum> power_sgd_sum(const Bucket& bucket) const;
  /// "residual.1.", what begins the names of a rank's residual.
  std::string residual_prefix(int rank) const;
  /// A parameter's part of a flat tensor.
  Tensor part(const Tensor& flat, const Parameter& parameter) const;
  void load_residuals(const std::vector<nn::NamedValues>& state);

  Context context_;
  CompressionOptions options_;
  Tensor residual_;
  std::vector<Tensor> directions_;  ///< by parameter; undefined for those that aren't factored
};

}  // namespace dptrain::parallel
