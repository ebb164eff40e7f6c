#pragma once

#include <functional>
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

/// One rank's end of a sharded update. Each range of the flat buffers has an owner. The owner alone has optimizer state
/// for the range, updates it from its summed gradients, and gives the new weights to all ranks. Every rank has an end
/// with the same ranges and makes the same calls. The result is bit-identical to one optimizer over the whole model.
class OwnedUpdates {
 public:
  /// Buffers of a rank that stores only its own ranges of the model's flat buffers. The ranges follow each other in
  /// order; `begins` has the start of each. Elements between two ranges are 0.
  struct OwnBuffers {
    optim::FlatWeights flat;
    std::vector<int64_t> begins;
  };
  struct Options {
    std::vector<OwnedRange> ranges;      ///< cover all elements in order, cut at multiples of 16
    std::optional<OwnBuffers> own = {};  ///< by default, windows of the model's flat buffers
    optim::OptimizerSpec optimizer;
    std::optional<double> clip_norm = {};  ///< limit of the norm of all gradients together
    StepObserver* observer = nullptr;
    /// Gets the summed gradients of each of the rank's own ranges. May be empty.
    std::function<void(const Tensor& gradients)> measure = {};
  };
  /// Makes the optimizer state of the rank's own ranges. `clock`: gets the times of optimizer and communication.
  OwnedUpdates(nn::Model& model, Communicator& communicator, PhaseClock& clock, const Options& options);

  const std::vector<OwnedRange>& ranges() const { return values_.ranges(); }

  /// Updates the rank's own ranges from their summed gradients. Before that the ranks exchange what depends on all of
  /// them: whether any gradient overflows in fp16, the norm of all gradients, and the norms of parameters that are cut
  /// over several owners. `loss_scale`: null if there is none.
  void update(optim::OptimizerStep step, optim::LossScale* loss_scale);
  /// Blocks until this rank has the owner's weights of a range. The caller renews copies in half precision.
  void share(const OwnedRange& range);
  /// Does the same for all ranges.
  void share_all();

  /// Returns the optimizer state of all ranks by parameter, named as by a replica that has all of it, on rank 0;
  /// nothing on other ranks. Every rank calls it.
  std::vector<nn::NamedValues> gather_state();
  /// Takes this rank's part of such a state.
  void load_state(const std::vector<nn::NamedValues>& state);
  // Read and write the parameters of values that are laid out like the rank's own buffers, for nn::state_dict and
  // nn::load_state_dict. Every rank makes the same calls.
  nn::ReadParameter read_from(const Tensor& own) const;
  nn::WriteParameter write_to(const Tensor& own) const;
  /// Bytes of optimizer state and weights in the own ranges of each rank, by rank.
  std::vector<int64_t> held_bytes() const;

 private:
  /// Where a range begins in the rank's own buffers.
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
  /// Returns the values of the rank's own ranges; `flat_of` gives the flat tensor that holds them in each of `own_`.
  DealtOutValues::OwnValues own_values(const std::function<Tensor(const Own&)>& flat_of) const;

  /// Whether gradients are clipped, which takes the norm of all of them.
  bool clips() const { return squares_.defined(); }
  void agree(optim::LossScale* loss_scale);

  nn::Model& model_;
  Communicator& communicator_;
  PhaseClock& clock_;
  DealtOutValues values_;
  std::optional<double> clip_norm_;
  StepObserver* observer_;
  std::function<void(const Tensor&)> measure_;
  std::vector<std::string> state_names_;
  std::vector<Own> own_;
  Tensor squares_;  ///< sum of the gradients' squares; undefined if nothing is clipped
  optim::ParameterNorms norms_;
  bool cuts_parameters_ = false;  ///< some parameter is cut over several ranges
};

}  // namespace dptrain::parallel
