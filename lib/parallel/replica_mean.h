#pragma once

#include <memory>
#include <string>
#include <vector>

#include "comm/communicator.h"
#include "nn/named_values.h"
#include "parallel/adasum_exchange.h"
#include "parallel/gradient_buckets.h"
#include "parallel/gradient_compression.h"
#include "parallel/replica.h"

namespace dptrain::parallel {

/// How replicas' weights become one again: as their mean, or by adding up with Adasum how far each replica has moved
/// them since the last time (adasum_exchange.h). What is said of the mean of weights then holds for this combination.
enum class Combination { mean, adasum };

/// How the mean of replicas' weights is applied. Its difference from the last mean is the gradient of a step of SGD
/// with Nesterov's momentum, which all replicas make alike (DiLoCo: Douillard et al., 2023; SlowMo: Wang et al., 2020).
/// With the defaults, the weights become the mean itself.
struct OuterStep {
  double learning_rate = 1;
  double momentum = 0;

  bool is_plain() const { return learning_rate == 1 && momentum == 0; }
};

/// One rank's end of averaging replicas that train separately. It averages weights, running statistics and, unless each
/// replica keeps its own, the optimizer's state. Each replica counts as many times as it has samples since the last
/// mean; in a combination of weights by Adasum all count alike.
///
/// If weights are compressed, a rank sends their change since the last mean, as it would send a gradient; everything
/// else is sent uncompressed. Used by the rank's thread; every rank makes the same calls.
class ReplicaMean {
 public:
  struct Options {
    Combination combination = Combination::mean;  ///< of weights; compression needs the mean
    OuterStep outer = {};
    bool averages_state = true;  ///< average the optimizer's state, too
    /// Compression of the weights that are sent. On one device nothing is sent, and nothing is compressed.
    CompressionOptions compress = {};
    uint64_t seed = 0;          ///< for PowerSGD's first directions
    bool has_gpus = false;      ///< some rank's device is a GPU
    bool unlike_ranks = false;  ///< ranks have devices of several kinds, which round an outer step differently
  };
  ReplicaMean(Replica& replica, Communicator& communicator, const Options& options);

  /// Counts a step that this replica made by itself.
  void count_step(int64_t own_samples, int64_t all_samples);
  /// Whether replicas' weights differ because they have trained since the last mean.
  bool is_apart() const { return communicator_.size() > 1 && all_samples_ > 0; }
  /// Whether replicas' weights must be bit-identical now.
  bool is_comparable() const { return !is_apart() && (!compression_ || compression_->is_alike_everywhere()); }
  /// Sets what all replicas hold to their mean, without an outer step. With compression, the mean is that of the values
  /// as sent.
  void take();
  /// Sets what all replicas hold to their mean, with an outer step.
  void take_outer_step();
  /// The values that are averaged for reading: weights and running statistics, or also the optimizer's state.
  enum class Shown { evaluated, all };
  /// On every replica, replaces the values that differ by their mean. The next call restores the replica's own values.
  void swap(Shown shown);

  /// Returns, on rank 0, what each rank holds, if replicas differ: "weights.1.conv1.weight", "exp_avg.1.conv1.weight",
  /// "running.1" (all running statistics in one tensor) and "samples.1" (its samples since the last mean). With outer
  /// steps or compression it also returns "anchor.conv1.weight" (the weights after the last outer step) and
  /// "velocity.conv1.weight". Returns nothing on other ranks. Replicas must not be swapped.
  std::vector<nn::NamedValues> gather_state();
  /// Returns, on rank 0, what compression carries along; see GradientCompression::gather_state.
  std::vector<nn::NamedValues> gather_compression_state();
  /// Continues from `training`, after the replicas have been set to their mean. If the number of ranks has changed,
  /// they continue from that mean. Values that compression hadn't sent are added to the weights, unless they are kept
  /// for later averagings. Throws an error with exit code 65 if a tensor is missing or has another shape.
  void load_state(const TrainingState& training);

 private:
  struct Held {
    std::string name;
    Tensor values;
    bool by_parameter = true;  ///< a flat buffer in the order of the weights
  };
  /// A rank's values with the names that a checkpoint has.
  std::vector<nn::NamedValues> named(const Held& held, const Tensor& values, int rank) const;
  /// Loads what `named` returned for a rank.
  void load(const Held& held, const std::vector<nn::NamedValues>& state, int rank) const;
  /// The range of `held_` that differs between replicas.
  struct Range {
    size_t begin = 0;
    size_t end = 0;
  };
  Range apart(Shown shown) const;
  /// The mean over ranks of what they hold, times `factor`.
  Tensor mean_of(const Held& held, float factor);
  /// This replica's share in a mean, by its samples.
  double share() const;
  /// The anchor minus this replica's weights.
  Tensor way_to_anchor() const;
  /// The gradient of an outer step with compression: the anchor minus the mean. It is in the memory of the model's
  /// gradients.
  Tensor compressed_gradient();
  /// The gradient of an outer step with Adasum.
  Tensor adasum_gradient();
  /// Makes an outer step from the anchor, with compression or Adasum.
  void take_from_anchor(const OuterStep& step);
  /// What the weights, or another of the held values, would be after an averaging without an outer step.
  Tensor preview_of(const Held& held);
  /// Ends an outer step that the anchor has made: the weights become the anchor.
  void end_outer_step();
  /// Averages everything except the weights.
  void take_others();
  /// Waits until no work is under way on any device. A GPU may wait for all of its work to load kernels or record
  /// steps. If a collective were under way then, two ranks of this process could wait for each other.
  void wait_until_idle();
  /// Ends an averaging, after which the replicas are the same.
  void end_averaging();
  /// Makes the current weights the start of the next outer step.
  void set_anchor();
  /// Loads what each rank held, if the state is of as many ranks.
  void load_replicas(const std::vector<nn::NamedValues>& state);
  /// Adds what compression had left out to the weights, unless this rank's compression carries it on.
  void take_unsent(const std::vector<nn::NamedValues>& compression);

  Replica& replica_;
  Communicator& communicator_;
  Options options_;
  std::vector<Held> held_;  ///< weights, running statistics if there are any, then the optimizer's state
  size_t evaluated_ = 1;    ///< how many of the first entries of `held_` evaluations use
  size_t averaged_ = 1;     ///< how many of the first entries of `held_` are averaged
  /// Flat, in the order of the weights; undefined if the mean of uncompressed weights is taken as it is.
  Tensor anchor_;
  Tensor velocity_;                                   ///< like `anchor_`; undefined without momentum
  std::unique_ptr<AdasumExchange> adasum_;            ///< null: weights are averaged
  std::unique_ptr<GradientCompression> compression_;  ///< null: none
  std::unique_ptr<GradientBuckets> buckets_;          ///< buckets of what is compressed
  /// While replicas are swapped: this rank's own values, from `held_[kept_from_]` on.
  std::vector<Tensor> kept_;
  size_t kept_from_ = 0;
  bool states_differ_ = false;
  int64_t own_samples_ = 0;  ///< since the last mean
  int64_t all_samples_ = 0;
};

}  // namespace dptrain::parallel
