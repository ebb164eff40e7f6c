#pragma once

#include <string>
#include <vector>

#include "nn/named_values.h"

namespace dptrain::nn {

/// Names, tied names and dimensions of tensors as text, without their values: one line per tensor.
std::string forms_text(const std::vector<NamedValues>& tensors);
/// Reads such text: returns tensors without values.
std::vector<NamedValues> tensors_of_forms(const std::string& text);

}  // namespace dptrain::nn
