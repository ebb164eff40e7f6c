#pragma once

#include <memory>
#include <string>
#include <vector>

#include "comm/communicator.h"
#include "nn/named_values.h"
#include "parallel/gradient_buckets.h"
#include "parallel/gradient_compression.h"
#include "parallel/replica.h"

namespace dptrain::parallel {

/// What becomes of the mean of replicas' weights: how far from the last mean it lies is the gradient of a step of SGD
/// with Nesterov's momentum, which all replicas make alike (DiLoCo: Douillard et al., 2023; SlowMo: Wang et al., 2020).
/// By default they become the mean itself.
struct OuterStep {
  double learning_rate = 1;
  double momentum = 0;

  bool is_plain() const { return learning_rate == 1 && momentum == 0; }
};

/// One rank's end of the mean over ranks of what replicas hold when they train by themselves: weights, running
/// statistics and, unless each keeps its own, the optimizer's state; each as many times as it has samples since the
/// last mean. Where weights are compressed, what is sent is how far they have come since the last mean, as a gradient
/// is; all else is sent as it is. Used by the rank's thread; every rank makes the same calls.
class ReplicaMean {
 public:
  struct Options {
    OuterStep outer = {};
    bool averages_state = true;        ///< what the optimizer keeps, too
    CompressionOptions compress = {};  ///< of weights on their way; on one device, where they go nowhere, there is none
    uint64_t seed = 0;                 ///< of PowerSGD's first directions
    bool has_gpus = false;             ///< some rank's device is one
    bool unlike_ranks = false;         ///< ranks are of several kinds, which round an outer step otherwise
  };
  ReplicaMean(Replica& replica, Communicator& communicator, const Options& options);

  /// This replica has made a step by itself, on so many samples of those of all.
  void count_step(int64_t own_samples, int64_t all_samples);
  /// Whether replicas' weights differ: they have trained since they last were their mean.
  bool is_apart() const { return communicator_.size() > 1 && all_samples_ > 0; }
  /// Whether replicas' weights are the same bits, as far as anybody promises them.
  bool is_comparable() const { return !is_apart() && (!compression_ || compression_->is_alike_everywhere()); }
  /// Makes what all replicas hold their mean, without an outer step; compressed, what is sent of it.
  void take();
  /// The same with one.
  void take_outer_step();
  /// What is made the mean for a look at it.
  enum class Shown { evaluated, all };  ///< weights and running statistics, or the optimizer's state, too
  /// What of this differs: makes it on each replica their mean, and the next time what it was before.
  void swap(Shown shown);

  /// On rank 0, as far as replicas differ, what each of them holds: "weights.1.conv1.weight", "exp_avg.1.conv1.weight",
  /// "running.1", all running statistics in one, and "samples.1", those that it counts for; and of outer steps, and
  /// compressed ones, "anchor.conv1.weight", where the last one ended, and "velocity.conv1.weight". Nothing elsewhere.
  /// Replicas aren't swapped.
  std::vector<nn::NamedValues> gather_state();
  /// On rank 0, what compression carries along: GradientCompression::gather_state.
  std::vector<nn::NamedValues> gather_compression_state();
  /// Goes on from there, once replicas have been given their mean. Of another number of ranks they go on from that.
  /// What compression hadn't sent is a part of the weights where it isn't left to later averagings. Throws 65 where a
  /// tensor is missing, or has another shape.
  void load_state(const TrainingState& training);

 private:
  struct Held {
    std::string name;
    Tensor values;
    bool by_parameter = true;  ///< it lies as the weights do
  };
  /// As it is written for a rank, and how that begins.
  std::vector<nn::NamedValues> named(const Held& held, const Tensor& values, int rank) const;
  /// The way back.
  void load(const Held& held, const std::vector<nn::NamedValues>& state, int rank) const;
  /// Of `held_`, what differs.
  struct Range {
    size_t begin = 0;
    size_t end = 0;
  };
  Range apart(Shown shown) const;
  /// The mean of what ranks hold there, times `factor`.
  Tensor mean_of(const Held& held, float factor);
  /// Of this replica in a mean: that of its samples.
  double share() const;
  /// How far the mean lies from the anchor, backwards: the gradient of an outer step. Compressed, in the memory of the
  /// model's gradients.
  Tensor compressed_gradient();
  void take_compressed(const OuterStep& step);
  /// The weights become the anchor, which has made an outer step.
  void end_outer_step();
  /// What becomes the mean beside the weights.
  void take_others();
  /// Kernels are loaded, and steps recorded, while no collective is under way: a GPU may wait for all that it is at
  /// work on to do so, and a collective for another rank of this process that does the same.
  void wait_until_idle();
  /// Replicas are the same from here on.
  void end_averaging();
  /// The weights are where outer steps go from.
  void set_anchor();
  /// What each rank held, where as many ranks have written it.
  void load_replicas(const std::vector<nn::NamedValues>& state);
  /// Gives the weights what compression had left out, where the own doesn't go on with that.
  void take_unsent(const std::vector<nn::NamedValues>& compression);

  Replica& replica_;
  Communicator& communicator_;
  Options options_;
  std::vector<Held> held_;  ///< weights, running statistics where there are some, what the optimizer keeps
  size_t evaluated_ = 1;    ///< of these the first so many
  size_t averaged_ = 1;     ///< and so many become the mean
  Tensor anchor_;    ///< flat, as the weights lie; undefined where outer steps are plain and nothing is compressed
  Tensor velocity_;  ///< the same; undefined without momentum
  std::unique_ptr<GradientCompression> compression_;  ///< null: none
  std::unique_ptr<GradientBuckets> buckets_;          ///< of what is compressed
  std::vector<Tensor> kept_;  ///< while replicas are swapped, what this one has of each, from `kept_from_` on
  size_t kept_from_ = 0;
  bool states_differ_ = false;
  int64_t own_samples_ = 0;  ///< since the last mean
  int64_t all_samples_ = 0;
};

}  // namespace dptrain::parallel
