#include "comm/cuda_communicator.h"

#include <map>
#include <utility>

#include "comm/comm_call.h"
#include "comm/cuda_message.h"
#include "comm/cuda_work.h"
#include "comm/exchange_span.h"
#include "comm/thread_communicator.h"
#include "comm/tree_sum_cuda.h"
#include "device/cuda_check.h"
#include "device/cuda_device.h"

namespace dptrain {
namespace {

/// What a rank shows all others while their threads meet.
struct Shown {
  CommCall call;
  CudaEvent ready;                  ///< its buffers hold the data that the call reads
  CudaEvent done;                   ///< its share of the work is done
  std::map<int, CudaMailbox> mail;  ///< by receiver
};

/// `meeting` compares the ranks' calls, counts them and enforces the deadline; the GPUs do the work. `answers` carries
/// receivers' answers to senders, separately from messages the other way.
class CudaCommunicator final : public Communicator {
 public:
  struct Meetings {
    std::unique_ptr<Communicator> calls;
    std::unique_ptr<Communicator> answers;
  };
  CudaCommunicator(CudaDevice& device, Meetings meetings, std::shared_ptr<std::vector<Shown>> shown)
      : device_(device),
        meeting_(std::move(meetings.calls)),
        answers_(std::move(meetings.answers)),
        shown_(std::move(shown)) {}

  int rank() const override { return meeting_->rank(); }
  int size() const override { return meeting_->size(); }

  std::unique_ptr<CommWork> start_all_reduce(const CommBuffer& buffer) override {
    return start({.kind = CommKind::all_reduce, .in = buffer, .out = buffer}, [&] { meeting_->all_reduce(buffer); });
  }
  std::unique_ptr<CommWork> start_reduce(const CommBuffer& buffer, int root) override {
    return start({.kind = CommKind::reduce, .in = buffer, .out = buffer, .other = root},
                 [&] { meeting_->reduce(buffer, root); });
  }
  void broadcast(const CommBuffer& buffer, int root) override {
    run({.kind = CommKind::broadcast, .in = buffer, .out = buffer, .other = root},
        [&] { meeting_->broadcast(buffer, root); });
  }
  std::unique_ptr<CommWork> start_reduce_scatter(const CommBuffer& in, const CommBuffer& out) override {
    return start({.kind = CommKind::reduce_scatter, .in = in, .out = out}, [&] { meeting_->reduce_scatter(in, out); });
  }
  std::unique_ptr<CommWork> start_all_gather(const CommBuffer& in, const CommBuffer& out) override {
    return start({.kind = CommKind::all_gather, .in = in, .out = out}, [&] { meeting_->all_gather(in, out); });
  }
  void gather(const CommBuffer& in, const CommBuffer& out, int root) override {
    run({.kind = CommKind::gather, .in = in, .out = rank() == root ? out : CommBuffer{}, .other = root},
        [&] { meeting_->gather(in, out, root); });
  }
  void scatter(const CommBuffer& in, const CommBuffer& out, int root) override {
    run({.kind = CommKind::scatter, .in = rank() == root ? in : CommBuffer{}, .out = out, .other = root},
        [&] { meeting_->scatter(in, out, root); });
  }
  std::unique_ptr<CommWork> start_send(const CommBuffer& buffer, int peer) override;
  std::unique_ptr<CommWork> start_receive(const CommBuffer& buffer, int peer) override;
  void barrier() override { meeting_->barrier(); }

  void abort(const std::string& cause, ExitCode code) override {
    meeting_->abort(cause, code);
    answers_->abort(cause, code);
  }
  CommCounts counts() const override { return meeting_->counts(); }
  CommWays ways() const override {
    return {.between_devices = size() > 1 ? "gpu_kernels" : "", .between_processes = ""};
  }

 private:
  Shown& shown(int rank) { return (*shown_)[static_cast<size_t>(rank)]; }
  template <class Meet>
  std::unique_ptr<CommWork> start(const CommCall& call, const Meet& meet);
  template <class Meet>
  void run(const CommCall& call, const Meet& meet) {
    start(call, meet)->wait();
  }

  CudaDevice& device_;
  std::unique_ptr<Communicator> meeting_;
  std::unique_ptr<Communicator> answers_;
  std::shared_ptr<std::vector<Shown>> shown_;  ///< by rank; each rank writes its own
};

template <class Meet>
std::unique_ptr<CommWork> CudaCommunicator::start(const CommCall& call, const Meet& meet) {
  check_call(call, rank(), size());
  Shown& own = shown(rank());
  own.call = call;
  own.ready.record(device_.stream());
  meet();
  const cudaStream_t stream = device_.communication_stream();
  std::vector<CommCall> calls;
  for (int r = 0; r < size(); ++r) {
    calls.push_back(shown(r).call);
    shown(r).ready.block(stream);
  }
  const int64_t span = begin_exchange(device_, call);
  for (const TreeSum& sum : sums_of(calls))
    run_tree_sum(device_, sum, rank() * sum.elements / size(), (rank() + 1) * sum.elements / size());
  own.done.record(stream);
  meeting_->barrier();
  for (int r = 0; r < size(); ++r) shown(r).done.block(stream);
  auto work = std::make_unique<CudaWork>(device_, stream, span);
  // Now all streams wait for these events, so they may be recorded again.
  meeting_->barrier();
  return work;
}

std::unique_ptr<CommWork> CudaCommunicator::start_send(const CommBuffer& buffer, int peer) {
  check_call({.kind = CommKind::send, .in = buffer, .other = peer}, rank(), size());
  return start_cuda_send(
      {.device = device_, .calls = *meeting_, .answers = *answers_, .mail = shown(rank()).mail.at(peer), .peer = peer},
      buffer);
}

std::unique_ptr<CommWork> CudaCommunicator::start_receive(const CommBuffer& buffer, int peer) {
  check_call({.kind = CommKind::receive, .out = buffer, .other = peer}, rank(), size());
  return start_cuda_receive(
      {.device = device_, .calls = *meeting_, .answers = *answers_, .mail = shown(peer).mail.at(rank()), .peer = peer},
      buffer);
}

/// Whether GPU `to` receives what GPU `from` holds: 1 MiB, compared on the host.
bool link_carries(CudaDevice& from, CudaDevice& to) {
  constexpr int64_t kBytes = int64_t{1} << 20;
  std::vector<uint8_t> pattern(kBytes), received(kBytes);
  for (size_t i = 0; i < pattern.size(); ++i) pattern[i] = static_cast<uint8_t>(i * 31 + i / 256);
  const auto there = from.allocator().allocate(kBytes, MemoryPurpose::communication);
  const auto here = to.allocator().allocate(kBytes, MemoryPurpose::communication);
  from.enter_thread();
  from.upload(there.memory, pattern.data(), kBytes);
  from.synchronize();
  to.enter_thread();
  to.copy(here.memory, there.memory, kBytes);
  to.download(received.data(), here.memory, kBytes);
  from.allocator().free(there, MemoryPurpose::communication);
  to.allocator().free(here, MemoryPurpose::communication);
  return received == pattern;
}

bool reaches(CudaDevice& reader, CudaDevice& owner) {
  int possible = 0;
  cuda_check(cudaDeviceCanAccessPeer(&possible, reader.id().index, owner.id().index), "cudaDeviceCanAccessPeer");
  if (possible == 0) return false;
  reader.enter_thread();
  const cudaError_t status = cudaDeviceEnablePeerAccess(owner.id().index, 0);
  // Clear the error, so that the next call doesn't report it. Access may be enabled already, or be impossible after
  // all, as in some virtual machines.
  if (status != cudaSuccess) cudaGetLastError();
  return (status == cudaSuccess || status == cudaErrorPeerAccessAlreadyEnabled) && link_carries(owner, reader);
}

}  // namespace

bool cuda_peers_reach(const std::vector<Device*>& devices) {
  std::map<std::pair<int, int>, bool> tried;
  for (Device* reader : devices)
    for (Device* owner : devices) {
      const std::pair link{reader->id().index, owner->id().index};
      if (link.first == link.second || tried.contains(link)) continue;
      if (!(tried[link] = reaches(CudaDevice::of(*reader), CudaDevice::of(*owner)))) return false;
    }
  return true;
}

std::vector<std::unique_ptr<Communicator>> make_cuda_communicators(const std::vector<Device*>& devices,
                                                                   double timeout_s) {
  const auto size = static_cast<int>(devices.size());
  const ThreadGroupOptions meet{.timeout_s = timeout_s, .meet_only = true};
  auto calls = make_thread_communicators(size, meet), answers = make_thread_communicators(size, meet);
  auto shown = std::make_shared<std::vector<Shown>>();
  shown->reserve(devices.size());
  for (Device* device : devices) {
    device->enter_thread();  // an event belongs to the GPU that records it
    // Make a mailbox for every receiver before any thread looks for one.
    Shown& made = shown->emplace_back();
    for (int receiver = 0; receiver < size; ++receiver) made.mail.try_emplace(receiver);
  }
  std::vector<std::unique_ptr<Communicator>> ranks;
  for (size_t rank = 0; rank < devices.size(); ++rank)
    ranks.push_back(std::make_unique<CudaCommunicator>(
        CudaDevice::of(*devices[rank]),
        CudaCommunicator::Meetings{.calls = std::move(calls[rank]), .answers = std::move(answers[rank])}, shown));
  return ranks;
}

}  // namespace dptrain
