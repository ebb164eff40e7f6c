#pragma once

#include <vector>

#include "comm/communicator.h"
#include "nn/model.h"
#include "parallel/weight_units.h"

namespace dptrain::parallel {

/// Of a model that computes in half precision with weights that are dealt out: the parameters that operators read as
/// f32 values nevertheless, those of norms, all of them on every rank. One for each rank; used by its thread.
class ValueOperands {
 public:
  ValueOperands(nn::Model& model, Communicator& communicator, const std::vector<WeightUnit>& units);

  /// Gets their values from those who own them; `own`: this rank's parts of all units. Every rank calls it. Blocks.
  void share(const Tensor& own);
  /// Makes those of a unit what the model computes with.
  void bind(int unit);

 private:
  /// A part of one that a rank owns.
  struct Piece {
    int64_t in_own = 0;     ///< where it begins in the rank's parts of all units
    int64_t in_values = 0;  ///< and in `values_`
    int64_t elements = 0;
  };
  struct Place {
    Parameter* parameter;
    int unit;
    int64_t begin;  ///< in `values_`
  };

  nn::Model& model_;
  Communicator& communicator_;
  std::vector<Place> places_;
  std::vector<std::vector<Piece>> pieces_;  ///< by rank
  int64_t most_ = 0;                        ///< elements of a rank's pieces
  Tensor values_;                           ///< undefined where there are none
};

}  // namespace dptrain::parallel
