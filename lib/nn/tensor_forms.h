#pragma once

#include <string>
#include <vector>

#include "nn/named_values.h"

namespace dptrain::nn {

/// What tensors are but for their values, as text: a line each with its name, the name that it is tied to, and its
/// dimensions.
std::string forms_text(const std::vector<NamedValues>& tensors);
/// The way back: tensors without values.
std::vector<NamedValues> tensors_of_forms(const std::string& text);

}  // namespace dptrain::nn
