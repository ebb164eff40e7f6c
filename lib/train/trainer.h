#pragma once

#include <atomic>
#include <memory>
#include <string>

#include "data/batch_loader.h"
#include "train/experiment.h"
#include "train/metrics.h"
#include "train/run_directory.h"

namespace dptrain::train {

/// A signal that asks the training to stop after the step in hand; 0 while there is none. Set by a signal handler.
using StopSignal = std::atomic<int>;

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
  virtual void on_step(const Progress&) {}
  virtual void on_epoch(const EpochMetrics&) {}
};

/// How a training ended.
struct TrainingOutcome {
  int signal = 0;  ///< that stopped it; 0: it ran to its end
  int64_t epochs = 0;
  int64_t steps = 0;
  double seconds = 0;
  std::optional<EpochMetrics> last_epoch;
  std::string weights_hash;
  std::filesystem::path weights;
};

/// Throws 78 where the model can't take the data set's images, 71 where a device can't be opened. Nothing is allocated
/// on them.
void require_model_fits(const Experiment& experiment, const ImageDataset& data);

/// Runs an experiment on opened data: opens the devices, trains epoch by epoch, evaluates, writes metrics and weights.
class Trainer {
 public:
  /// Opens the devices and makes the replicas. Throws 71 for a device or its memory, 78 for a model that the data
  /// doesn't fit.
  Trainer(const Experiment& experiment, const Datasets& data);

  /// Throws 79 where the loss or a weight is no longer finite; the weights of that step are not written.
  TrainingOutcome run(RunDirectory& directory, TrainingObserver& observer, const StopSignal& stop);

 private:
  struct Epoch;

  int64_t planned_epochs() const;
  bool finished(int64_t epoch) const;
  void train_epoch(Epoch& epoch, RunDirectory& directory, TrainingObserver& observer, const StopSignal& stop);
  /// Counts the scores of the steps that are done; with `all` waits for those under way.
  void take_scores(Epoch& epoch, RunDirectory& directory, bool all);
  /// The loader's next batch; an error of the loader names the step.
  std::unique_ptr<Batch> next_batch();
  [[noreturn]] void report_divergence(const char* what, const parallel::StepNumbers& numbers) const;
  void require_finite(const parallel::Score& score, const parallel::StepNumbers& numbers) const;
  /// The weights as they are to be hashed or written. Throws 79 where one of them is no longer finite.
  std::vector<nn::NamedValues> finite_weights(const parallel::StepNumbers& numbers);
  EpochMetrics metrics_of(const Epoch& epoch);

  Experiment experiment_;
  Datasets data_;
  std::unique_ptr<parallel::Strategy> strategy_;
  std::unique_ptr<BatchLoader> loader_;
  std::optional<optim::Schedule> schedule_;
  int64_t step_ = 0;
};

}  // namespace dptrain::train
