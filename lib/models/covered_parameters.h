#pragma once

#include <string>
#include <vector>

#include "nn/model.h"

namespace dptrain::models {

/// The parameters that these entries cover (see nn::covers), in the order of entries. A parameter is returned more than
/// once if several entries cover it. A tied parameter is found under either of its names. Throws 78, beginning with
/// `where`, for an entry that covers none.
std::vector<Parameter*> covered_parameters(nn::Model& model, const std::vector<std::string>& entries,
                                           const std::string& where);

}  // namespace dptrain::models
