#pragma once

#include <string>
#include <vector>

namespace dptrain::nn {

/// Whether `entry` is this tensor's name, or what stands before a point in it, which is a module's: "layer1" covers
/// "layer1.0.conv1.weight". In the entry `*` stands for any characters, points as well: "*.bias", "layer*.bn1".
bool covers(const std::string& entry, const std::string& name);

/// What is advised where `entry` covers none of these tensors: a name of theirs or of a module that is near, or what
/// the innermost module has that the entry names rightly: "did you mean 'conv1'?", "known are: layer1.0, layer1.1".
std::string suggested_cover(const std::string& entry, const std::vector<std::string>& tensors);

}  // namespace dptrain::nn
