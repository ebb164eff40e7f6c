#pragma once

#include <memory>
#include <utility>

#include "comm/cuda_work.h"

namespace dptrain {

/// Work given to NCCL, and the meeting of the ranks' threads that compares their calls. Ranks whose calls differ would
/// hang in NCCL until the meeting fails because of it.
class NcclWork final : public CommWork {
 public:
  NcclWork(std::unique_ptr<CommWork> meeting, std::unique_ptr<CudaWork> given)
      : meeting_(std::move(meeting)), given_(std::move(given)) {}
  void wait() override {
    meeting_->wait();
    given_->wait();
  }

 private:
  std::unique_ptr<CommWork> meeting_;
  std::unique_ptr<CudaWork> given_;
};

}  // namespace dptrain
