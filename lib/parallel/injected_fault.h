#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "nn/model.h"

namespace dptrain::parallel {

/// A failure that a run causes on purpose on one rank, to show what follows from it.
struct InjectedFault {
  enum class Kind {
    kill,    ///< the rank's process ends, as by SIGKILL
    stop,    ///< the rank's process stops, as by SIGSTOP
    hang,    ///< the rank's thread makes no progress, but its process lives on
    memory,  ///< the rank asks for more memory than any device has
    slow,    ///< the rank's device begins its steps late
    flip,    ///< one bit of one of the rank's weights is flipped
    nan      ///< one of the rank's weights becomes NaN
  };
  Kind kind = Kind::kill;
  int rank = 0;  ///< rank of the world
  /// The step before which the fault comes. `flip` and `nan` come at the end of this step; `slow` begins with it.
  int64_t step = 1;
  int64_t steps = 0;           ///< `slow` only: number of slow steps; 0: all that follow
  double seconds = 0;          ///< `slow`: delay of each step; `stop`: time until the process goes on, 0: never
  std::string parameter = {};  ///< `flip` and `nan`: name of the parameter; "": the last one that the rank has
};

/// Returns the part of a parameter that this rank has; an undefined tensor if other ranks have all of it.
using OwnWeight = std::function<Tensor(const Parameter&)>;

/// The faults of one rank. Used on the rank's thread.
class RankFaults {
 public:
  RankFaults() = default;
  /// Keeps the faults in `all` that are meant for this rank. Throws (exit code 64) if a fault names a parameter that
  /// the model doesn't have, or that other ranks hold entirely.
  RankFaults(const std::vector<InjectedFault>& all, int world_rank, const nn::Model& model, const OwnWeight& own);

  /// Causes the faults that come before a step, so it may not return. Throws (exit code 71) for a fault of kind
  /// `memory`.
  void begin_step(int64_t step, Device& device) const;
  bool may_delay() const;
  /// Seconds by which the rank's device is late in a step.
  double delay_s(int64_t step) const;
  /// Damages the rank's weights if a fault says so for the end of this step; returns whether it did. The caller renews
  /// copies of the weights.
  bool end_step(int64_t step, const nn::Model& model, const OwnWeight& own) const;

 private:
  std::vector<InjectedFault> own_;
};

}  // namespace dptrain::parallel
