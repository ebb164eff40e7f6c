#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "comm/communicator.h"
#include "optim/flat_weights.h"
#include "parallel/owned_range.h"

namespace dptrain::parallel {

/// Combines what ranks have learned by themselves, pair by pair up the tree over ranks (see Communicator), with Adasum
/// (ops/adasum.h). One for each rank; used by its thread. Every rank makes the same calls.
///
/// Each rank combines one part of all ranks' vectors, so an exchange sends about as much as an all-reduce. Only the
/// parts' squares are summed. These sums are exact, so the result has the same bits however ranks are divided among
/// threads, processes and kinds of devices.
class AdasumExchange {
 public:
  /// `flat`: all weights of the model. `between` is called between two exchanges.
  AdasumExchange(Communicator& communicator, const optim::FlatWeights& flat, std::function<void()> between);

  /// Replaces `change` (f32, flat, in the order of the weights) by the combination of all ranks' changes.
  void combine(const Tensor& change);

 private:
  const OwnedRange& own() const { return parts_[static_cast<size_t>(communicator_.rank())]; }
  /// Brings this rank's part of every rank's change here. Element r is rank r's.
  std::vector<Tensor> collect(const Tensor& change);
  /// Combines this rank's part of all vectors in the first one.
  void combine_parts(const std::vector<Tensor>& vectors);
  /// Sums squares over all ranks.
  void add_up(const Tensor& squares);
  void hand_out(const Tensor& combined, const Tensor& change);

  Communicator& communicator_;
  std::function<void()> between_;
  std::vector<OwnedRange> parts_;  ///< by rank; equally long but for the last ones, which may be shorter or empty
  int64_t part_elements_ = 0;      ///< of the longest part
  ops::TensorTable table_;         ///< of this rank's part
};

}  // namespace dptrain::parallel
