#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <utility>

#include "parallel/stage_link.h"

namespace dptrain::parallel {

/// Receives what another device sends to the stages of this one, in a step or an evaluation. Values arrive in the known
/// order in which they are sent. If both devices have several stages, this device may need them in another order; early
/// values are kept here. Used by the device's rank thread.
class StageInbox {
 public:
  /// A micro-batch's activations, or their gradient.
  struct Arrival {
    StageLink& link;  ///< link through which it comes
    int64_t micro_batch = 0;
    StageLink::Signature signature;
    /// Whether the value is sent at all, once that is known; null: it is.
    const std::optional<bool>* comes = nullptr;
    Tensor place = {};  ///< tensor that receives it; undefined: new memory
  };

  /// Adds an arrival after all others.
  void add(Arrival arrival) { coming_.push_back(std::move(arrival)); }
  /// Lets the value that comes through `link` arrive from now on, and all values before it, as far as their forms are
  /// known.
  void expect(const StageLink& link, int64_t micro_batch);
  /// Blocks until the value has arrived.
  StageLink::Crossing receive(const StageLink& link, int64_t micro_batch);
  /// Throws unless every value that was sent has been received. Forgets arrivals that aren't sent.
  void end();

 private:
  std::deque<Arrival> coming_;
  size_t expected_ = 0;  ///< how many of `coming_`, from the first on, are expected
  std::map<std::pair<const StageLink*, int64_t>, StageLink::Crossing> kept_;
};

}  // namespace dptrain::parallel
