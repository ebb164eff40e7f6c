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

/// What one training has measured, put in a few numbers. Those of an epoch are medians over its epochs but the first,
/// which warms up; of a single epoch they are that one's. An epoch that `steps` has cut short counts where no other is
/// there.
struct TrainingFigures {
  uint64_t seed = 0;
  std::string directory;
  int64_t epochs = 0;
  double seconds_per_epoch = 0;
  int64_t samples = 0;     ///< of such an epoch
  bool cut_short = false;  ///< there was no whole one
  double samples_per_s = 0;
  TimeShares time;                 ///< of an epoch: of the one, or the two, that the median of seconds is of
  Imbalance imbalance = {};        ///< of the same
  double comm_bytes = 0;           ///< sent in an epoch, summed over ranks
  std::optional<double> accuracy;  ///< of the last evaluation on the test split
  struct Evaluation {
    double seconds = 0;  ///< of training, up to the end of its epoch
    double accuracy = 0;
  };
  std::vector<Evaluation> evaluations = {};     ///< on the test split, in order
  int64_t peak_bytes = 0;                       ///< of the device that held most
  std::vector<int64_t> device_peak_bytes = {};  ///< of each, by rank
  double memory_imbalance = 1;                  ///< that over the peak of the device that held least
  std::optional<Straggler> straggler = {};      ///< of the last epoch
  std::string weights_hash;

  /// Training seconds until the first evaluation of at least that accuracy; none where there was none.
  std::optional<double> seconds_to(double target) const;
};

/// Of at least one epoch of a data set of so many samples; 0: as many as the longest epoch had.
TrainingFigures training_figures(std::span<const EpochMetrics> epochs, int64_t data_samples = 0);

/// What a run computes with, so that two can be compared: GPUs, or cores.
struct ComputingPower {
  DeviceKind kind = DeviceKind::cpu;
  double units = 1;
};

/// A run of a comparison: its trainings, one a repetition.
struct RunFigures {
  std::string run;
  std::string strategy;
  std::vector<std::string> devices;
  int64_t device_batch = 0;  ///< samples of a micro-batch on each device, where it is even
  std::vector<TrainingFigures> trainings;
  std::optional<ComputingPower> power = {};  ///< none of unlike devices
  std::optional<double> target = {};         ///< an accuracy that is asked for

  /// Means over the trainings; of memory the most.
  double seconds_per_epoch() const { return seconds().mean; }
  double samples_per_s() const;
  double exposed_comm_s() const;
  double comm_bytes() const;
  TimeShares time() const;
  Imbalance imbalance() const;
  int64_t peak_bytes() const;
  std::vector<int64_t> device_peak_bytes() const;
  double memory_imbalance() const;
  /// None where a training was never evaluated.
  std::optional<double> accuracy() const;

  Spread seconds() const;
  std::optional<Spread> accuracies() const;
  /// Seconds of each training that has come to the target.
  std::vector<double> seconds_to_target() const;
  /// Their mean, where all have.
  std::optional<double> mean_seconds_to_target() const;
};

/// Whether the epochs of the two are of other numbers of samples because one was cut short.
bool are_cut_otherwise(const RunFigures& first, const RunFigures& run);
/// Seconds an epoch of `first` over those of `run`; over those of as many samples, where epochs are cut otherwise.
double speedup(const RunFigures& first, const RunFigures& run);
/// The speed-up over what as many more devices promise: 1 where twice the devices are twice as fast.
double efficiency(const RunFigures& first, const RunFigures& run);
/// The largest mean accuracy minus the smallest; none where a run was never evaluated.
std::optional<double> accuracy_gap(std::span<const RunFigures> runs);

/// How far the trainings of `run` are from those of `first`, pair by pair; none before there are two pairs. Seconds are
/// of as many samples, as for `speedup`.
std::optional<PairedDifference> seconds_difference(const RunFigures& first, const RunFigures& run);
std::optional<PairedDifference> accuracy_difference(const RunFigures& first, const RunFigures& run);
/// None where a training hasn't come to the target.
std::optional<PairedDifference> target_difference(const RunFigures& first, const RunFigures& run);

/// Why a run is slower than the first, as far as its times tell, and what would help: one sentence without a full stop.
/// None for one that isn't slower, or whose repetitions don't show it.
std::optional<std::string> advice(const RunFigures& first, const RunFigures& run);

}  // namespace dptrain::train
