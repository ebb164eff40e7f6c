#include "comm/cuda_message.h"

#include <utility>

#include "comm/exchange_span.h"
#include "comm/message_work.h"
#include "device/cuda_check.h"

namespace dptrain {

/// A message on its way. Its sender and its receiver share it.
struct CudaMessage {
  CommBuffer buffer;
  CudaEvent ready;                                 ///< the sender's: the buffer holds the data to send
  std::shared_ptr<const CudaEvent> received = {};  ///< set by the receiver; belongs to its GPU
};

void CudaMailbox::put(std::shared_ptr<CudaMessage> message) {
  const std::lock_guard lock(mutex_);
  messages_.push_back(std::move(message));
}

std::shared_ptr<CudaMessage> CudaMailbox::take() {
  const std::lock_guard lock(mutex_);
  auto message = std::move(messages_.front());
  messages_.pop_front();
  return message;
}

namespace {

/// The sender meets the receiver twice: when the receiver wants the message, and when its GPU has been given the copy.
struct Sending {
  CudaDevice& device;
  std::shared_ptr<CudaMessage> message;
  std::unique_ptr<CommWork> answer;
  std::unique_ptr<CommWork> sent;

  void finish() {
    sent->wait();
    answer->wait();
    message->received->block(device.stream());
  }
};

/// The copy runs after the work that the device had been given when the message was started. It may run beside work
/// given since then.
struct Receiving {
  CudaMessageEnd end;
  CommBuffer buffer;
  CudaEvent ready;                      ///< nothing else uses the buffer any more
  std::shared_ptr<CudaEvent> received;  ///< made while the device is current on this thread
  std::unique_ptr<CommWork> met;

  void finish() {
    met->wait();
    const auto message = end.mail.take();
    const cudaStream_t stream = end.device.communication_stream();
    ready.block(stream);
    message->ready.block(stream);
    const int64_t span = begin_exchange(end.device, {.kind = CommKind::receive, .out = buffer, .other = end.peer});
    if (buffer.elements > 0)
      cuda_check(cudaMemcpyAsync(buffer.data, message->buffer.data, static_cast<size_t>(buffer.bytes()),
                                 cudaMemcpyDefault, stream),
                 "cudaMemcpyAsync");
    if (span != Timeline::kNone) end.device.communication_timeline()->end(span);
    received->record(stream);
    received->block(end.device.stream());
    message->received = received;
    end.answers.send({}, end.peer);  // the sender has been waiting for it since it started the send
  }
};

}  // namespace

std::unique_ptr<CommWork> start_cuda_send(const CudaMessageEnd& end, const CommBuffer& buffer) {
  auto message = std::make_shared<CudaMessage>(CudaMessage{.buffer = buffer, .ready = {}});
  message->ready.record(end.device.stream());
  end.mail.put(message);
  auto answer = end.answers.start_receive({}, end.peer);
  auto sent = end.calls.start_send(buffer, end.peer);
  return std::make_unique<MessageWork<Sending>>(
      Sending{end.device, std::move(message), std::move(answer), std::move(sent)});
}

std::unique_ptr<CommWork> start_cuda_receive(const CudaMessageEnd& end, const CommBuffer& buffer) {
  CudaEvent ready;
  ready.record(end.device.stream());
  return std::make_unique<MessageWork<Receiving>>(Receiving{
      end, buffer, std::move(ready), std::make_shared<CudaEvent>(), end.calls.start_receive(buffer, end.peer)});
}

}  // namespace dptrain
