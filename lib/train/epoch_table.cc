#include "train/epoch_table.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/digit_groups.h"

namespace dptrain::train {
namespace {

constexpr size_t kFewestColumns = 2;
constexpr size_t kGap = 2;

/// A loss in at most nine characters, even if it diverges.
std::string loss_text(double loss) { return loss < 1e4 ? fmt::format("{:.4f}", loss) : fmt::format("{:.3e}", loss); }

std::string percent(double share) { return fmt::format("{:.2f} %", 100 * share); }

std::string loss_or_dash(const std::optional<Pass>& pass) { return pass ? loss_text(pass->score.mean_loss()) : "-"; }

std::string accuracy_or_dash(const std::optional<Pass>& pass) { return pass ? percent(pass->score.accuracy()) : "-"; }

}  // namespace

struct EpochTable::Column {
  const char* header;
  size_t width;
  int place;  ///< rank by importance among all columns: the column with the last place is left out first
  std::string (*cell)(const EpochMetrics& epoch);
  bool is_of_validation = false;
};

const std::vector<EpochTable::Column>& EpochTable::all_columns() {
  using Epoch = EpochMetrics;
  static const std::vector<Column> columns = {
      {"epoch", 7, 0, [](const Epoch& epoch) { return std::to_string(epoch.epoch); }},
      {"train loss", 10, 1, [](const Epoch& epoch) { return loss_text(epoch.train.score.mean_loss()); }},
      {"accuracy", 8, 6, [](const Epoch& epoch) { return percent(epoch.train.score.accuracy()); }},
      {"valid. loss", 11, 2, [](const Epoch& epoch) { return loss_or_dash(epoch.validation); }, true},
      {"accuracy", 8, 3, [](const Epoch& epoch) { return accuracy_or_dash(epoch.validation); }, true},
      {"test loss", 9, 4, [](const Epoch& epoch) { return loss_or_dash(epoch.test); }},
      {"accuracy", 8, 5, [](const Epoch& epoch) { return accuracy_or_dash(epoch.test); }},
      {"seconds", 9, 7, [](const Epoch& epoch) { return fmt::format("{:.2f}", epoch.train.seconds); }},
      {"samples/s", 10, 8, [](const Epoch& epoch) { return digit_groups(epoch.train.samples_per_s()); }},
  };
  return columns;
}

EpochTable::EpochTable(int64_t epochs, int width, bool has_validation) : epochs_(epochs) {
  for (const Column& column : all_columns())
    if (has_validation || !column.is_of_validation) columns_.push_back(&column);
  while (columns_.size() > kFewestColumns && this->width() > static_cast<size_t>(std::max(width, 0)))
    columns_.erase(std::ranges::max_element(columns_, {}, &Column::place));
}

size_t EpochTable::width_of(const Column& column) const {
  return column.place == 0 ? std::max(column.width, fmt::formatted_size("{}/{}", epochs_, epochs_)) : column.width;
}

size_t EpochTable::width() const {
  size_t sum = kGap * (columns_.size() - 1);
  for (const Column* column : columns_) sum += width_of(*column);
  return sum;
}

template <class Text>
std::string EpochTable::line(Text text_of) const {
  std::string text;
  for (const Column* column : columns_)
    text += fmt::format("{:>{}}", text_of(*column), width_of(*column) + (text.empty() ? 0 : kGap));
  return text;
}

std::string EpochTable::header() const {
  return line([](const Column& column) { return column.header; });
}

std::string EpochTable::row(const EpochMetrics& metrics) const {
  return line([&](const Column& column) {
    const std::string cell = column.cell(metrics);
    // The number of epochs is unknown if a training run with a given number of steps is resumed with an evaluation,
    // before its first step.
    return column.place == 0 && epochs_ > 0 ? fmt::format("{}/{}", cell, epochs_) : cell;
  });
}

}  // namespace dptrain::train
