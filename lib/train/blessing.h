#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "train/first_steps.h"

namespace dptrain::train {

/// The results of an experiment's first steps, as a file that a later configuration, version or machine is compared
/// with.
struct Blessing {
  std::string run;
  std::string config;        ///< resolved, as config.yaml has it
  std::string version;       ///< the version of dptrain
  std::string commit;        ///< the commit that dptrain was built from
  std::string instructions;  ///< instruction set of the processor: "avx512"
  FirstSteps first;
  std::vector<double> loss_bounds;  ///< by step: how far a correct training run's loss may be from this one's
  /// The peak memory varies from run to run. Only set for a training run that has just ended, not for a file.
  bool memory_varies = false;

  /// The text of the file, which begins with kBeginning; docs/blessing.schema.json is its schema.
  static constexpr const char* kBeginning = "{\n \"schema\": 1,\n \"run\": ";
  std::string json() const;
};

/// Reads a file that `dptrain bless` has written. Throws 66 if it is missing, 65 if it is something else.
Blessing read_blessing(const std::filesystem::path& file);

/// How far a correct training run's losses may be from these, by step. A bound is four times the largest change in any
/// of `nudged`, in this step or an earlier one; the weights of `nudged` began some roundings off. It is at least 80
/// roundings of f32, or two roundings of the 16-bit or TF32 numbers that products are made of.
///
/// Nets with batch norms amplify small changes: the nudge of three that changes most can still be three times smaller
/// than what another instruction set changes.
std::vector<double> loss_bounds(const FirstSteps& first, const std::vector<FirstSteps>& nudged, Precision precision);

}  // namespace dptrain::train
