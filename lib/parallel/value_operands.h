#pragma once

#include <vector>

#include "comm/communicator.h"
#include "nn/model.h"
#include "parallel/weight_units.h"

namespace dptrain::parallel {

/// Parameters that operators read as f32 values although the model computes in half precision: those of norms. If
/// weights are sharded, every rank holds all of these parameters here. There is one object per rank, used by its
/// thread.
class ValueOperands {
 public:
  ValueOperands(nn::Model& model, Communicator& communicator, const std::vector<WeightUnit>& units);

  /// Gets the parameters' values from their owners. `own`: this rank's parts of all units. Every rank calls it. Blocks.
  void share(const Tensor& own);
  /// Makes the model compute with this object's values for a unit's parameters.
  void bind(int unit);

 private:
  /// A part of a parameter that a rank owns.
  struct Piece {
    int64_t in_own = 0;     ///< its beginning in the rank's parts of all units
    int64_t in_values = 0;  ///< its beginning in `values_`
    int64_t elements = 0;
  };
  struct Place {
    Parameter* parameter;
    int unit;
    int64_t begin;  ///< its beginning in `values_`
  };

  nn::Model& model_;
  Communicator& communicator_;
  std::vector<Place> places_;
  std::vector<std::vector<Piece>> pieces_;  ///< by rank
  int64_t most_ = 0;                        ///< the largest number of elements in a rank's pieces
  Tensor values_;                           ///< undefined if there are no such parameters
};

}  // namespace dptrain::parallel
