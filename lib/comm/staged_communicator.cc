#include "comm/staged_communicator.h"

#include <cstddef>
#include <map>
#include <memory>
#include <mutex>
#include <utility>

#include "comm/comm_call.h"
#include "comm/message_work.h"

namespace dptrain {
namespace {

class PageableMemory final : public HostMemory {
 public:
  explicit PageableMemory(int64_t bytes)
      : HostMemory(nullptr), bytes_(std::make_unique_for_overwrite<std::byte[]>(static_cast<size_t>(bytes))) {
    data_ = bytes_.get();
  }

 private:
  std::unique_ptr<std::byte[]> bytes_;
};

/// Host memory that a device's tensors are copied to and from. Calls need the same sizes step after step, so each
/// reuses what an earlier one has given back.
class HostStaging {
 public:
  HostStaging(Device& device, Staging kind) : device_(device), kind_(kind) {}

  std::unique_ptr<HostMemory> take(int64_t bytes) {
    const std::lock_guard lock(mutex_);
    const auto kept = free_.find(bytes);
    if (kept == free_.end()) {
      if (kind_ == Staging::pinned) return device_.host_memory(bytes);
      return std::make_unique<PageableMemory>(bytes);
    }
    return std::move(free_.extract(kept).mapped());
  }
  void give_back(int64_t bytes, std::unique_ptr<HostMemory> memory) {
    const std::lock_guard lock(mutex_);
    free_.emplace(bytes, std::move(memory));
  }
  Device& device() { return device_; }

 private:
  Device& device_;
  const Staging kind_;
  std::mutex mutex_;
  std::multimap<int64_t, std::unique_ptr<HostMemory>> free_;  ///< by size
};

/// A copy of a buffer on the host, for as long as a call needs it.
class Staged {
 public:
  Staged(HostStaging& staging, const CommBuffer& buffer) : staging_(&staging), buffer_(buffer) {
    if (buffer.bytes() > 0) memory_ = staging.take(buffer.bytes());
  }
  ~Staged() {
    if (memory_) staging_->give_back(buffer_.bytes(), std::move(memory_));
  }
  Staged(Staged&&) = default;
  Staged& operator=(Staged&&) = delete;

  CommBuffer on_host() const {
    return {.data = memory_ ? memory_->data() : nullptr, .elements = buffer_.elements, .dtype = buffer_.dtype};
  }
  void fetch() {
    if (memory_) staging_->device().download(memory_->data(), buffer_.data, buffer_.bytes());
  }
  void bring_back() {
    if (memory_) staging_->device().upload(buffer_.data, memory_->data(), buffer_.bytes());
  }

 private:
  HostStaging* staging_;
  CommBuffer buffer_;
  std::unique_ptr<HostMemory> memory_;
};

class Done final : public CommWork {
 public:
  void wait() override {}
};

/// A message whose copy on the host is on its way.
struct StagedMessage {
  Staged staged;
  bool receives;
  std::unique_ptr<CommWork> on_host = {};  ///< must end before the copy that it reads or writes

  void finish() {
    on_host->wait();
    on_host.reset();
    if (receives) staged.bring_back();
  }
};

class StagedCommunicator final : public Communicator {
 public:
  StagedCommunicator(Device& device, std::unique_ptr<Communicator> host, Staging staging)
      : staging_(device, staging), host_(std::move(host)) {}

  int rank() const override { return host_->rank(); }
  int size() const override { return host_->size(); }

  std::unique_ptr<CommWork> start_all_reduce(const CommBuffer& buffer) override {
    in_place({.kind = CommKind::all_reduce, .in = buffer, .out = buffer},
             [&](const CommBuffer& staged) { host_->all_reduce(staged); });
    return std::make_unique<Done>();
  }
  std::unique_ptr<CommWork> start_reduce(const CommBuffer& buffer, int root) override {
    in_place({.kind = CommKind::reduce, .in = buffer, .out = buffer, .other = root},
             [&](const CommBuffer& staged) { host_->reduce(staged, root); });
    return std::make_unique<Done>();
  }
  void broadcast(const CommBuffer& buffer, int root) override {
    in_place({.kind = CommKind::broadcast, .in = buffer, .out = buffer, .other = root},
             [&](const CommBuffer& staged) { host_->broadcast(staged, root); });
  }
  std::unique_ptr<CommWork> start_reduce_scatter(const CommBuffer& in, const CommBuffer& out) override {
    from_to({.kind = CommKind::reduce_scatter, .in = in, .out = out},
            [&](const CommBuffer& from, const CommBuffer& to) { host_->reduce_scatter(from, to); });
    return std::make_unique<Done>();
  }
  std::unique_ptr<CommWork> start_all_gather(const CommBuffer& in, const CommBuffer& out) override {
    from_to({.kind = CommKind::all_gather, .in = in, .out = out},
            [&](const CommBuffer& from, const CommBuffer& to) { host_->all_gather(from, to); });
    return std::make_unique<Done>();
  }
  void gather(const CommBuffer& in, const CommBuffer& out, int root) override {
    from_to({.kind = CommKind::gather, .in = in, .out = rank() == root ? out : CommBuffer{}, .other = root},
            [&](const CommBuffer& from, const CommBuffer& to) { host_->gather(from, to, root); });
  }
  void scatter(const CommBuffer& in, const CommBuffer& out, int root) override {
    from_to({.kind = CommKind::scatter, .in = rank() == root ? in : CommBuffer{}, .out = out, .other = root},
            [&](const CommBuffer& from, const CommBuffer& to) { host_->scatter(from, to, root); });
  }
  std::unique_ptr<CommWork> start_send(const CommBuffer& buffer, int peer) override {
    check_call({.kind = CommKind::send, .in = buffer, .other = peer}, rank(), size());
    StagedMessage message{.staged = Staged(staging_, buffer), .receives = false};
    message.staged.fetch();
    message.on_host = host_->start_send(message.staged.on_host(), peer);
    return std::make_unique<MessageWork<StagedMessage>>(std::move(message));
  }
  std::unique_ptr<CommWork> start_receive(const CommBuffer& buffer, int peer) override {
    check_call({.kind = CommKind::receive, .out = buffer, .other = peer}, rank(), size());
    StagedMessage message{.staged = Staged(staging_, buffer), .receives = true};
    message.on_host = host_->start_receive(message.staged.on_host(), peer);
    return std::make_unique<MessageWork<StagedMessage>>(std::move(message));
  }
  void barrier() override { host_->barrier(); }

  void abort(const std::string& cause, ExitCode code) override { host_->abort(cause, code); }
  void show_on(Timeline* timeline, const std::string& other) override { host_->show_on(timeline, other); }
  CommCounts counts() const override { return host_->counts(); }
  CommWays ways() const override {
    CommWays ways = host_->ways();
    if (!ways.between_devices.empty()) ways.between_devices = "host_memory";
    return ways;
  }

 private:
  template <class Call>
  void in_place(const CommCall& checked, const Call& call) {
    check_call(checked, rank(), size());
    Staged staged(staging_, checked.in);
    staged.fetch();
    call(staged.on_host());
    staged.bring_back();
  }
  template <class Call>
  void from_to(const CommCall& checked, const Call& call) {
    check_call(checked, rank(), size());
    Staged from(staging_, checked.in), to(staging_, checked.out);
    from.fetch();
    call(from.on_host(), to.on_host());
    to.bring_back();
  }

  HostStaging staging_;
  std::unique_ptr<Communicator> host_;
};

}  // namespace

std::unique_ptr<Communicator> make_staged_communicator(Device& device, std::unique_ptr<Communicator> host,
                                                       Staging staging) {
  return std::make_unique<StagedCommunicator>(device, std::move(host), staging);
}

}  // namespace dptrain
