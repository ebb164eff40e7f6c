#include "train/weight_gathering.h"

#include <fmt/format.h>

#include <sstream>
#include <string>

namespace dptrain::train {
namespace {

using parallel::WeightDigests;

/// One line per rank: its kind of device, its part of sharded weights, and the digest and name of each weight.
std::string text_of(const std::vector<WeightDigests>& by_rank) {
  std::string text;
  for (const WeightDigests& of_rank : by_rank) {
    text += fmt::format("{} {}", static_cast<int>(of_rank.kind), of_rank.part);
    for (const auto& [name, digest] : of_rank.tensors) text += fmt::format(" {} {}", digest, name);
    text += '\n';
  }
  return text;
}

void add_digests(const std::string& text, std::vector<WeightDigests>& by_rank) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    int kind = 0, part = 0;
    words >> kind >> part;
    WeightDigests& of_rank = by_rank.emplace_back(WeightDigests{.kind = static_cast<DeviceKind>(kind), .part = part});
    for (WeightDigests::Tensor tensor; words >> tensor.digest >> tensor.name;) of_rank.tensors.push_back(tensor);
  }
}

}  // namespace

std::vector<WeightDigests> gather_weight_digests(ProcessGroup& group, const std::vector<WeightDigests>& own) {
  std::vector<WeightDigests> by_rank;
  for (const std::string& of_process : group.gather(text_of(own))) add_digests(of_process, by_rank);
  return by_rank;
}

}  // namespace dptrain::train
