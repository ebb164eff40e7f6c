#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <memory_resource>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "comm/communicator_kind.h"
#include "comm/communicators.h"
#include "device/cuda_probe.h"
#include "device/device.h"

namespace dptrain {

/// Pinned host memory, which the test and the GPUs read and write. Blocks are cut from one large piece and reused when
/// they are free. The reason is that CUDA may make a caller that allocates or frees pinned memory wait for its GPU, and
/// the GPU may wait in NCCL for the rank of that caller.
class PinnedValues final : public std::pmr::memory_resource {
 public:
  static PinnedValues& instance() {
    static PinnedValues values;
    return values;
  }

 private:
  static constexpr size_t kSmallestBlock = 256;

  void* do_allocate(size_t bytes, size_t) override {
    const std::lock_guard lock(mutex_);
    const size_t block = std::bit_ceil(std::max(bytes, kSmallestBlock));
    std::vector<void*>& free = free_[block];
    if (free.empty()) return carve(block);
    void* const data = free.back();
    free.pop_back();
    return data;
  }
  void do_deallocate(void* data, size_t bytes, size_t) override {
    const std::lock_guard lock(mutex_);
    free_[std::bit_ceil(std::max(bytes, kSmallestBlock))].push_back(data);
  }
  bool do_is_equal(const memory_resource& other) const noexcept override { return this == &other; }

  void* carve(size_t block) {
    if (pieces_.empty() || used_ + block > pieces_.back().bytes) {
      const size_t bytes = std::max(block, piece_bytes_);
      pieces_.push_back({device_->host_memory(static_cast<int64_t>(bytes)), bytes});
      used_ = 0;
    }
    used_ += block;
    return static_cast<std::byte*>(pieces_.back().memory->data()) + used_ - block;
  }

  struct Piece {
    std::unique_ptr<HostMemory> memory;
    size_t bytes;
  };
  /// More than any test asks for with one rank per GPU.
  const size_t piece_bytes_ = cuda_devices().size() << 27;
  std::unique_ptr<Device> device_ = open_device({DeviceKind::cuda, 0});
  std::mutex mutex_;
  std::map<size_t, std::vector<void*>> free_;  // by the size of a block in bytes
  std::vector<Piece> pieces_;
  size_t used_ = 0;  // bytes of the last piece
};

/// A rank whose calls return only when its device has finished, so that the test can read the result at once.
class FinishedCommunicator final : public Communicator {
 public:
  FinishedCommunicator(std::shared_ptr<std::vector<std::unique_ptr<Device>>> devices,
                       std::unique_ptr<Communicator> inner)
      : devices_(std::move(devices)), inner_(std::move(inner)) {}

  int rank() const override { return inner_->rank(); }
  int size() const override { return inner_->size(); }
  std::unique_ptr<CommWork> start_all_reduce(const CommBuffer& buffer) override {
    enter();
    return std::make_unique<Work>(device(), inner_->start_all_reduce(buffer));
  }
  std::unique_ptr<CommWork> start_reduce(const CommBuffer& buffer, int root) override {
    enter();
    return std::make_unique<Work>(device(), inner_->start_reduce(buffer, root));
  }
  void broadcast(const CommBuffer& b, int root) override {
    finish([&] { inner_->broadcast(b, root); });
  }
  std::unique_ptr<CommWork> start_reduce_scatter(const CommBuffer& i, const CommBuffer& o) override {
    enter();
    return std::make_unique<Work>(device(), inner_->start_reduce_scatter(i, o));
  }
  std::unique_ptr<CommWork> start_all_gather(const CommBuffer& i, const CommBuffer& o) override {
    enter();
    return std::make_unique<Work>(device(), inner_->start_all_gather(i, o));
  }
  void gather(const CommBuffer& i, const CommBuffer& o, int r) override {
    finish([&] { inner_->gather(i, o, r); });
  }
  void scatter(const CommBuffer& i, const CommBuffer& o, int r) override {
    finish([&] { inner_->scatter(i, o, r); });
  }
  std::unique_ptr<CommWork> start_send(const CommBuffer& b, int peer) override {
    enter();
    return std::make_unique<Work>(device(), inner_->start_send(b, peer));
  }
  std::unique_ptr<CommWork> start_receive(const CommBuffer& b, int peer) override {
    enter();
    return std::make_unique<Work>(device(), inner_->start_receive(b, peer));
  }
  void barrier() override { inner_->barrier(); }
  void abort(const std::string& cause, ExitCode code) override { inner_->abort(cause, code); }
  CommCounts counts() const override { return inner_->counts(); }

 private:
  class Work final : public CommWork {
   public:
    Work(Device& device, std::unique_ptr<CommWork> inner)
        : device_(device), inner_(std::move(inner)), exceptions_(std::uncaught_exceptions()) {}
    Work(const Work&) = delete;
    Work& operator=(const Work&) = delete;
    ~Work() override {
      inner_.reset();
      // After a rank has failed, its GPU may wait for other ranks until it aborts: don't wait for the GPU then.
      if (std::uncaught_exceptions() == exceptions_) device_.synchronize();
    }
    void wait() override {
      inner_->wait();
      device_.synchronize();
    }

   private:
    Device& device_;
    std::unique_ptr<CommWork> inner_;
    int exceptions_;
  };

  Device& device() const { return *(*devices_)[static_cast<size_t>(rank())]; }
  void enter() const { device().enter_thread(); }
  template <class Call>
  void finish(const Call& call) {
    enter();
    call();
    device().synchronize();
  }

  std::shared_ptr<std::vector<std::unique_ptr<Device>>> devices_;
  std::unique_ptr<Communicator> inner_;
};

using DeviceList = std::vector<std::unique_ptr<Device>>;

/// The devices of ranks 0, 1, ...: where `kind_of` asks for a GPU, the machine's GPUs in turn.
inline std::shared_ptr<DeviceList> devices_of_ranks(int size, const std::function<DeviceKind(int rank)>& kind_of) {
  const int gpus = static_cast<int>(cuda_devices().size());
  auto devices = std::make_shared<DeviceList>();
  for (int rank = 0; rank < size; ++rank) {
    const DeviceKind kind = kind_of(rank);
    devices->push_back(open_device({kind, kind == DeviceKind::cuda ? rank % gpus : rank}, {.rank = rank}));
  }
  return devices;
}

/// Ranks on the machine's GPUs, in turn, or on CPU workers, as `kind_of` says. Without `deterministic`, different GPUs
/// add by NCCL.
inline CommunicatorKind gpu_communicators(const std::string& name, const std::function<DeviceKind(int rank)>& kind_of,
                                          bool deterministic = true) {
  if (cuda_devices().empty())
    return {.name = name, .absence = "no communicators of GPUs: " + cuda_absence(), .make = {}};
  return {
      .name = name,
      .meets_at_start = true,
      .make =
          [kind_of, deterministic](int size, double timeout_s) {
            const auto devices = devices_of_ranks(size, kind_of);
            std::vector<Device*> pointers;
            for (const auto& device : *devices) pointers.push_back(device.get());
            std::vector<std::unique_ptr<Communicator>> ranks;
            for (auto& inner : make_communicators(pointers, {.timeout_s = timeout_s, .deterministic = deterministic}))
              ranks.push_back(std::make_unique<FinishedCommunicator>(devices, std::move(inner)));
            return ranks;
          },
      .memory = &PinnedValues::instance()};
}

}  // namespace dptrain
