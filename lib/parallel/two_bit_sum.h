#pragma once

#include "parallel/bucket_sum.h"

namespace dptrain::parallel {

/// Exchanges a bucket's gradients as -t, 0 or t, two bits each (MXNet's 2-bit gradient compression). Each tensor has
/// its own t: a multiple of the root mean square of the values to be sent. The unsent rest is each rank's residual,
/// which is added to its next gradients. Every rank gets the messages of all ranks and adds them in the tree's order.
class TwoBitSum final : public BucketSum {
 public:
  /// A parameter's gradient and this rank's residual for it.
  struct Entry {
    Tensor gradient;
    Tensor residual;
  };
  struct Options {
    std::vector<Entry> entries;
    double threshold = 1;     ///< t divided by the root mean square
    Tensor loss_factor = {};  ///< f32 [1]: the factor that losses are multiplied by; undefined for 1
  };
  TwoBitSum(Communicator& communicator, Options options);

  void start() override;
  void finish() override;

 private:
  /// One rank's message: the words of all entries, then their thresholds. Or the messages of all ranks, one after the
  /// other.
  struct Messages {
    Tensor bytes;  ///< u8
    int64_t words = 0;
    int64_t entries = 0;

    Tensor words_from(int64_t word) const;
    Tensor thresholds_from(int64_t entry) const;
  };
  /// Decodes an entry and adds its values over ranks.
  void decode(size_t entry, const Messages& messages, int64_t ranks) const;

  Communicator& communicator_;
  Options options_;
  std::vector<int64_t> first_words_;  ///< by entry
  Messages own_;
  Messages all_;
  std::unique_ptr<CommWork> gathering_;
};

}  // namespace dptrain::parallel
