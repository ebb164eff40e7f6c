#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "train/first_steps.h"

namespace dptrain::train {

/// What the first steps of an experiment came to, as a file that a later configuration, version or machine is held to.
struct Blessing {
  std::string run;
  std::string config;        ///< resolved, as config.yaml has it
  std::string version;       ///< of dptrain
  std::string commit;        ///< of it
  std::string instructions;  ///< of the processor: "avx512"
  FirstSteps first;
  std::vector<double> loss_bounds;  ///< by step: how far a right training's loss may be from this one's
  bool memory_varies = false;       ///< from run to run; of a training that has just been, not read

  /// The text of the file, which begins like that; docs/blessing.schema.json is its schema.
  static constexpr const char* kBeginning = "{\n \"schema\": 1,\n \"run\": ";
  std::string json() const;
};

/// Reads a file that `dptrain bless` has written. Throws 66 where there is none, 65 where it is something else.
Blessing read_blessing(const std::filesystem::path& file);

/// How far a right training's losses may be from these: four times the most that they change in any of `nudged`, whose
/// weights began some roundings off, in this step or one before it; and at least what so few bits tell: 80 roundings of
/// f32, two of the 16 bits or of TF32 that products are made of. Nets with batch norms make much of little: of three
/// nudges the one that changes most is up to three times short of what another instruction set does.
std::vector<double> loss_bounds(const FirstSteps& first, const std::vector<FirstSteps>& nudged, Precision precision);

}  // namespace dptrain::train
