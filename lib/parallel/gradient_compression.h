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

/// Prefix, in the training state, of the names of values that ranks haven't sent.
inline constexpr const char* kResidual = "residual";

/// Returns, by parameter, the sum over all ranks of the gradients that a saved run hasn't sent. Their units are those
/// of gradients under fp16's loss scale. Empty if the run keeps nothing back.
std::map<std::string, std::vector<float>> unsent_gradients(const TrainingState& state);

/// One rank's end of compressed sums: of gradients, or of other values in the gradients' memory. It makes the sums of
/// its buckets. It also holds what a method carries from one sum to the next, which is part of the training state.
class GradientCompression {
 public:
  struct Context {
    nn::Model& model;
    Communicator& communicator;
    Tensor loss_factor;  ///< f32 [1], factor that losses are multiplied by; undefined for 1
    uint64_t seed = 0;   ///< seed of PowerSGD's first directions
    /// Name of the residual in the training state. Values other than gradients have another scale, so their residual
    /// has another name.
    std::string residual_name = kResidual;
  };
  GradientCompression(const Context& context, const CompressionOptions& options);

  /// `priority`: priority of the all-reduces. The small exchanges of PowerSGD and two_bit have no priority.
  std::unique_ptr<BucketSum> sum_of(const Bucket& bucket, int priority) const;

  /// Whether the sums may be recorded with the device's work; see Communicator::can_be_recorded.
  bool can_be_recorded() const;

  /// Whether sums are bit-identical on all ranks. With PowerSGD every rank multiplies its factors itself, and cuBLAS
  /// promises bit-identical products only on GPUs of one model.
  bool is_alike_everywhere() const;

  /// What this rank hasn't sent, flat, in the layout of the model's gradients. Undefined if the method keeps nothing.
  const Tensor& residual() const { return residual_; }

  /// On rank 0, returns the state of all ranks: "residual.1.conv1.weight", what rank 1 hasn't sent, and
  /// "direction.conv1.weight", [R, I]. Returns nothing on other ranks. Every rank calls it.
  std::vector<nn::NamedValues> gather_state();
  /// Takes up a saved state. If it was saved by as many ranks, each rank gets its own residual back. If not, rank 0
  /// gets the sum of all residuals, so that nothing is lost. Directions of another PowerSGD rank are ignored.
  void load_state(const std::vector<nn::NamedValues>& state);

 private:
  std::unique_ptr<BucketSum> two_bit_sum(const Bucket& bucket) const;
  std::unique_ptr<BucketSum> power_sgd_sum(const Bucket& bucket) const;
  /// The prefix of the names of a rank's residual: "residual.1.".
  std::string residual_prefix(int rank) const;
  /// A parameter's part of a flat tensor.
  Tensor part(const Tensor& flat, const Parameter& parameter) const;
  void load_residuals(const std::vector<nn::NamedValues>& state);

  Context context_;
  CompressionOptions options_;
  Tensor residual_;
  std::vector<Tensor> directions_;  ///< by parameter; undefined for a parameter that isn't factored
};

}  // namespace dptrain::parallel
