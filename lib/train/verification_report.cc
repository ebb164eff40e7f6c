#include "train/verification_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>

#include "base/text_table.h"

namespace dptrain::train {
namespace {

using nlohmann::ordered_json;

constexpr std::array kPasses = {ComparedPass::forward, ComparedPass::loss, ComparedPass::backward,
                                ComparedPass::weights};

constexpr const char* kLegend =
    "A difference from single is the norm of the difference divided by the norm, for the layer that comes nearest to "
    "its bound or goes farthest beyond it; the bound is that of the nearest layer of all. A bound is ten times the "
    "change that another order of the samples and a rounding of the weights cause in single.";

constexpr const char* kShardsLegend =
    "With shards, strategies are compared with single with as many shards, which they have to match bit for bit: their "
    "bound is 0.";

constexpr const char* kCompressLegend =
    "With compress, only the forward pass, the loss and the gradients of the first step have to match, the gradients "
    "together with what devices keep of them for the next step; weights and later steps differ by design.";

/// The number of all-noise layers that are named.
constexpr size_t kNamedLayers = 4;

std::string figure(double value) { return fmt::format("{:.1e}", value); }

/// The layer with the largest share of its bound over all passes.
const VerifiedLayer* nearest_to_bound(const VerifiedRow& row) {
  const VerifiedLayer* nearest = nullptr;
  for (const ComparedPass pass : kPasses) {
    const VerifiedLayer* of_pass = row.nearest_to_bound(pass);
    if (of_pass != nullptr && (nearest == nullptr || of_pass->share() > nearest->share())) nearest = of_pass;
  }
  return nearest;
}

std::string difference_in(const VerifiedRow& row, ComparedPass pass) {
  const VerifiedLayer* layer = row.nearest_to_bound(pass);
  return layer == nullptr ? "-" : figure(layer->found.difference);
}

/// Whether some layers are meant to be equal and others aren't, as with `compress`.
bool is_held_in_part(const VerifiedRow& row) {
  return std::ranges::any_of(row.layers, &VerifiedLayer::by_design) &&
         !std::ranges::all_of(row.layers, &VerifiedLayer::by_design);
}

/// "in the backward pass of step 1 at conv2.bias", "in the loss of step 1".
std::string place_of(const LayerDifference& layer) {
  switch (layer.pass) {
    case ComparedPass::forward:
    case ComparedPass::backward:
      return fmt::format("in the {} pass of step {} at {}", pass_name(layer.pass), layer.step, layer.layer);
    case ComparedPass::loss: return fmt::format("in the loss of step {}", layer.step);
    case ComparedPass::weights: return fmt::format("in the weights after step {} at {}", layer.step, layer.layer);
  }
  return {};
}

std::string first_divergence(const VerifiedRow& row, const VerifiedLayer& layer) {
  return fmt::format("{} {} first {}: difference {}, bound {}", row.name,
                     layer.by_design ? "differs by design," : "diverges from single", place_of(layer.found),
                     figure(layer.found.difference), figure(layer.allowed.bound));
}

/// A sentence about the layers that can't fail; it is the same for rows that were compared with the same `single`.
std::string noise_sentence(const VerifiedRow& row) {
  const std::vector<VerifiedLayer> noise = row.all_noise();
  std::string names;
  const bool several = std::ranges::any_of(row.layers, [](const VerifiedLayer& layer) { return layer.found.step > 1; });
  for (size_t i = 0; i < std::min(noise.size(), kNamedLayers); ++i)
    names += fmt::format("{}{} {}{}", i == 0 ? "" : ", ", pass_name(noise[i].found.pass), noise[i].found.layer,
                         several ? fmt::format(" in step {}", noise[i].found.step) : "");
  if (noise.size() > kNamedLayers) names += fmt::format(" and {} more", noise.size() - kNamedLayers);
  return fmt::format("With {} micro-batch{} {} of {} layers {} all noise and can't fail: {}.", row.micro_batches,
                     row.micro_batches == 1 ? "" : "es", noise.size(), row.layers.size(),
                     noise.size() == 1 ? "is" : "are", names);
}

/// The columns of the rows with `shards`, or without if it is 0. Rows with shards have their own table. The header of
/// its first column has the common ending of their names, so that both tables fit a terminal.
std::vector<TableColumn> columns_of(const std::vector<VerifiedRow>& rows, int shards) {
  const std::string ending = shards > 0 ? fmt::format(", shards: {}", shards) : "";
  const std::string header = "strategy" + ending;
  std::vector<TableColumn> columns = {{.header = header, .cells = {}, .left_aligned = true},
                                      {.header = "forward", .cells = {}},
                                      {.header = "backward", .cells = {}},
                                      {.header = "weights", .cells = {}},
                                      {.header = "bound", .cells = {}},
                                      {.header = "verdict", .cells = {}, .left_aligned = true}};
  for (const VerifiedRow& row : rows) {
    if (row.shards != shards) continue;
    const VerifiedLayer* nearest = nearest_to_bound(row);
    columns[0].cells.push_back(row.name);
    if (row.name.ends_with(ending)) columns[0].cells.back().resize(row.name.size() - ending.size());
    columns[1].cells.push_back(difference_in(row, ComparedPass::forward));
    columns[2].cells.push_back(difference_in(row, ComparedPass::backward));
    columns[3].cells.push_back(difference_in(row, ComparedPass::weights));
    columns[4].cells.push_back(nearest == nullptr ? "-" : figure(nearest->allowed.bound));
    columns[5].cells.emplace_back(verdict_name(row.verdict));
  }
  return columns;
}

/// A JSON number, or null if the value isn't finite.
ordered_json number(double value) { return std::isfinite(value) ? ordered_json(value) : ordered_json(nullptr); }

ordered_json layer_json(const VerifiedLayer* layer) {
  if (layer == nullptr) return nullptr;
  return {{"pass", pass_name(layer->found.pass)}, {"step", layer->found.step},
          {"layer", layer->found.layer},          {"difference", number(layer->found.difference)},
          {"bound", layer->allowed.bound},        {"all_noise", layer->allowed.all_noise},
          {"by_design", layer->by_design}};
}

ordered_json row_json(const VerifiedRow& row) {
  ordered_json layers = ordered_json::array(), nearest = ordered_json::object();
  for (const VerifiedLayer& layer : row.layers) layers.push_back(layer_json(&layer));
  for (const ComparedPass pass : kPasses)
    nearest[std::string(pass_name(pass))] = layer_json(row.nearest_to_bound(pass));
  return {{"strategy", row.name},
          {"verdict", verdict_name(row.verdict)},
          {"reason", row.reason.empty() ? ordered_json(nullptr) : ordered_json(row.reason)},
          {"micro_batches", row.micro_batches},
          {"shards", row.shards},
          {"all_noise", row.all_noise().size()},
          {"first_divergence", layer_json(row.first_divergence())},
          {"nearest_to_bound", nearest},
          {"layers", layers}};
}

}  // namespace

std::vector<std::string> VerificationReport::failures() const {
  std::vector<std::string> sentences;
  for (const VerifiedRow& row : rows)
    if (row.verdict == Verdict::diverges) sentences.push_back(first_divergence(row, *row.first_divergence()));
  return sentences;
}

std::string VerificationReport::text(int width) const {
  std::string text = text_table(columns_of(rows, 0), width);
  const auto with_shards = std::ranges::find_if(rows, [](const VerifiedRow& row) { return row.shards > 0; });
  if (with_shards != rows.end()) text += "\n" + text_table(columns_of(rows, with_shards->shards), width);
  text += "\n" + wrapped(kLegend, width);
  if (with_shards != rows.end()) text += "\n" + wrapped(kShardsLegend, width);
  if (std::ranges::any_of(rows, is_held_in_part)) text += "\n" + wrapped(kCompressLegend, width);
  std::set<int64_t> told;  // micro-batches of the noise already reported
  for (const VerifiedRow& row : rows)
    if (!row.all_noise().empty() && told.insert(row.micro_batches).second)
      text += "\n" + wrapped(noise_sentence(row), width);
  for (const VerifiedRow& row : rows) {
    if (row.verdict == Verdict::not_compared) text += "\n" + wrapped(row.name + ": " + row.reason + ".", width);
    const VerifiedLayer* first = row.first_divergence();
    if (row.verdict != Verdict::not_compared && first != nullptr)
      text += "\n" + wrapped(first_divergence(row, *first) + ".", width);
  }
  return text;
}

std::string VerificationReport::json() const {
  ordered_json all = ordered_json::array();
  for (const VerifiedRow& row : rows) all.push_back(row_json(row));
  const ordered_json document = {{"schema", 1}, {"steps", steps}, {"equal", failures().empty()}, {"strategies", all}};
  return document.dump(2, ' ', false, ordered_json::error_handler_t::replace);
}

}  // namespace dptrain::train
