#include "ops/update_groups.h"

#include <algorithm>

#include "base/check.h"
#include "ops/dispatch.h"
#include "ops/optimizer_table.h"

namespace dptrain::ops {
namespace {

static_assert(UpdateGroups::kMost <= 256, "of_blocks has their numbers in a byte each");

int64_t blocks_of(int64_t weights) { return (weights + UpdateGroups::kBlock - 1) / UpdateGroups::kBlock; }

}  // namespace

UpdateGroups UpdateGroups::range(int64_t begin, int64_t elements) const {
  if (!defined()) return {};
  DPTRAIN_CHECK(begin % kBlock == 0, "groups of weights from {} on", begin);
  return {.factors = factors, .of_blocks = of_blocks.window(begin / kBlock, {blocks_of(elements)}, Layout::plain)};
}

void require_groups(std::string_view op, const UpdateGroups& groups, int64_t weights) {
  if (groups.defined()) require_shape(op, "groups", groups.of_blocks.shape(), {blocks_of(weights)});
}

UpdateGroups make_update_groups(Device& device, const std::vector<UpdateRun>& runs) {
  std::vector<UpdateFactors> kinds;
  std::vector<uint8_t> of_blocks;
  for (const UpdateRun& run : runs) {
    DPTRAIN_CHECK(run.elements % UpdateGroups::kBlock == 0, "{} weights in a row with factors of their own",
                  run.elements);
    const auto kind = std::ranges::find(kinds, run.factors) - kinds.begin();
    if (kind == std::ssize(kinds)) kinds.push_back(run.factors);
    of_blocks.insert(of_blocks.end(), static_cast<size_t>(run.elements / UpdateGroups::kBlock),
                     static_cast<uint8_t>(kind));
  }
  if (std::ranges::all_of(kinds, [](const UpdateFactors& factors) { return factors == UpdateFactors(); })) return {};
  DPTRAIN_CHECK(std::ssize(kinds) <= UpdateGroups::kMost, "{} kinds of factors", kinds.size());
  std::vector<double> factors;
  for (const UpdateFactors& kind : kinds) factors.insert(factors.end(), {kind.learning_rate, kind.weight_decay});
  return {.factors = optimizer_table(device, {std::ssize(kinds), 2}, factors),
          .of_blocks = optimizer_table(device, {std::ssize(of_blocks)}, of_blocks)};
}

}  // namespace dptrain::ops
