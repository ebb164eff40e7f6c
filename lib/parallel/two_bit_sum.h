#pragma once

#include "parallel/bucket_sum.h"

namespace dptrain::parallel {

/// A bucket's gradients exchanged as -t, 0 or t, two bits each (MXNet's 2-bit gradient compression), t being each
/// tensor's own: a share of the root mean square of what is to be sent. What isn't sent is each rank's residual, which
/// joins its next gradients. Every rank gets all others' messages and adds them in the tree's order.
class TwoBitSum final : public BucketSum {
 public:
  /// A parameter's gradient and this rank's residual of it.
  struct Entry {
    Tensor gradient;
    Tensor residual;
  };
  struct Options {
    std::vector<Entry> entries;
    double threshold = 1;     ///< by the root mean square
    Tensor loss_factor = {};  ///< f32 [1], what losses are multiplied by; undefined for 1
  };
  TwoBitSum(Communicator& communicator, Options options);

  void start() override;
  void finish() override;

 private:
  /// Of one rank: the words of all entries, then their thresholds; or of all ranks, one after the other.
  struct Messages {
    Tensor bytes;  ///< u8
    int64_t words = 0;
    int64_t entries = 0;

    Tensor words_from(int64_t word) const;
    Tensor thresholds_from(int64_t entry) const;
  };
  /// The values of an entry, added over ranks.
  void decode(size_t entry, const Messages& messages, int64_t ranks) const;

  Communicator& communicator_;
  Options options_;
  std::vector<int64_t> first_words_;  ///< by entry
  Messages own_;
  Messages all_;
  std::unique_ptr<CommWork> gathering_;
};

}  // namespace dptrain::parallel
