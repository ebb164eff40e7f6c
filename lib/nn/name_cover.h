#pragma once

#include <string>
#include <vector>

namespace dptrain::nn {

/// Whether `entry` names this tensor or a module that contains it: "layer1" covers "layer1.0.conv1.weight". In the
/// entry, `*` stands for any characters, dots included: "*.bias", "layer*.bn1".
bool covers(const std::string& entry, const std::string& name);

/// The advice for an `entry` that covers none of these tensors: a similar name of a tensor or a module, or else what is
/// in the innermost module that the entry names correctly: "did you mean 'conv1'?", "choose one of: layer1.0,
/// layer1.1".
std::string suggested_cover(const std::string& entry, const std::vector<std::string>& tensors);

}  // namespace dptrain::nn
