#include "train/epoch_table.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/digit_groups.h"

namespace dptrain::train {
namespace {

struct Column {
  const char* header;
  size_t width;
  int place;  ///< among all columns by what they tell: the last one is the first to be left out
};
constexpr Column kTable[] = {{"epoch", 7, 0},    {"train loss", 10, 1}, {"accuracy", 8, 4},  {"test loss", 9, 2},
                             {"accuracy", 8, 3}, {"seconds", 9, 5},     {"samples/s", 10, 6}};
constexpr int kFewestColumns = 2;
constexpr size_t kGap = 2;

/// At most nine characters wide, also of a loss that runs away.
std::string loss_text(double loss) { return loss < 1e4 ? fmt::format("{:.4f}", loss) : fmt::format("{:.3e}", loss); }

std::string percent(double share) { return fmt::format("{:.2f} %", 100 * share); }

}  // namespace

EpochTable::EpochTable(int64_t epochs, int width) : epochs_(epochs) {
  while (shown_ > kFewestColumns && this->width() > static_cast<size_t>(std::max(width, 0))) --shown_;
}

size_t EpochTable::width_of(size_t column) const {
  return column == 0 ? std::max(kTable[0].width, fmt::formatted_size("{}/{}", epochs_, epochs_)) : kTable[column].width;
}

size_t EpochTable::width() const {
  size_t sum = 0;
  for (size_t i = 0; i < kColumns; ++i)
    if (kTable[i].place < shown_) sum += width_of(i) + (i > 0 ? kGap : 0);
  return sum;
}

std::string EpochTable::line(const Cells& cells) const {
  std::string text;
  for (size_t i = 0; i < kColumns; ++i)
    if (kTable[i].place < shown_) text += fmt::format("{:>{}}", cells[i], width_of(i) + (i > 0 ? kGap : 0));
  return text;
}

std::string EpochTable::header() const {
  Cells cells;
  for (size_t i = 0; i < kColumns; ++i) cells[i] = kTable[i].header;
  return line(cells);
}

std::string EpochTable::row(const EpochMetrics& metrics) const {
  const Pass& train = metrics.train;
  Cells cells;
  // Of a training that is so many steps long, a resumed one may begin with an evaluation, before its first step.
  cells[0] = epochs_ > 0 ? fmt::format("{}/{}", metrics.epoch, epochs_) : std::to_string(metrics.epoch);
  cells[1] = loss_text(train.score.mean_loss());
  cells[2] = percent(train.score.accuracy());
  cells[3] = metrics.test ? loss_text(metrics.test->score.mean_loss()) : "-";
  cells[4] = metrics.test ? percent(metrics.test->score.accuracy()) : "-";
  cells[5] = fmt::format("{:.2f}", train.seconds);
  cells[6] = digit_groups(train.samples_per_s());
  return line(cells);
}

}  // namespace dptrain::train
