#pragma once

#include <string>
#include <vector>

#include "nn/model.h"

namespace dptrain::models {

/// The parameters that these entries cover, as nn::covers has it, in the order of entries, more than once where several
/// do; a tied one under either of its names. Throws 78, beginning with `where`, for an entry that covers none.
std::vector<Parameter*> covered_parameters(nn::Model& model, const std::vector<std::string>& entries,
                                           const std::string& where);

}  // namespace dptrain::models
