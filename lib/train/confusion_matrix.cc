#include "train/confusion_matrix.h"

#include <fmt/format.h>

#include "base/digit_groups.h"

namespace dptrain::train {
namespace {

std::optional<double> share(int64_t part, int64_t whole) {
  if (whole == 0) return std::nullopt;
  return static_cast<double>(part) / static_cast<double>(whole);
}

std::string percent_or_dash(const std::optional<double>& value) {
  return value ? fmt::format("{:.2f}", 100 * *value) : "-";
}

}  // namespace

int64_t ConfusionMatrix::samples(int64_t label) const {
  int64_t sum = 0;
  for (int64_t other = 0; other < classes_; ++other) sum += at(label, other);
  return sum;
}

int64_t ConfusionMatrix::predicted(int64_t predicted) const {
  int64_t sum = 0;
  for (int64_t label = 0; label < classes_; ++label) sum += at(label, predicted);
  return sum;
}

int64_t ConfusionMatrix::all() const {
  int64_t sum = 0;
  for (int64_t label = 0; label < classes_; ++label) sum += samples(label);
  return sum;
}

double ConfusionMatrix::accuracy() const {
  int64_t right = 0;
  for (int64_t label = 0; label < classes_; ++label) right += at(label, label);
  return share(right, all()).value_or(0);
}

std::optional<double> ConfusionMatrix::recall(int64_t label) const { return share(at(label, label), samples(label)); }

std::optional<double> ConfusionMatrix::precision(int64_t label) const {
  return share(at(label, label), predicted(label));
}

std::optional<int64_t> ConfusionMatrix::mistaken_for(int64_t label) const {
  std::optional<int64_t> most;
  for (int64_t other = 0; other < classes_; ++other)
    if (other != label && at(label, other) > (most ? at(label, *most) : 0)) most = other;
  return most;
}

std::vector<TableColumn> table_of(const ConfusionMatrix& matrix, const std::vector<std::string>& names) {
  const auto name_of = [&names](int64_t one) {
    return names.empty() ? std::to_string(one) : names[static_cast<size_t>(one)];
  };
  std::vector<TableColumn> columns = {{.header = "class", .cells = {}, .left_aligned = true},
                                      {.header = "samples", .cells = {}},
                                      {.header = "recall %", .cells = {}},
                                      {.header = "precision %", .cells = {}},
                                      {.header = "mostly mistaken for", .cells = {}, .left_aligned = true}};
  for (int64_t label = 0; label < matrix.classes(); ++label) {
    const auto mistaken = matrix.mistaken_for(label);
    add_row(columns, {name_of(label), digit_groups(static_cast<double>(matrix.samples(label))),
                      percent_or_dash(matrix.recall(label)), percent_or_dash(matrix.precision(label)),
                      mistaken ? fmt::format("{} ({})", name_of(*mistaken), matrix.at(label, *mistaken)) : "-"});
  }
  return columns;
}

}  // namespace dptrain::train
