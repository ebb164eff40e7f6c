#pragma once

#include <cstdint>
#include <string>

#include "config/config_reader.h"
#include "optim/plateau.h"

namespace dptrain::optim {

/// How the learning rate changes in the course of a run, as a configuration describes it.
struct ScheduleSpec {
  enum class Kind { constant, step, multi_step, cosine, linear, polynomial, one_cycle, plateau };
  Kind kind = Kind::constant;
  int64_t every_epochs = 1;              ///< for `step`
  std::vector<int64_t> milestones = {};  ///< for `multi_step`: epochs, in rising order
  double gamma = 0.1;                    ///< for `step` and `multi_step`
  double power = 1;                      ///< for `polynomial`
  double min = 0;  ///< for `cosine`, `linear` and `polynomial`: the rate at the end; for `plateau`: the least rate
  double peak_at = 0.3;  ///< for `one_cycle`: the share of steps before the peak
  PlateauSpec plateau;
  int64_t warmup_steps = 0;
  double warmup_epochs = 0;  ///< used instead of warmup_steps

  /// The number of steps in which the rate grows.
  int64_t warmup_of(int64_t steps_per_epoch) const;
};

/// Reads the key `schedule`: `cosine`, or {name: cosine, min: 0.001, warmup_steps: 500}.
ScheduleSpec read_schedule(ConfigReader& config);

/// The learning rate of each step. With W steps of warm-up and T steps in all, for step k from 1 and t = k - 1 - W:
///   warm-up    base * k / W, for k <= W
///   constant   base
///   step       base * gamma^floor(whole epochs before the step / every_epochs)
///   multi_step base * gamma^(milestones that are no more than the whole epochs before the step)
///   cosine     min + (base - min) * (1 + cos(pi * t / (T - W))) / 2   (Loshchilov and Hutter, 2017)
///   linear     base + (min - base) * t / (T - W)
///   polynomial min + (base - min) * (1 - t / (T - W))^power
///   one_cycle  PyTorch's OneCycleLR: from base / 25 along a cosine up to base at peak_at * T - 1, and down to
///              base / 250,000 at T - 1   (Smith and Topin, 2018)
///   plateau    PyTorch's ReduceLROnPlateau: base, and after each reduction factor times what it was, at least min
class Schedule {
 public:
  Schedule(const ScheduleSpec& spec, double base, int64_t steps_per_epoch, int64_t steps);
  /// The rate of step `step`, from 1.
  double rate(int64_t step) const;
  /// For `plateau`: reduces the rate of the steps asked for from now on. Returns whether the rate has changed.
  bool reduce();
  /// The product of all reductions; not 1 only for `plateau`.
  double scale() const { return scale_; }
  /// Sets the product of all reductions, to continue another schedule.
  void scale_by(double scale) { scale_ = scale; }

 private:
  /// The rate after the warm-up, before the schedule's kind changes it.
  double base() const;
  double one_cycle(int64_t step) const;

  ScheduleSpec spec_;
  double base_;
  int64_t steps_per_epoch_;
  int64_t steps_;
  int64_t warmup_;
  double scale_ = 1;
};

}  // namespace dptrain::optim
