#pragma once

#include <functional>
#include <utility>
#include <vector>

#include "comm/communicator.h"
#include "nn/model.h"
#include "parallel/owned_range.h"

namespace dptrain::parallel {

/// Values that lie as a model's trained weights do and that ranks have in ranges, each its own: read and written
/// parameter by parameter, so that nobody needs memory for all of them. One end for each rank, used by its thread.
class DealtOutValues {
 public:
  /// `ranges`: all elements in order.
  DealtOutValues(const nn::Model& model, Communicator& communicator, std::vector<OwnedRange> ranges)
      : model_(model), communicator_(communicator), ranges_(std::move(ranges)) {}

  const std::vector<OwnedRange>& ranges() const { return ranges_; }

  /// The values of a range that this rank owns, flat.
  using OwnValues = std::function<Tensor(size_t range)>;
  /// A parameter's values, as it lies, on rank 0; undefined elsewhere. Every rank calls it. Blocks.
  Tensor gather(const Parameter& parameter, const OwnValues& own) const;
  /// Makes a rank's part of these its own; `values`: all that the parameter has in memory, flat, asked for where the
  /// rank owns some of it.
  void take(const Parameter& parameter, const std::function<Tensor()>& values, const OwnValues& own) const;

 private:
  /// What a range has of a parameter: its elements [begin, end) of the flat buffers.
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
