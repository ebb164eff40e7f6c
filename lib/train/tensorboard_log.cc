#include "train/tensorboard_log.h"

#include <utility>

#include "train/event_file.h"
#include "train/event_scalars.h"

namespace dptrain::train {
namespace {

/// A text as Markdown that shows it unchanged.
std::string as_code(const std::string& text) {
  std::string code;
  bool at_line_start = true;
  for (const char c : text) {
    if (at_line_start) code += "    ";
    at_line_start = c == '\n';
    code += c;
  }
  return code;
}

}  // namespace

void TensorboardLog::add_step(int64_t step, const std::string& line) { add(step, step_scalars(line), Sync::later); }

void TensorboardLog::add_epoch(const EpochMetrics& metrics) {
  add(metrics.step, epoch_scalars(metrics, precision_), Sync::now);
}

void TensorboardLog::add(int64_t step, const std::vector<TaggedScalar>& scalars, Sync sync) {
  const double now_s = event_time_s();
  std::string records;
  if (!std::exchange(has_begun_, true))
    records =
        session_record(now_s, first_step_) + text_record(now_s, first_step_, "config", as_code(directory_.config()));
  directory_.append_events(records + scalars_record(now_s, step, scalars), sync);
}

}  // namespace dptrain::train
