#pragma once

#include <cstddef>
#include <vector>

#include "plan/planned_step.h"

namespace dptrain::plan {

/// A collective or a message of a step: the calls of the planned ranks that are its ends.
struct Operation {
  struct End {
    size_t rank = 0;
    size_t call = 0;  ///< of that rank's
  };
  std::vector<End> ends;  ///< by rank
};

/// Of all calls of the planned ranks: of a group the n-th collective of each of its ranks are one operation, of two
/// ranks the n-th message sent and the n-th received; of a store on servers what is pushed of a key, and what is
/// pulled.
struct Operations {
  std::vector<Operation> all;
  std::vector<std::vector<size_t>> of_call;  ///< by rank and call: a number in `all`
};

/// `calls`: of each rank.
Operations operations_of(const std::vector<const CallLog*>& calls);

}  // namespace dptrain::plan
