#include "plan/layers_report.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <limits>
#include <nlohmann/json.hpp>
#include <ranges>

#include "base/digit_groups.h"
#include "base/text_table.h"

namespace dptrain::plan {
namespace {

using nlohmann::ordered_json;

constexpr double kMegaflop = 1e6;

std::string grouped(int64_t elements) { return digit_groups(static_cast<double>(elements)); }

ordered_json shape_json(const Shape& shape) {
  ordered_json sizes = ordered_json::array();
  for (const int64_t size : shape.dimensions()) sizes.push_back(size);
  return sizes;
}

/// A phrase for factors that aren't all 1: "at 10 times the learning rate, without weight decay".
std::string manner(const ops::UpdateFactors& factors) {
  std::vector<std::string> parts;
  if (factors.learning_rate != 1) parts.push_back(fmt::format("at {} times the learning rate", factors.learning_rate));
  if (factors.weight_decay == 0)
    parts.emplace_back("without weight decay");
  else if (factors.weight_decay != 1)
    parts.push_back(fmt::format("with {} times the weight decay", factors.weight_decay));
  return fmt::format("{}", fmt::join(parts, ", "));
}

}  // namespace

std::string LayersReport::text(int width) const {
  std::vector<TableColumn> columns = {{.header = "stage", .cells = {}, .left_aligned = true},
                                      {.header = "output", .cells = {}, .left_aligned = true},
                                      {.header = "parameters", .cells = {}},
                                      {.header = "MFLOP", .cells = {}}};
  const auto add = [&](const std::string& name, const std::string& output, int64_t parameters, double flops) {
    add_row(columns, {name, output, grouped(parameters), fmt::format("{:.2f}", flops / kMegaflop)});
  };
  for (const ModelLayer& layer : of.layers)
    add(layer.name, fmt::format("{}", fmt::join(layer.outputs | std::views::transform(&Shape::text), ", ")),
        layer.parameters, layer.flops);
  add("all", "", of.parameters(), of.flops());
  std::string text =
      wrapped(fmt::format("{}: model {}, for one sample of {}\n\n", run, model, of.input.text()), width) +
      text_table(columns, std::numeric_limits<int>::max());
  if (of.frozen() > 0)
    text += "\n" + wrapped(fmt::format("{} of the parameters are frozen\n", grouped(of.frozen())), width);
  for (const auto& [factors, elements] : of.updates)
    if (factors != ops::UpdateFactors())
      text += "\n" +
              wrapped(fmt::format("{} of the parameters are updated {}\n", grouped(elements), manner(factors)), width);
  if (of.running_state > 0)
    text += "\n" + wrapped(fmt::format("{} further elements are running state, which isn't trained\n",
                                       grouped(of.running_state)),
                           width);
  return text;
}

std::string LayersReport::json() const {
  ordered_json stages = ordered_json::array();
  for (const ModelLayer& layer : of.layers) {
    ordered_json outputs = ordered_json::array();
    for (const Shape& shape : layer.outputs) outputs.push_back(shape_json(shape));
    stages.push_back({{"stage", layer.name},
                      {"outputs", outputs},
                      {"parameters", layer.parameters},
                      {"frozen", layer.frozen},
                      {"flops", layer.flops}});
  }
  ordered_json groups = ordered_json::array();
  for (const auto& [factors, elements] : of.updates)
    groups.push_back({{"learning_rate_factor", factors.learning_rate},
                      {"weight_decay_factor", factors.weight_decay},
                      {"parameters", elements}});
  const ordered_json document = {{"schema", 1},
                                 {"run", run},
                                 {"model", model},
                                 {"input", shape_json(of.input)},
                                 {"parameters", of.parameters()},
                                 {"frozen", of.frozen()},
                                 {"parameter_groups", groups},
                                 {"running_state", of.running_state},
                                 {"flops", of.flops()},
                                 {"stages", stages}};
  return document.dump(2, ' ', false, ordered_json::error_handler_t::replace);
}

}  // namespace dptrain::plan
