#pragma once

#include <memory>
#include <vector>

#include "comm/communicator.h"
#include "nn/model.h"

namespace dptrain::parallel {

/// Turns one rank's gradients of a bucket into their sum over all ranks, step after step. Every rank has a BucketSum
/// for the same bucket and makes the same calls. In a step `start`, `go_on` and `finish` are called in this order;
/// `go_on` may be left out, as for the last bucket. Calls for other buckets may come between them.
class BucketSum {
 public:
  virtual ~BucketSum() = default;
  /// Starts to exchange the gradients, which are complete. They must not be touched until `finish` has returned.
  virtual void start() = 0;
  /// Called when a later bucket has been started. A sum with several exchanges may start its next exchange here.
  virtual void go_on() {}
  /// Blocks until the gradients are the sum over all ranks.
  virtual void finish() = 0;
};

/// Sums gradients uncompressed, by an all-reduce or by a reduce to the owner of each part.
class PlainSum final : public BucketSum {
 public:
  /// Elements [begin, end) of the model's gradients, and the rank that gets their sum.
  struct Part {
    int64_t begin = 0;
    int64_t end = 0;
    int owner = kEverybody;
  };
  static constexpr int kEverybody = -1;
  /// `priority`: priority of the all-reduces; see Communicator::start_prioritized_all_reduce.
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
