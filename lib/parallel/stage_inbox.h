#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <utility>

#include "parallel/stage_link.h"

namespace dptrain::parallel {

/// What another device sends to the stages of this one in a step or an evaluation. It comes in the order in which it is
/// sent there, which is known, and may be another than the one in which it is needed here, where both devices have
/// several stages: what comes before what is needed is kept here. Used by the device's rank thread.
class StageInbox {
 public:
  /// A micro-batch's activations, or their gradient.
  struct Arrival {
    StageLink& link;  ///< that they come through
    int64_t micro_batch = 0;
    StageLink::Signature signature;
    /// Whether they come at all, from when that is known on; null: they do.
    const std::optional<bool>* comes = nullptr;
    Tensor place = {};  ///< into which it comes; undefined: memory of its own
  };

  /// Behind all that is to come yet.
  void add(Arrival arrival) { coming_.push_back(std::move(arrival)); }
  /// What comes through `link` may come from now on, and all that comes before it, as far as its form is known.
  void expect(const StageLink& link, int64_t micro_batch);
  /// Blocks until it has come.
  StageLink::Crossing receive(const StageLink& link, int64_t micro_batch);
  /// Throws unless all that comes has been received; what doesn't come isn't waited for any more.
  void end();

 private:
  std::deque<Arrival> coming_;
  size_t expected_ = 0;  ///< of the first of these
  std::map<std::pair<const StageLink*, int64_t>, StageLink::Crossing> kept_;
};

}  // namespace dptrain::parallel
