#pragma once

#include <deque>
#include <memory>
#include <mutex>

#include "comm/communicator.h"
#include "device/cuda_device.h"

namespace dptrain {

struct CudaMessage;

/// Messages from one rank to another that the receiver hasn't taken yet, oldest first.
class CudaMailbox {
 public:
  void put(std::shared_ptr<CudaMessage> message);
  std::shared_ptr<CudaMessage> take();

 private:
  std::mutex mutex_;
  std::deque<std::shared_ptr<CudaMessage>> messages_;
};

/// A rank's end of the messages to or from a peer. `calls` compares the ends of a message, counts it and enforces the
/// deadline. `answers` carries the receiver's answers to the sender, separately from messages the other way. Neither
/// touches a buffer.
struct CudaMessageEnd {
  CudaDevice& device;
  Communicator& calls;
  Communicator& answers;
  CudaMailbox& mail;
  int peer;
};

/// Start a message between GPUs as Communicator::start_send and start_receive do. The receiver's GPU makes the copy.
std::unique_ptr<CommWork> start_cuda_send(const CudaMessageEnd& end, const CommBuffer& buffer);
std::unique_ptr<CommWork> start_cuda_receive(const CudaMessageEnd& end, const CommBuffer& buffer);

}  // namespace dptrain
