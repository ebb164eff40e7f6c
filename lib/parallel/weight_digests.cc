#include "parallel/weight_digests.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <span>
#include <tuple>
#include <utility>

#include "base/bit_digest.h"

namespace dptrain::parallel {
namespace {

struct OfRank {
  int rank;
  uint64_t digest;
};

/// The first rank whose weight differs from most ranks', and the first rank that agrees with most. In a tie, the first
/// rank counts as right.
std::optional<WeightDifference> difference_in(const std::string& tensor, const std::vector<OfRank>& of_ranks) {
  const auto is_as = [](const OfRank& one) { return [&one](const OfRank& rank) { return rank.digest == one.digest; }; };
  if (std::ranges::all_of(of_ranks, is_as(of_ranks.front()))) return std::nullopt;
  std::map<uint64_t, int> counts;
  for (const OfRank& one : of_ranks) ++counts[one.digest];
  const OfRank& usual = *std::ranges::max_element(of_ranks, {}, [&](const OfRank& one) { return counts[one.digest]; });
  const auto other = std::ranges::find_if_not(of_ranks, is_as(usual));
  return WeightDifference{.tensor = tensor, .rank = other->rank, .other = usual.rank};
}

}  // namespace

WeightDigests digests_of(const nn::Model& model) {
  return digests_of_part(model, 0, [](const Parameter& parameter) { return parameter.value(); });
}

WeightDigests digests_of_part(const nn::Model& model, int part, const std::function<Tensor(const Parameter&)>& own_of) {
  Device& device = model.device();
  WeightDigests digests{.kind = device.kind(), .part = part};
  std::vector<std::byte> copy;
  const auto add = [&](const std::string& name, const Tensor& weight) {
    if (!weight.defined()) return;
    const auto bytes = static_cast<size_t>(weight.bytes());
    const auto* at = static_cast<const std::byte*>(weight.raw());
    if (device.kind() != DeviceKind::cpu) {
      copy.resize(bytes);
      device.download(copy.data(), at, weight.bytes());
      at = copy.data();
    }
    digests.tensors.push_back({.name = name, .digest = bit_digest(std::span(at, bytes))});
  };
  for (const Parameter* parameter : model.parameters()) add(parameter->name(), own_of(*parameter));
  for (const Parameter* parameter : model.frozen_parameters()) add(parameter->name(), parameter->value());
  return digests;
}

std::optional<WeightDifference> find_weight_difference(const std::vector<WeightDigests>& by_rank) {
  // In the order in which ranks list them, which is the model's order.
  std::vector<std::pair<std::string, std::vector<OfRank>>> weights;
  std::map<std::tuple<DeviceKind, int, std::string>, size_t> places;
  for (size_t rank = 0; rank < by_rank.size(); ++rank)
    for (const auto& [name, digest] : by_rank[rank].tensors) {
      const auto [place, is_new] = places.try_emplace({by_rank[rank].kind, by_rank[rank].part, name}, weights.size());
      if (is_new) weights.emplace_back(name, std::vector<OfRank>());
      weights[place->second].second.push_back({.rank = static_cast<int>(rank), .digest = digest});
    }
  for (const auto& [name, of_ranks] : weights)
    if (auto difference = difference_in(name, of_ranks)) return difference;
  return std::nullopt;
}

}  // namespace dptrain::parallel
