#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "comm/communicator.h"
#include "nn/model.h"
#include "parallel/bucket_sum.h"
#include "parallel/owned_range.h"

namespace dptrain::parallel {

struct BucketOptions {
  /// Of a bucket; 0 means automatic: 25 MiB at most, and the last bucket, whose reduction nothing hides, at most a
  /// tenth of all.
  double bucket_mb = 0;
  /// Of the first bucket, so that reducing begins early.
  double first_bucket_mb = 1;
  /// Start reducing as soon as a bucket is complete, while backward goes on; otherwise all at the end.
  bool overlap = true;
  /// Sums go on under the next step's forward pass, those of the first layers' buckets before others; see
  /// DeferredUpdate. Automatic buckets are a sixteenth of all then.
  bool defer_updates = false;
  bool leave_out_last = false;  ///< PlantedFault::bucket_left_out
};

/// Parameters whose gradients are reduced together.
using Bucket = nn::ParameterRun;

/// Cuts a model's parameters into buckets, in the order in which backward completes them: from the last parameter to
/// the first.
std::vector<Bucket> plan_buckets(const nn::Model& model, const BucketOptions& options);

/// Sums gradients over all ranks, bucket by bucket, while backward still runs. One for each rank; used by its thread.
class GradientBuckets {
 public:
  /// Makes a bucket's sum; `priority`: of its collectives.
  using MakeSum = std::function<std::unique_ptr<BucketSum>(const Bucket&, int priority)>;

  /// `owners`: where each range is to be summed, all of the gradients in order; by default everywhere.
  GradientBuckets(nn::Model& model, Communicator& communicator, const BucketOptions& options,
                  const std::vector<OwnedRange>& owners = {});
  /// With sums of another kind.
  GradientBuckets(const nn::Model& model, const BucketOptions& options, const MakeSum& make);

  /// Before backward.
  void begin_step();
  /// A parameter's gradient is complete. Buckets are started in their planned order whatever the order of parameters,
  /// so that all ranks start the same ones.
  void gradient_ready(const Parameter& parameter);
  /// After backward: blocks until every gradient that this rank gets is the sum over all ranks.
  void finish();
  // Or bucket by bucket:
  /// After backward: all sums are under way.
  void start_all();
  /// The same as `finish`, of one bucket. All ranks finish them in one order.
  void finish(int bucket) { sums_[static_cast<size_t>(bucket)]->finish(); }

  int count() const { return static_cast<int>(buckets_.size()); }
  const Bucket& bucket(int number) const { return buckets_[static_cast<size_t>(number)]; }
  int bucket_of(const Parameter& parameter) const {
    return bucket_of_parameter_[static_cast<size_t>(parameter.index())];
  }
  // In place of begin_step, gradient_ready and finish, of gradients that are all there:
  /// Sums all buckets at once.
  void reduce_all();
  /// Sums one bucket after the other, and calls `between` after each part of an exchange.
  void finish_apart(const std::function<void()>& between);

 private:
  void start_complete_buckets();

  bool overlap_;
  std::vector<Bucket> buckets_;
  std::vector<int> bucket_of_parameter_;
  std::vector<int> missing_;                      ///< by bucket: parameters whose gradients are not complete yet
  size_t next_ = 0;                               ///< the first bucket not started
  std::vector<std::unique_ptr<BucketSum>> sums_;  ///< by bucket
};

}  // namespace dptrain::parallel
