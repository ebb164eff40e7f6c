#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "comm/communicator.h"
#include "nn/named_values.h"
#include "optim/loss_scale.h"
#include "optim/optimizer.h"
#include "optim/parameter_norms.h"
#include "parallel/dealt_out_values.h"
#include "parallel/owned_range.h"
#include "parallel/phase_clock.h"
#include "parallel/step_observer.h"

namespace dptrain::parallel {

/// One rank's end of an update that is dealt out: each range of the flat buffers has an owner, which alone has
/// optimizer state for it, updates it from its summed gradients, and gives the new weights to all. Every rank has an
/// end over the same ranges and calls it alike; together they end in the bits of one optimizer over the whole.
class OwnedUpdates {
 public:
  /// The rank's own ranges where it has no more of the model's flat buffers: one behind the other, each from `begins`
  /// on, in the order of ranges. What stands between two of them is 0.
  struct OwnBuffers {
    optim::FlatWeights flat;
    std::vector<int64_t> begins;
  };
  struct Options {
    std::vector<OwnedRange> ranges;      ///< all elements in order, cut at multiples of 16
    std::optional<OwnBuffers> own = {};  ///< by default windows of the model's flat buffers
    optim::OptimizerSpec optimizer;
    std::optional<double> clip_norm = {};  ///< of all gradients together
    StepObserver* observer = nullptr;
  };
  /// Makes the state of the rank's own ranges. `clock`: told of optimizer and communication.
  OwnedUpdates(nn::Model& model, Communicator& communicator, PhaseClock& clock, const Options& options);

  const std::vector<OwnedRange>& ranges() const { return values_.ranges(); }

  /// Updates the rank's own ranges from their summed gradients. What depends on gradients or weights of others, whether
  /// any gradient overflows in fp16, how long all are together, and the norms of parameters that lie in ranges of
  /// several owners, the ranks tell each other before. `loss_scale`: null where there is none.
  void update(optim::OptimizerStep step, optim::LossScale* loss_scale);
  /// Blocks until this rank has the owner's weights of a range. Copies in half precision are the caller's.
  void share(const OwnedRange& range);
  /// The same of all ranges.
  void share_all();

  /// The optimizer's state of all ranks by parameter, as a replica that has all of it names it: on rank 0, nothing
  /// elsewhere. Every rank calls it.
  std::vector<nn::NamedValues> gather_state();
  /// Takes this rank's part of such a state.
  void load_state(const std::vector<nn::NamedValues>& state);
  // Of values that lie as the rank's own buffers do, where it has such, a parameter's; as nn::state_dict reads and
  // nn::load_state_dict writes them. Every rank calls it alike.
  nn::ReadParameter read_from(const Tensor& own) const;
  nn::WriteParameter write_to(const Tensor& own) const;
  /// Bytes of optimizer state and weights of every rank's own ranges.
  std::vector<int64_t> held_bytes() const;

 private:
  /// A range in buffers of the rank's own.
  struct Slice {
    size_t range;
    int64_t begin;
  };
  struct Own {
    optim::FlatWeights flat;
    std::unique_ptr<optim::Optimizer> optimizer;
    std::vector<Slice> slices;
  };

  Tensor window_of(const Tensor& flat, const Slice& slice) const;
  /// Of the rank's own ranges, by what stands for them all in each of `own_`.
  DealtOutValues::OwnValues own_values(const std::function<Tensor(const Own&)>& flat_of) const;

  /// Whether a norm is to be known of all gradients.
  bool clips() const { return squares_.defined(); }
  void agree(optim::LossScale* loss_scale);

  nn::Model& model_;
  Communicator& communicator_;
  PhaseClock& clock_;
  DealtOutValues values_;
  std::optional<double> clip_norm_;
  StepObserver* observer_;
  std::vector<std::string> state_names_;
  std::vector<Own> own_;
  Tensor squares_;  ///< the sum of gradients' squares; undefined where nothing is clipped
  optim::ParameterNorms norms_;
  bool cuts_parameters_ = false;  ///< ranks own parts of the same parameter
};

}  // namespace dptrain::parallel
