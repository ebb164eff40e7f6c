#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "device/device_id.h"
#include "train/imbalance.h"
#include "train/metrics.h"
#include "train/paired_difference.h"

namespace dptrain::train {

/// The measurements of one training as a few numbers. Numbers per epoch are medians over all epochs except the first,
/// which warms up; if there is only one epoch, they are from that one. An epoch that `steps` has cut short counts only
/// if there is no whole one.
struct TrainingFigures {
  uint64_t seed = 0;
  std::string directory;
  int64_t epochs = 0;
  double seconds_per_epoch = 0;
  int64_t samples = 0;     ///< per epoch
  bool cut_short = false;  ///< there was no whole epoch
  double samples_per_s = 0;
  TimeShares time;                 ///< per epoch, from the one or two epochs that determine the median of the seconds
  Imbalance imbalance = {};        ///< from the same epochs
  double comm_bytes = 0;           ///< sent per epoch, summed over ranks
  std::optional<double> accuracy;  ///< of the last evaluation on the test split
  struct Evaluation {
    double seconds = 0;  ///< of training until the end of the evaluated epoch
    double accuracy = 0;
  };
  std::vector<Evaluation> evaluations = {};     ///< on the test split, in order
  int64_t peak_bytes = 0;                       ///< of the device that held most
  std::vector<int64_t> device_peak_bytes = {};  ///< by rank
  double memory_imbalance = 1;                  ///< the largest of these peaks over the smallest
  std::optional<Straggler> straggler = {};      ///< of the last epoch
  std::string weights_hash;

  /// Training seconds until the first evaluation with at least the accuracy `target`; none if there was none.
  std::optional<double> seconds_to(double target) const;
};

/// Computes the figures of at least one epoch. `data_samples`: the size of the data set; 0: as many samples as the
/// longest epoch had.
TrainingFigures training_figures(std::span<const EpochMetrics> epochs, int64_t data_samples = 0);

/// The resources of a run, for comparing two runs: a number of GPUs, or of cores.
struct ComputingPower {
  DeviceKind kind = DeviceKind::cpu;
  double units = 1;
};

/// A run of a comparison, with one training per repetition.
struct RunFigures {
  std::string run;
  std::string strategy;
  std::vector<std::string> devices;
  int64_t device_batch = 0;  ///< samples of a micro-batch on each device, if all have the same number
  std::vector<TrainingFigures> trainings;
  std::optional<ComputingPower> power = {};  ///< none for unlike devices
  std::optional<double> target = {};         ///< the accuracy that the user asked for

  /// Means over the trainings; for memory, the maximum.
  double seconds_per_epoch() const { return seconds().mean; }
  double samples_per_s() const;
  double exposed_comm_s() const;
  double comm_bytes() const;
  TimeShares time() const;
  Imbalance imbalance() const;
  int64_t peak_bytes() const;
  std::vector<int64_t> device_peak_bytes() const;
  double memory_imbalance() const;
  /// None if a training was never evaluated.
  std::optional<double> accuracy() const;

  Spread seconds() const;
  std::optional<Spread> accuracies() const;
  /// Seconds until the target, for each training that reached it.
  std::vector<double> seconds_to_target() const;
  /// The mean of these seconds, if all trainings reached the target.
  std::optional<double> mean_seconds_to_target() const;
};

/// Whether the two runs' epochs have different numbers of samples because one was cut short.
bool are_cut_otherwise(const RunFigures& first, const RunFigures& run);
/// Seconds per epoch of `first` over those of `run`. If their epochs were cut differently, the seconds are for the same
/// number of samples.
double speedup(const RunFigures& first, const RunFigures& run);
/// The speed-up over the ratio of the runs' devices: 1 if twice the devices are twice as fast.
double efficiency(const RunFigures& first, const RunFigures& run);
/// The largest mean accuracy minus the smallest; none if a run was never evaluated.
std::optional<double> accuracy_gap(std::span<const RunFigures> runs);

/// The differences between the trainings of `run` and of `first`, pair by pair; none with fewer than two pairs. Seconds
/// are for the same number of samples, as in `speedup`.
std::optional<PairedDifference> seconds_difference(const RunFigures& first, const RunFigures& run);
std::optional<PairedDifference> accuracy_difference(const RunFigures& first, const RunFigures& run);
/// None if a training hasn't reached the target.
std::optional<PairedDifference> target_difference(const RunFigures& first, const RunFigures& run);

/// Why a run is slower than the first, as far as its times show, and what would help: one sentence without a full stop.
/// None if the run isn't slower, or if its repetitions don't show that it is.
std::optional<std::string> advice(const RunFigures& first, const RunFigures& run);

}  // namespace dptrain::train
