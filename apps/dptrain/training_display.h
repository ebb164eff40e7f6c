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
  bool json = false;              ///< metrics lines on stdout, the rest on stderr
  std::string progress = "auto";  ///< auto, plain, none
  bool only_progress = false;     ///< nothing of epochs, and nothing on stdout
};

/// Shows a training while it runs: on a terminal a line that is written over and over, a row for each epoch, and a
/// table of the devices at the end.
class TrainingDisplay final : public train::TrainingObserver {
 public:
  /// `stop` is set to SIGPIPE where standard output can't be written any more: the training then ends as by a signal,
  /// with its weights written, and nothing more is shown.
  TrainingDisplay(const DisplayOptions& options, train::StopSignal& stop);
  ~TrainingDisplay() override;

  void on_start(const train::Experiment& experiment, const std::string& run_directory);
  /// The training goes on from a checkpoint: says what is no longer as it was, `changes` of the configuration among it.
  void on_resume(const train::ResumePoint& from, const train::Experiment& experiment, const std::string& changes,
                 bool is_over);
  /// There is nothing left to train.
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
  /// Whether the last line of progress is old enough for another one, which is then the last.
  bool is_time_for_line();
  void show_progress(const std::string& line);
  /// As many of the fields as fit a line of it.
  void show_progress(const std::vector<std::string>& fields);
  void show_line(const std::string& line);
  void clear_line();

  DisplayOptions options_;
  train::StopSignal& stop_;
  enum class Lines { none, plain, live };
  Lines lines_;  ///< of progress within an epoch: none, one now and then, or one that is written over and over
  bool line_shown_ = false;
  std::optional<train::EpochTable> table_;  ///< since the first epoch
  int64_t epochs_ = 0;
  bool is_of_job_ = false;
  bool has_validation_ = false;
  int64_t resumed_at_ = 0;  ///< the step after which this start goes on
  bool may_split_ = true;   ///< batches of the training can be shared out by speed
  Clock::time_point last_shown_{};
};

}  // namespace dptrain::app
