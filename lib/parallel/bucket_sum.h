#pragma once

#include <memory>
#include <vector>

#include "comm/communicator.h"
#include "nn/model.h"

namespace dptrain::parallel {

/// How one rank's gradients of a bucket become the sum over all ranks, step after step. Every rank has one for the same
/// bucket and calls it alike; the three calls of a step come in this order, those of other buckets between them.
class BucketSum {
 public:
  virtual ~BucketSum() = default;
  /// The gradients are complete: begins to exchange them. They must not be touched until `finish` has returned.
  virtual void start() = 0;
  /// A later bucket has been started: what follows on the first exchange may be begun.
  virtual void go_on() {}
  /// Blocks until the gradients are the sum.
  virtual void finish() = 0;
};

/// The sum as it is: by an all-reduce, or by a reduce to the owner of each part.
class PlainSum final : public BucketSum {
 public:
  /// Elements [begin, end) of the model's gradients.
  struct Part {
    int64_t begin = 0;
    int64_t end = 0;
    int owner = kEverybody;
  };
  static constexpr int kEverybody = -1;
  /// `priority`: of its all-reduces, as the communicator has it.
  PlainSum(const nn::Model& model, Communicator& communicator, std::vector<Part> parts, int priority = 0);

  void start() override;
  void finish() override;

 private:
  const nn::Model& model_;
  Communicator& communicator_;
  std::vector<Part> parts_;
  int priority_;
  std::vector<std::unique_ptr<CommWork>> started_;
};

}  // namespace dptrain::parallel
