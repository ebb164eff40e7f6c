#include "comm/nccl_messages.h"

#include <algorithm>
#include <utility>

#include "comm/message_work.h"
#include "comm/nccl_work.h"
#include "device/allocator.h"

namespace dptrain {
namespace {

/// A byte of a GPU's memory.
class Byte {
 public:
  explicit Byte(Device& device)
      : device_(device), block_(device.allocator().allocate(1, MemoryPurpose::communication)) {}
  ~Byte() { device_.allocator().free(block_, MemoryPurpose::communication); }
  Byte(const Byte&) = delete;
  Byte& operator=(const Byte&) = delete;
  void* get() const { return block_.memory; }

 private:
  Device& device_;
  CachingAllocator::Block block_;
};

}  // namespace

void connect_pairs(const NcclLane& lane, const std::vector<Device*>& devices, int first_rank) {
  std::vector<std::unique_ptr<Byte>> bytes;
  for (Device* device : devices) {
    device->enter_thread();
    bytes.push_back(std::make_unique<Byte>(*device));
  }
  const auto stream_of = [&](int place) {
    return CudaDevice::of(*devices[static_cast<size_t>(place)]).communication_stream();
  };
  lane.group->call_at_all("connecting ranks", [&](int place, ncclComm_t comm, const NcclGroup::Note& note) {
    void* const byte = bytes[static_cast<size_t>(place)]->get();
    const int rank = first_rank + place;
    for (const RankPair& pair : lane.pairs) {
      if (pair.from == rank) note(ncclSend(byte, 1, ncclUint8, pair.to, comm, stream_of(place)));
      if (pair.to == rank) note(ncclRecv(byte, 1, ncclUint8, pair.from, comm, stream_of(place)));
    }
  });
  for (int place = 0; place < static_cast<int>(devices.size()); ++place) {
    devices[static_cast<size_t>(place)]->enter_thread();
    lane.group->expect(place, stream_of(place));
    CudaEvent connected(CudaEvent::WaitedFor::by_host);
    connected.record(stream_of(place));
    CudaDevice::of(*devices[static_cast<size_t>(place)]).wait_for(connected);
  }
}

/// A receive that its GPU hasn't been given yet.
struct NcclMessages::Receiving {
  NcclMessages& messages;
  CommCall call;
  std::unique_ptr<CommWork> meeting;
  CudaEvent ready;  ///< nothing else uses the buffer any more

  void finish() {
    meeting->wait();
    messages.give(call, ready)->wait();
  }
};

NcclMessages::NcclMessages(CudaDevice& device, int place, int rank, std::vector<NcclLane> lanes)
    : device_(device), place_(place), rank_(rank), lanes_(std::move(lanes)) {
  for (const NcclLane& lane : lanes_)
    for (const RankPair& pair : lane.pairs)
      if (pair.has(rank)) ways_.push_back({.group = lane.group.get(), .pair = pair});
}

const NcclMessages::Way* NcclMessages::way_of(const CommCall& call) const {
  const RankPair pair = call.kind == CommKind::send ? RankPair{.from = rank_, .to = call.other}
                                                    : RankPair{.from = call.other, .to = rank_};
  const auto way = std::ranges::find(ways_, pair, &Way::pair);
  return way != ways_.end() ? &*way : nullptr;
}

std::unique_ptr<CommWork> NcclMessages::start(const CommCall& call, std::unique_ptr<CommWork> meeting) {
  CudaEvent ready;
  ready.record(device_.stream());
  if (call.kind == CommKind::send) {
    std::unique_ptr<CudaWork> given = give(call, ready);
    return std::make_unique<NcclWork>(std::move(meeting), std::move(given));
  }
  return std::make_unique<MessageWork<Receiving>>(Receiving{*this, call, std::move(meeting), std::move(ready)});
}

std::unique_ptr<CudaWork> NcclMessages::give(const CommCall& call, const CudaEvent& ready) {
  const Way& way = *way_of(call);
  const cudaStream_t stream = way.stream.get();
  ready.block(stream);
  const CommBuffer& buffer = call.payload();
  const auto bytes = static_cast<size_t>(buffer.bytes());
  const bool sends = call.kind == CommKind::send;
  if (bytes > 0)
    way.group->call(place_, sends ? "ncclSend" : "ncclRecv", [&](ncclComm_t comm) {
      return sends ? ncclSend(buffer.data, bytes, ncclUint8, call.other, comm, stream)
                   : ncclRecv(buffer.data, bytes, ncclUint8, call.other, comm, stream);
    });
  way.group->expect(place_, stream);
  return std::make_unique<CudaWork>(device_, stream);
}

std::vector<NcclGroup*> NcclMessages::groups() const {
  std::vector<NcclGroup*> groups;
  for (const NcclLane& lane : lanes_) groups.push_back(lane.group.get());
  return groups;
}

}  // namespace dptrain
