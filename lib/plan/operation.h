#pragma once

#include <cstddef>
#include <vector>

#include "plan/planned_step.h"

namespace dptrain::plan {

/// A collective or a message of a step, as the calls of the planned ranks that take part in it.
struct Operation {
  struct End {
    size_t rank = 0;
    size_t call = 0;  ///< index into that rank's calls
  };
  std::vector<End> ends;  ///< by rank
};

/// The operations that the calls of the planned ranks form. The n-th collectives of all ranks of a group are one
/// operation. The n-th message that one rank sends to another and the n-th that the other receives from it are one
/// operation. For a store on servers, the pushes of a key are one operation, and the pulls of a key are another.
struct Operations {
  std::vector<Operation> all;
  std::vector<std::vector<size_t>> of_call;  ///< by rank and call: an index into `all`
};

/// Groups calls into operations. `calls`: by rank.
Operations operations_of(const std::vector<const CallLog*>& calls);

}  // namespace dptrain::plan
