#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "nn/model.h"

namespace dptrain::parallel {

/// A failure that a training has on purpose, on one rank, so that one sees what it comes to.
struct InjectedFault {
  enum class Kind {
    kill,    ///< the rank's process is gone, as by SIGKILL
    stop,    ///< its process stands still, as by SIGSTOP
    hang,    ///< its thread makes no progress, and the process lives
    memory,  ///< it needs more memory than any device has
    slow,    ///< its device begins steps late
    flip,    ///< a bit of one of its weights is another from then on
    nan      ///< one of its weights is no number from then on
  };
  Kind kind = Kind::kill;
  int rank = 0;                ///< of the world
  int64_t step = 1;            ///< that it comes before, or, of weights, at the end of; of `slow` the first of them
  int64_t steps = 0;           ///< of `slow`: so many; 0: all that follow
  double seconds = 0;          ///< of `slow`: in each step; of `stop`: after which it goes on, 0: never
  std::string parameter = {};  ///< of weights: of which one; "": the rank's last
};

/// What a rank has of a parameter, undefined where others have all of it.
using OwnWeight = std::function<Tensor(const Parameter&)>;

/// What one rank suffers. Used on its thread.
class RankFaults {
 public:
  RankFaults() = default;
  /// Those of `all` that are this rank's. Throws 64 for a parameter that its model, or the rank, hasn't.
  RankFaults(const std::vector<InjectedFault>& all, int world_rank, const nn::Model& model, const OwnWeight& own);

  /// What comes before a step: it may not return. Throws 71 for want of memory.
  void begin_step(int64_t step, Device& device) const;
  bool may_delay() const;
  /// What its device is late by in a step, in seconds.
  double delay_s(int64_t step) const;
  /// What is wrong with the weights of the rank at the end of a step; returns whether something is. Copies of them are
  /// the caller's.
  bool end_step(int64_t step, const nn::Model& model, const OwnWeight& own) const;

 private:
  std::vector<InjectedFault> own_;
};

}  // namespace dptrain::parallel
