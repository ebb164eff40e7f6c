#pragma once

#include <functional>
#include <utility>
#include <vector>

#include "comm/communicator.h"
#include "nn/model.h"
#include "parallel/owned_range.h"

namespace dptrain::parallel {

/// Values laid out as a model's trained weights and divided into ranges, each stored by one rank. They are read and
/// written one parameter at a time, so that no rank needs memory for all of them. Every rank has its own
/// DealtOutValues, which the rank's thread uses.
class DealtOutValues {
 public:
  /// `ranges`: cover all elements, in order.
  DealtOutValues(const nn::Model& model, Communicator& communicator, std::vector<OwnedRange> ranges)
      : model_(model), communicator_(communicator), ranges_(std::move(ranges)) {}

  const std::vector<OwnedRange>& ranges() const { return ranges_; }

  /// Returns the flat values of a range that this rank owns.
  using OwnValues = std::function<Tensor(size_t range)>;
  /// Returns a parameter's values, in its shape and layout, on rank 0; an undefined tensor on the other ranks. Every
  /// rank calls it. Blocks.
  Tensor gather(const Parameter& parameter, const OwnValues& own) const;
  /// Copies this rank's part of a parameter's values into the ranges that it owns. `values` returns the parameter's
  /// values as one flat tensor in memory order; it is called only if the rank owns some of the parameter.
  void take(const Parameter& parameter, const std::function<Tensor()>& values, const OwnValues& own) const;

 private:
  /// Elements [begin, end) of the flat buffers that belong to both a parameter and a range.
  struct Part {
    size_t range;
    int64_t begin;
    int64_t end;
  };
  std::vector<Part> parts_of(const Parameter& parameter) const;
  Tensor own_part(const Part& part, const OwnValues& own) const;

  const nn::Model& model_;
  Communicator& communicator_;
  std::vector<OwnedRange> ranges_;
};

}  // namespace dptrain::parallel
