#pragma once

#include <string>
#include <vector>

#include "comm/communicator.h"
#include "nn/named_values.h"
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

/// One rank's end of the mean over ranks of what replicas hold when they train by themselves: weights, the optimizer's
/// state, running statistics. Used by the rank's thread; every rank makes the same calls.
class ReplicaMean {
 public:
  ReplicaMean(Replica& replica, Communicator& communicator, const OuterStep& outer = {});

  /// Whether replicas differ: they have trained since they last were their mean.
  bool is_apart() const { return is_apart_; }
  /// This replica has made a step by itself.
  void fall_apart() { is_apart_ = communicator_.size() > 1; }
  /// Makes what all replicas hold their mean, without an outer step.
  void take();
  /// The same with one.
  void take_outer_step();
  /// Where replicas differ: makes each of them their mean, to be looked at, and the next time what it was before.
  void swap();

  /// On rank 0, where replicas differ, what each of them holds: "weights.1.conv1.weight", "exp_avg.1.conv1.weight",
  /// "running.1", all running statistics in one; and of outer steps "anchor.conv1.weight", where the last one ended,
  /// and "velocity.conv1.weight". Nothing elsewhere. Replicas aren't swapped.
  std::vector<nn::NamedValues> gather_state();
  /// Goes on from there, once replicas have been given their mean. Of another number of ranks they go on from that.
  void load_state(const std::vector<nn::NamedValues>& state);

 private:
  struct Held {
    std::string name;
    Tensor values;
    bool by_parameter = true;  ///< it lies as the weights do
  };
  std::vector<nn::NamedValues> named(const Held& held, const Tensor& values, int rank) const;
  /// The mean of what ranks hold there, times `factor`.
  Tensor mean_of(const Held& held, float factor);
  /// Replicas are the same from here on.
  void end_averaging();
  /// Where the last outer step, or mean, ended.
  void set_anchor();

  Replica& replica_;
  Communicator& communicator_;
  OuterStep outer_;
  std::vector<Held> held_;    ///< weights first
  Tensor anchor_;             ///< flat, as the weights lie; undefined where outer steps are plain
  Tensor velocity_;           ///< the same; undefined without momentum
  std::vector<Tensor> kept_;  ///< while replicas are swapped, what this one has of each of them
  bool is_apart_ = false;
  bool has_met_ = false;
};

}  // namespace dptrain::parallel
