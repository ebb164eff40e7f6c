#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "train/epoch_table.h"
#include "train/trainer.h"

namespace dptrain::app {

struct DisplayOptions {
  bool quiet = false;
  bool json = false;              ///< metrics lines on stdout, everything else on stderr
  std::string progress = "auto";  ///< auto, plain, none
  bool only_progress = false;     ///< no table of epochs, and nothing on stdout
};

/// Shows the progress of a training run: on a terminal a progress line that is overwritten, a row for each epoch, and a
/// table of the devices at the end.
class TrainingDisplay final : public train::TrainingObserver {
 public:
  /// Sets `stop` to SIGPIPE when standard output can't be written any more. The training then ends as after a signal,
  /// its weights are saved, and nothing more is shown.
  TrainingDisplay(const DisplayOptions& options, train::StopSignal& stop);
  ~TrainingDisplay() override;

  void on_start(const train::Experiment& experiment, const std::string& run_directory);
  /// Tells that the training goes on from a checkpoint, and what differs from then; `changes` are those of the
  /// configuration.
  void on_resume(const train::ResumePoint& from, const train::Experiment& experiment, const std::string& changes,
                 bool is_over);
  /// Tells that nothing is left to train.
  void on_finished_before(const train::FinishedTraining& finished, const std::string& run_directory);
  void on_trial(const std::string& strategy, size_t number, size_t count) override;
  void on_choice(const train::StrategyChoice& choice) override;
  void on_step(const Progress& progress) override;
  void on_evaluation(const EvaluationProgress& progress) override;
  void on_epoch(const train::EpochMetrics& metrics) override;
  void on_reduced_rate(double rate) override;
  void on_warning(const std::string& text) override;
  void on_finish(const train::TrainingOutcome& outcome, const std::string& run_directory);

 private:
  void say(const std::string& text);
  void write_or_stop(const std::string& text);
  /// Whether the last progress line is old enough for a new one. If so, the new one counts as shown now.
  bool is_time_for_line();
  void show_progress(const std::string& line);
  /// Shows as many of the fields as fit one line.
  void show_progress(const std::vector<std::string>& fields);
  void show_line(const std::string& line);
  void clear_line();

  DisplayOptions options_;
  train::StopSignal& stop_;
  enum class Lines { none, plain, live };
  Lines lines_;  ///< how progress within an epoch is shown: not at all, as a line now and then, or as one line that is
                 ///< overwritten
  bool line_shown_ = false;
  std::optional<train::EpochTable> table_;  ///< set from the first epoch on
  int64_t epochs_ = 0;
  bool is_of_job_ = false;
  bool has_validation_ = false;
  int64_t resumed_at_ = 0;  ///< the step that this start goes on from
  bool may_split_ = true;   ///< whether batches of the training can be shared out by speed
  Clock::time_point last_shown_{};
};

}  // namespace dptrain::app
