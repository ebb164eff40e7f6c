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

/// What is told of a training while it runs. Called on the trainer's thread; must not block for long.
class TrainingObserver {
 public:
  virtual ~TrainingObserver() = default;
  struct Progress {
    int64_t epoch = 0;
    int64_t epochs = 0;        ///< that will be run in all
    int64_t samples_done = 0;  ///< of this epoch
    int64_t samples_of_epoch = 0;
    double seconds = 0;       ///< since the epoch began
    double mean_loss = 0;     ///< of the samples done
    double seconds_left = 0;  ///< of the whole training, as far as can be told
  };
  /// Before the first step: a trial of a strategy begins, number `number` of `count`.
  virtual void on_trial(const std::string& /*strategy*/, size_t /*number*/, size_t /*count*/) {}
  /// Before the first step: what `strategy: auto` stands for.
  virtual void on_choice(const StrategyChoice&) {}
  /// What the training is at from now on: step `step`, or what comes after it.
  virtual void on_phase(JobPhase /*phase*/, int64_t /*step*/) {}
  /// A checkpoint of this step is whole. Of a job the main process is told.
  virtual void on_checkpoint(int64_t /*step*/) {}
  virtual void on_step(const Progress&) {}
  struct EvaluationProgress {
    int64_t epoch = 0;
    int64_t epochs = 0;  ///< that will be run in all
    int64_t samples_done = 0;
    int64_t samples = 0;
    double seconds = 0;  ///< since it began
  };
  /// Now and then, from a thread that computes, while the one that calls all else waits for it.
  virtual void on_evaluation(const EvaluationProgress&) {}
  virtual void on_epoch(const EpochMetrics&) {}
  /// The schedule `plateau` has brought the learning rate down to this, after the epoch that was told of last.
  virtual void on_reduced_rate(double /*rate*/) {}
  /// Something that the user is to look at; the training goes on.
  virtual void on_warning(const std::string&) {}
};

/// How a training ended.
struct TrainingOutcome {
  int signal = 0;  ///< that stopped it; 0: it ran to its end
  int64_t epochs = 0;
  int64_t steps = 0;
  double seconds = 0;
  std::optional<EpochMetrics> last_epoch;  ///< that this process has trained
  std::string last_line;                   ///< of metrics.jsonl; "" where it has none
  std::optional<BestEpoch> best = {};      ///< by its validation, where there is one and this process writes
  bool best_is_linked = false;             ///< its checkpoint, which may have been taken away
  bool stopped_early = false;              ///< as it got no better
  std::string weights_hash;
  std::filesystem::path weights;
  CommWays sum_ways;  ///< of this process's gradients
};

/// Runs an experiment on opened data: opens the devices, trains epoch by epoch, evaluates, writes metrics and
/// checkpoints.
class Trainer {
 public:
  /// Opens the devices and makes the replicas; goes on from a checkpoint where there is one. Throws 71 for a device or
  /// its memory, 78 for a model that the data doesn't fit; 65, naming both values, for a checkpoint or weights of
  /// something else, and as find_weights does for those to begin with.
  Trainer(const Experiment& experiment, const Datasets& data, const std::string& config_hash = {},
          const std::optional<ResumePoint>& resume = {});

  /// Whether nothing is left to train: the checkpoint was that of a whole training.
  bool finished() const;
  /// Whether that is so, or by the epochs that the directory has up to the position the training was to end early.
  bool finished_in(const RunDirectory& directory) const;
  const TrainingPosition& position() const { return position_; }

  /// Throws 79 where a loss or a weight is no longer finite, or devices have come to different weights; the weights of
  /// that step are not kept. Where an evaluation fails, its epoch's checkpoint is there, and the error says where.
  /// Without a directory nothing is written: so the processes of a job train beside the main one, which writes for all
  /// and alone is told of losses over all ranks.
  TrainingOutcome run(RunDirectory* directory, TrainingObserver& observer, const StopSignal& stop);
  TrainingOutcome run(RunDirectory& directory, TrainingObserver& observer, const StopSignal& stop) {
    return run(&directory, observer, stop);
  }
  /// As Strategy::state_dict.
  std::vector<nn::NamedValues> state_dict();
  /// Takes these weights and running statistics. Throws 65, naming `where` and the tensor, where they are another
  /// model's.
  void load_weights(const std::vector<nn::NamedValues>& tensors, const std::string& where);
  /// Loss and accuracy on the test split.
  Pass evaluate();

 private:
  void begin(const std::optional<ResumePoint>& resume);
  /// Shares out batches as the experiment says; where that is by speed, as the training that is gone on with did on as
  /// many devices, else as the devices are measured now.
  void share_out(const std::optional<ResumePoint>& resume);
  void restore(const ResumePoint& resume);
  int64_t planned_epochs() const;
  /// Trains what is left of the epoch that `position_` is in; leaves it where a signal comes.
  void train_epoch(RunDirectory* directory, TrainingObserver& observer, const StopSignal& stop);
  /// The signal that asks some process of the job to stop, so that all stop after the same step.
  int signal_of_job(const StopSignal& stop) const;
  /// Blocks until all processes of the job have called it, for as long as that takes.
  void wait_for_job() const;
  bool is_main() const { return experiment_.job == nullptr || experiment_.job->is_main(); }
  /// Throws 79 where devices have come to different weights: before these are evaluated, which gives all devices the
  /// first one's, or kept. No step is under way. All processes of a job call it.
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
  /// Of several processes all call it alike; that of rank 0 gets them, the others an empty hash.
  HashedWeights hashed_weights();
  bool looks_for_signals_after(int64_t step) const;
  TrainingObserver::Progress progress() const;
  /// Counts the scores of the steps that are done; with `all` waits for those under way.
  void take_scores(RunDirectory* directory, bool all);
  /// The loader's next batch; an error of the loader names the step.
  std::unique_ptr<Batch> next_batch();
  /// Adds what ranks have cost since the last time to the position: those of all processes on the main one.
  void count_costs();
  EpochMetrics metrics_of_epoch();
  /// Whether a checkpoint is written after the epoch that `position_` is at the end of.
  bool checkpoint_is_due() const;
  bool is_over() const { return finished() || stopped_early_; }
  /// What the main process says.
  bool of_main(bool says) const;
  /// Where it is due, the test split by the weights of the epoch that `position_` is at the end of; with a validation
  /// that one, and the test split where it is better than all before. False where `stop` came. The epoch's checkpoint
  /// is written before: what fails here leaves no device to read the weights from. It is put aside where a score isn't
  /// finite (79).
  bool evaluate_epoch(EpochMetrics& metrics, RunDirectory* directory, TrainingObserver& observer,
                      const StopSignal& stop);
  std::optional<Pass> evaluate_finite(const Dataset& data, RunDirectory* directory, TrainingObserver& observer,
                                      const StopSignal& stop);
  /// Whether an epoch that has been evaluated is better than all before.
  static bool is_best(const EpochMetrics& metrics) { return metrics.validation && metrics.test; }
  /// Those that the directory has, of a training that goes on; its link to the best checkpoint is mended.
  void count_earlier_validations(RunDirectory* directory);
  /// Links the checkpoint of the best epoch, and finds whether the training gets no better.
  void count_validation(const EpochMetrics& metrics, RunDirectory* directory);
  /// Reduces the learning rate where the schedule is `plateau` and the epoch's validation asks for it; whether it is
  /// another one then.
  bool reduce_rate_after(const Pass& validation);
  /// The weights have been evaluated and told of: on to the next epoch, if this one was whole.
  void end_epoch();
  /// Brings what was shown of this process's steps, which all are done, to the main one, which writes it. All processes
  /// of a job call it alike.
  void end_trace(RunDirectory* directory, TrainingObserver& observer);
  Timeline* main_timeline() { return trace_ ? &trace_->main_thread() : nullptr; }
  /// Writes a checkpoint of the position, unless the directory's newest is that already; of one that it wrote of the
  /// same step it changes the position alone. Returns its model.safetensors. All processes of a job call it, and leave
  /// it once the main one has written.
  std::filesystem::path save(RunDirectory* directory, TrainingObserver& observer);
  /// Gathers the whole state, and writes it where there is a directory.
  void save_all(RunDirectory* directory, TrainingObserver& observer);
  enum class Write { nothing, position, all };
  Write due_write(const RunDirectory& directory) const;

  Experiment experiment_;
  Datasets data_;
  std::string config_hash_;
  std::unique_ptr<parallel::Strategy> strategy_;
  std::unique_ptr<BatchLoader> loader_;
  bool has_begun_ = false;  ///< it has given a batch
  std::optional<optim::Schedule> schedule_;
  TrainingPosition position_;
  ChanceWatch chance_;
  ValidationWatch validation_;  ///< of the process that writes
  bool stopped_early_ = false;
  double evaluation_s_ = 0;     ///< that the last epoch's evaluation took
  bool compared_ = false;       ///< the weights, since the last step
  std::vector<int64_t> split_;  ///< the weights by which batches are shared out, where they were measured
  std::deque<parallel::StepNumbers> under_way_;  ///< steps whose score hasn't come yet
  TrainingPosition::Mark saved_at_;              ///< the position of the newest checkpoint
  std::filesystem::path saved_;
  std::optional<TrainingTrace> trace_;         ///< until it is written
  std::optional<TensorboardLog> tensorboard_;  ///< of the process that writes, while it runs
  std::optional<int64_t> written_step_;        ///< of the newest checkpoint, where `save` wrote it
};

}  // namespace dptrain::train
