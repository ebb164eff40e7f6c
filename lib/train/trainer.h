#pragma once

#include <deque>
#include <memory>
#include <string>

#include "comm/job_progress.h"
#include "data/batch_loader.h"
#include "train/chance_level.h"
#include "train/checkpoint.h"
#include "train/divergence.h"
#include "train/experiment.h"
#include "train/metrics.h"
#include "train/run_directory.h"
#include "train/stop_signal.h"
#include "train/tensorboard_log.h"
#include "train/training_trace.h"
#include "train/validation_watch.h"

namespace dptrain::train {

/// Receives the events of a training run. Its functions are called on the trainer's thread and must not block for long.
class TrainingObserver {
 public:
  virtual ~TrainingObserver() = default;
  struct Progress {
    int64_t epoch = 0;
    int64_t epochs = 0;        ///< in the whole training
    int64_t samples_done = 0;  ///< of this epoch
    int64_t samples_of_epoch = 0;
    double seconds = 0;       ///< since the epoch began
    double mean_loss = 0;     ///< of the samples done
    double seconds_left = 0;  ///< of the whole training, an estimate
  };
  /// Before the first step, a trial of a strategy begins: number `number` of `count`.
  virtual void on_trial(const std::string& /*strategy*/, size_t /*number*/, size_t /*count*/) {}
  /// Before the first step, `strategy: auto` has made its choice.
  virtual void on_choice(const StrategyChoice&) {}
  /// The training enters a phase, in step `step` or after it.
  virtual void on_phase(JobPhase /*phase*/, int64_t /*step*/) {}
  /// The checkpoint of this step is complete. In a job only the main process is told.
  virtual void on_checkpoint(int64_t /*step*/) {}
  virtual void on_step(const Progress&) {}
  struct EvaluationProgress {
    int64_t epoch = 0;
    int64_t epochs = 0;  ///< in the whole training
    int64_t samples_done = 0;
    int64_t samples = 0;
    double seconds = 0;  ///< since the evaluation began
  };
  /// Called now and then during an evaluation, from a thread that computes, while the trainer's thread waits for
  /// that one; for pipelines from the trainer's thread.
  virtual void on_evaluation(const EvaluationProgress&) {}
  virtual void on_epoch(const EpochMetrics&) {}
  /// The schedule `plateau` has reduced the learning rate to `rate`, after the epoch reported last.
  virtual void on_reduced_rate(double /*rate*/) {}
  /// A warning for the user; the training goes on.
  virtual void on_warning(const std::string&) {}
};

/// How a training run ended.
struct TrainingOutcome {
  int signal = 0;  ///< the signal that stopped it; 0: it ran to its end
  int64_t epochs = 0;
  int64_t steps = 0;
  double seconds = 0;
  std::optional<EpochMetrics> last_epoch;  ///< the last one that this process has trained
  std::string last_line;                   ///< the last line of metrics.jsonl; "" if it has none
  std::optional<BestEpoch> best = {};      ///< set if there is a validation and this process writes
  bool best_is_linked = false;             ///< the best checkpoint still exists and is linked
  bool stopped_early = false;              ///< because validation results no longer improved
  std::string weights_hash;
  std::filesystem::path weights;
  CommWays sum_ways;  ///< how this process sums its gradients
};

/// Runs an experiment on opened data. It opens the devices, trains epoch by epoch, evaluates, and writes metrics and
/// checkpoints.
class Trainer {
 public:
  /// Opens the devices, makes the replicas, and loads the checkpoint `resume` if it is given. Throws 71 for a device or
  /// its memory, 78 for a model that the data doesn't fit, and 65, naming both values, for a checkpoint or weights that
  /// don't fit the experiment. Throws as find_weights does for initial weights.
  Trainer(const Experiment& experiment, const Datasets& data, const std::string& config_hash = {},
          const std::optional<ResumePoint>& resume = {});

  /// Whether nothing is left to train, because the checkpoint was written at the end of the training.
  bool finished() const;
  /// Whether nothing is left to train, or the training was to stop early according to the epochs in the directory up to
  /// the position.
  bool finished_in(const RunDirectory& directory) const;
  const TrainingPosition& position() const { return position_; }

  /// Trains, evaluates and writes. Throws 79 if a loss or a weight is no longer finite, or if devices have different
  /// weights; the weights of that step aren't kept. If an evaluation fails otherwise, and a checkpoint of its epoch
  /// is due, that checkpoint exists, and the error names it. Without a directory nothing is written: the processes of a
  /// job other than the main one run so. The main process writes for all, and only its observer gets losses over all
  /// ranks.
  TrainingOutcome run(RunDirectory* directory, TrainingObserver& observer, const StopSignal& stop);
  TrainingOutcome run(RunDirectory& directory, TrainingObserver& observer, const StopSignal& stop) {
    return run(&directory, observer, stop);
  }
  /// See Strategy::state_dict.
  std::vector<nn::NamedValues> state_dict();
  /// Loads these weights and running statistics. Throws 65, naming `where` and the tensor, if they belong to another
  /// model.
  void load_weights(const std::vector<nn::NamedValues>& tensors, const std::string& where);
  /// Loss and accuracy on the test split.
  Pass evaluate();

 private:
  void begin(const std::optional<ResumePoint>& resume);
  /// Sets the split of batches that the experiment asks for. For a split by speed, uses the checkpoint's weights if the
  /// number of devices is the same, else the devices' speed as measured now.
  void share_out(const std::optional<ResumePoint>& resume);
  void restore(const ResumePoint& resume);
  int64_t planned_epochs() const;
  /// Trains the rest of the epoch that `position_` is in; returns early after a signal.
  void train_epoch(RunDirectory* directory, TrainingObserver& observer, const StopSignal& stop);
  /// The signal that asks any process of the job to stop. All processes get the same answer, so that they stop after
  /// the same step.
  int signal_of_job(const StopSignal& stop) const;
  /// Blocks until all processes of the job have called it, without a time limit.
  void wait_for_job() const;
  bool is_main() const { return experiment_.job == nullptr || experiment_.job->is_main(); }
  /// Throws 79 if devices have different weights. Called before weights are kept, and before they are evaluated, which
  /// gives all devices the first one's weights. No step may be running. All processes of a job call it.
  void require_same_weights();
  RankName rank_name() const {
    return [this](int rank) { return experiment_.rank_name(rank); };
  }
  parallel::StepNumbers last_step() const {
    return {.step = position_.step, .epoch = position_.epochs + 1, .learning_rate = position_.learning_rate};
  }
  struct HashedWeights {
    std::string hash;
    bool finite;
  };
  /// Checks and hashes the weights. All processes of a job must call it; only the one with rank 0 gets the hash, the
  /// others an empty one.
  HashedWeights hashed_weights();
  bool looks_for_signals_after(int64_t step) const;
  TrainingObserver::Progress progress() const;
  /// Counts the scores of completed steps; with `all`, also waits for running ones.
  void take_scores(RunDirectory* directory, bool all);
  /// The loader's next batch. An error of the loader names the step.
  std::unique_ptr<Batch> next_batch();
  /// Adds the ranks' costs since the last call to the position; the main process adds those of all processes.
  void count_costs();
  EpochMetrics metrics_of_epoch();
  /// Whether a checkpoint is written at the end of the epoch that `position_` has reached.
  bool checkpoint_is_due() const;
  bool is_over() const { return finished() || stopped_early_; }
  /// The main process's value of `says`, on all processes.
  bool of_main(bool says) const;
  /// Evaluates the epoch that `position_` has reached the end of, if that is due. Without a validation it evaluates the
  /// test split; with one it evaluates the validation, and the test split only if the epoch is the best so far. Returns
  /// false if `stop` was set.
  ///
  /// The epoch's checkpoint, if due, is written before, because no device may be left to read the weights from if the
  /// evaluation fails. It is put aside if a score isn't finite (79).
  bool evaluate_epoch(EpochMetrics& metrics, RunDirectory* directory, TrainingObserver& observer,
                      const StopSignal& stop);
  std::optional<Pass> evaluate_finite(const Dataset& data, RunDirectory* directory, TrainingObserver& observer,
                                      const StopSignal& stop);
  /// Whether an evaluated epoch is better than all before.
  static bool is_best(const EpochMetrics& metrics) { return metrics.validation && metrics.test; }
  /// Counts the validations in the directory of a resumed training run, and corrects its link to the best checkpoint.
  void count_earlier_validations(RunDirectory* directory);
  /// Counts an epoch's validation, links the checkpoint of the best epoch, and decides whether to stop early.
  void count_validation(const EpochMetrics& metrics, RunDirectory* directory);
  /// Reduces the learning rate if the schedule is `plateau` and the epoch's validation asks for it. Returns whether the
  /// rate has changed.
  bool reduce_rate_after(const Pass& validation);
  /// Goes on to the next epoch, if this one was complete. Its weights have been evaluated and reported.
  void end_epoch();
  /// Begins the trace, or warns if none of its steps will be trained.
  void begin_trace(const RunDirectory* directory, TrainingObserver& observer);
  /// Sends this process's part of the trace to the main process, which writes trace.json. All traced steps must be
  /// done. All processes of a job must call it.
  void end_trace(RunDirectory* directory, TrainingObserver& observer);
  Timeline* main_timeline() { return trace_ ? &trace_->main_thread() : nullptr; }
  /// Writes a checkpoint of the position, unless the directory's newest one is at that position. If this object has
  /// written the newest one at the same step, only its position is changed. Returns its model.safetensors. All
  /// processes of a job call it, and return once the main one has written.
  std::filesystem::path save(RunDirectory* directory, TrainingObserver& observer);
  /// Gathers the whole state, and writes it if there is a directory.
  void save_all(RunDirectory* directory, TrainingObserver& observer);
  enum class Write { nothing, position, all };
  Write due_write(const RunDirectory& directory) const;

  Experiment experiment_;
  Datasets data_;
  std::string config_hash_;
  std::unique_ptr<parallel::Strategy> strategy_;
  std::unique_ptr<BatchLoader> loader_;
  bool has_begun_ = false;  ///< it has returned a batch
  std::optional<optim::Schedule> schedule_;
  TrainingPosition position_;
  ChanceWatch chance_;
  ValidationWatch validation_;  ///< of the process that writes
  bool stopped_early_ = false;
  double evaluation_s_ = 0;                      ///< seconds of the last epoch's evaluation
  bool compared_ = false;                        ///< the weights have been compared since the last step
  std::vector<int64_t> split_;                   ///< the weights by which batches are split, if they were measured
  std::deque<parallel::StepNumbers> under_way_;  ///< steps whose scores haven't come yet
  TrainingPosition::Mark saved_at_;              ///< the position of the newest checkpoint
  std::filesystem::path saved_;
  std::optional<TrainingTrace> trace_;         ///< until it is written
  std::optional<TensorboardLog> tensorboard_;  ///< of the process that writes, while it runs
  std::optional<int64_t> written_step_;        ///< of the newest checkpoint, if `save` wrote it
};

}  // namespace dptrain::train
