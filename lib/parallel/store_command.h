#pragma once

#include <cstdint>

#include "comm/communicator.h"

namespace dptrain::parallel {

/// What a worker asks of a server of a key-value store; both ends are of one build.
struct StoreCommand {
  enum class Kind : int64_t {
    step,   ///< gradients follow, slice by slice; weights are the answer
    apply,  ///< the end of a step whose update goes by what all gradients show
    pull,   ///< weights are the answer
    read,   ///< the optimizer's state is the answer
    tell,   ///< how stale pushes were since the last time is the answer: a number, then as many counts
    write,  ///< weights follow, and the optimizer's state where `has_state` says so
    end     ///< nothing more comes
  };
  Kind kind = Kind::end;
  int64_t number = 0;  ///< of the step, from 1, as the optimizer counts them
  double learning_rate = 0;
  float gradient_factor = 1;  ///< what gradients are multiplied by first
  bool skips = false;         ///< nothing is to be updated
  bool has_state = false;
};

inline CommBuffer command_buffer(StoreCommand& command) {
  return {.data = &command, .elements = sizeof command, .dtype = DType::u8};
}

}  // namespace dptrain::parallel
