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
  /// Size of a bucket in MiB; 0: automatic. Automatic buckets have at most 25 MiB. The last one has at most a tenth of
  /// all gradients, since nothing hides its reduction.
  double bucket_mb = 0;
  /// Size of the first bucket in MiB; a small one lets reducing begin early.
  double first_bucket_mb = 1;
  /// If true, a bucket is reduced as soon as it is complete, while backward goes on. If false, all are reduced at the
  /// end.
  bool overlap = true;
  /// Sums go on during the next step's forward pass, first those of the first layers' buckets; see DeferredUpdate.
  /// Automatic buckets then have a sixteenth of all gradients.
  bool defer_updates = false;
  bool leave_out_last = false;  ///< see PlantedFault::bucket_left_out
};

/// Parameters whose gradients are reduced together.
using Bucket = nn::ParameterRun;

/// Cuts a model's parameters into buckets, from the last parameter to the first: the order in which backward completes
/// them.
std::vector<Bucket> plan_buckets(const nn::Model& model, const BucketOptions& options);

/// Sums gradients over all ranks, bucket by bucket, while backward still runs. One for each rank; used by its thread.
class GradientBuckets {
 public:
  /// Makes the sum of a bucket. `priority`: priority of its collectives.
  using MakeSum = std::function<std::unique_ptr<BucketSum>(const Bucket&, int priority)>;

  /// `owners`: the rank on which each range is summed; the ranges cover all gradients, in order. If empty, every rank
  /// gets all sums.
  GradientBuckets(nn::Model& model, Communicator& communicator, const BucketOptions& options,
                  const std::vector<OwnedRange>& owners = {});
  /// Uses the sums that `make` returns.
  GradientBuckets(const nn::Model& model, const BucketOptions& options, const MakeSum& make);

  /// Called before backward.
  void begin_step();
  /// Called when a parameter's gradient is complete. Buckets are started in their planned order, whatever the order of
  /// the parameters, so that all ranks start the same buckets.
  void gradient_ready(const Parameter& parameter);
  /// Called after backward: blocks until every gradient that this rank gets is the sum over all ranks.
  void finish();
  // In place of `finish`, bucket by bucket:
  /// Called after backward: starts all sums that haven't been started.
  void start_all();
  /// Blocks as `finish` does, for one bucket. All ranks finish the buckets in the same order.
  void finish(int bucket) { sums_[static_cast<size_t>(bucket)]->finish(); }

  int count() const { return static_cast<int>(buckets_.size()); }
  const Bucket& bucket(int number) const { return buckets_[static_cast<size_t>(number)]; }
  int bucket_of(const Parameter& parameter) const {
    return bucket_of_parameter_[static_cast<size_t>(parameter.index())];
  }
  // In place of begin_step, gradient_ready and finish, if all gradients are complete:
  /// Sums all buckets at once.
  void reduce_all();
  /// Sums one bucket after the other, and calls `between` after each part of an exchange.
  void finish_apart(const std::function<void()>& between);

 private:
  void start_complete_buckets();

  bool overlap_;
  std::vector<Bucket> buckets_;
  std::vector<int> bucket_of_parameter_;
  std::vector<int> missing_;  ///< by bucket: number of parameters whose gradients aren't complete yet
  size_t next_ = 0;           ///< the first bucket that hasn't been started
  std::vector<std::unique_ptr<BucketSum>> sums_;  ///< by bucket
};

}  // namespace dptrain::parallel
