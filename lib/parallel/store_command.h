#pragma once

#include <cstdint>

#include "comm/communicator.h"

namespace dptrain::parallel {

/// A command from a worker to a server of a key-value store. Both ends are of the same build.
struct StoreCommand {
  enum class Kind : int64_t {
    step,   ///< gradients follow, slice by slice; the server answers with weights
    apply,  ///< ends a step whose update depends on all gradients
    pull,   ///< the server answers with weights
    read,   ///< the server answers with the optimizer's state
    /// The server answers with how stale pushes were since the last time: a length, then that many counts.
    tell,
    write,  ///< weights follow, and the optimizer's state if `has_state`
    end     ///< nothing more comes
  };
  Kind kind = Kind::end;
  int64_t number = 0;  ///< the step's number, from 1, as the optimizer counts
  double learning_rate = 0;
  float gradient_factor = 1;  ///< factor on the gradients, applied first
  bool skips = false;         ///< the step updates nothing
  bool has_state = false;
};

inline CommBuffer command_buffer(StoreCommand& command) {
  return {.data = &command, .elements = sizeof command, .dtype = DType::u8};
}

}  // namespace dptrain::parallel
