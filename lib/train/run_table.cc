#include "train/run_table.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <functional>
#include <limits>
#include <nlohmann/json.hpp>
#include <numeric>
#include <utility>

#include "base/error.h"

namespace dptrain::train {
namespace {

std::string number_or_dash(const std::optional<double>& value, double scale, int digits) {
  return value ? fmt::format("{:.{}f}", *value * scale, digits) : "-";
}

}  // namespace

RunTable::RunTable(const std::vector<std::filesystem::path>& paths) : RunTable(read_runs(paths)) {}

RunTable::RunTable(FoundRuns found)
    : runs_(std::move(found.runs)), left_out_(std::move(found.left_out)), labels_(labels_of(runs_)) {
  std::vector<ConfigNode> configs;
  for (const RunState& run : runs_) configs.push_back(run.config);
  differences_ = without_options_of_names(differing_keys(configs, {}));
}

std::pair<double, std::string> RunTable::place_of(size_t run, const std::string& key) const {
  constexpr double kLast = std::numeric_limits<double>::infinity();
  constexpr const char* kBehindAllTexts = "\xff";  // no UTF-8 text contains this byte
  const RunState& state = runs_[run];
  if (key == "accuracy") return {-state.accuracy.value_or(-kLast), ""};
  if (key == "validation_accuracy") return {-state.validation_accuracy.value_or(-kLast), ""};
  if (key == "validation_loss") return {state.validation_loss.value_or(kLast), ""};
  if (key == "test_loss") return {state.test_loss.value_or(kLast), ""};
  if (key == "train_loss") return {state.train_loss.value_or(kLast), ""};
  if (key == "seconds") return {state.seconds > 0 ? state.seconds : kLast, ""};
  const auto differing = std::ranges::find(differences_, key, &DifferingKey::key);
  const std::string& value = differing->values[run];
  if (value == "-") return {kLast, kBehindAllTexts};
  char* end = nullptr;
  const double number = std::strtod(value.c_str(), &end);
  const bool is_number = !value.empty() && *end == '\0' && !std::isnan(number);
  return {is_number ? number : kLast, value};
}

void RunTable::sort_by(const std::string& key) {
  std::vector<std::string> known = {"accuracy", "test_loss", "train_loss", "seconds"};
  if (has_validation()) known.insert(known.end(), {"validation_accuracy", "validation_loss"});
  for (const DifferingKey& differing : differences_) known.push_back(differing.key);
  if (std::ranges::find(known, key) == known.end())
    throw Error(ExitCode::usage, Mistake{.where = "--sort",
                                         .expected = fmt::format("expected one of {}", fmt::join(known, ", ")),
                                         .got = fmt::format("'{}'", key),
                                         .advice = "a key with the same value in all runs gives no order"});
  std::vector<size_t> order(runs_.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::stable_sort(order, {}, [&](size_t run) { return place_of(run, key); });
  const auto put_in_order = [&](auto& values) {
    auto sorted = values;
    for (size_t i = 0; i < order.size(); ++i) sorted[i] = values[order[i]];
    values = std::move(sorted);
  };
  put_in_order(runs_);
  put_in_order(labels_);
  for (DifferingKey& differing : differences_) put_in_order(differing.values);
}

bool RunTable::has_validation() const {
  return std::ranges::any_of(runs_, [](const RunState& run) { return run.validation_loss.has_value(); });
}

std::vector<TableColumn> RunTable::columns() const {
  std::vector<TableColumn> columns;
  const auto add = [&](const char* header, const std::function<std::string(const RunState&)>& cell, bool left = false) {
    TableColumn column{.header = header, .cells = {}, .left_aligned = left};
    for (const RunState& run : runs_) column.cells.push_back(cell(run));
    columns.push_back(std::move(column));
  };
  columns.push_back({.header = "run", .cells = labels_, .left_aligned = true});
  for (const DifferingKey& key : differences_)
    columns.push_back({.header = key.key, .cells = key.values, .left_aligned = true});
  add(
      "state", [](const RunState& run) { return run.state(); }, true);
  add("epochs done", [](const RunState& run) { return fmt::format("{}", run.epochs); });
  if (has_validation()) {
    add("valid. accuracy %", [](const RunState& run) { return number_or_dash(run.validation_accuracy, 100, 2); });
    add("valid. loss", [](const RunState& run) { return number_or_dash(run.validation_loss, 1, 4); });
  }
  add("accuracy %", [](const RunState& run) { return number_or_dash(run.accuracy, 100, 2); });
  add("test loss", [](const RunState& run) { return number_or_dash(run.test_loss, 1, 4); });
  add("train loss", [](const RunState& run) { return number_or_dash(run.train_loss, 1, 4); });
  add("seconds", [](const RunState& run) { return fmt::format("{:.2f}", run.seconds); });
  return columns;
}

std::string RunTable::text(int width) const { return text_table(columns(), width); }

std::string RunTable::markdown() const { return markdown_table(columns()); }

std::string RunTable::json() const {
  using nlohmann::ordered_json;
  const auto number_or_null = [](const std::optional<double>& value) {
    return value ? ordered_json(*value) : ordered_json(nullptr);
  };
  ordered_json runs = ordered_json::array();
  for (size_t i = 0; i < runs_.size(); ++i) {
    const RunState& run = runs_[i];
    ordered_json config = ordered_json::object();
    for (const DifferingKey& key : differences_) config[key.key] = key.values[i];
    runs.push_back({{"run", labels_[i]},
                    {"directory", run.directory.string()},
                    {"config", config},
                    {"state", run.state()},
                    {"epochs", run.epochs},
                    {"steps", run.steps},
                    {"validation_accuracy", number_or_null(run.validation_accuracy)},
                    {"validation_loss", number_or_null(run.validation_loss)},
                    {"accuracy", number_or_null(run.accuracy)},
                    {"test_loss", number_or_null(run.test_loss)},
                    {"train_loss", number_or_null(run.train_loss)},
                    {"seconds", run.seconds},
                    {"weights_hash", run.weights_hash}});
  }
  const ordered_json document = {{"schema", 1}, {"runs", runs}};
  return document.dump(2, ' ', false, ordered_json::error_handler_t::replace);
}

}  // namespace dptrain::train
