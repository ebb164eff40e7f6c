#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/exit_code.h"
#include "tensor/dtype.h"

namespace dptrain {

class Timeline;

/// A piece of memory that a collective reads or writes, on the device of the calling rank.
struct CommBuffer {
  void* data = nullptr;
  int64_t elements = 0;
  DType dtype = DType::f32;

  int64_t bytes() const { return elements * dtype_bytes(dtype); }
};

/// Values on the host as a collective sees them.
template <class T>
CommBuffer buffer_of(std::vector<T>& values) {
  return {.data = values.data(), .elements = static_cast<int64_t>(values.size()), .dtype = dtype_of<T>()};
}

/// What this rank has sent so far: payload only, counted as a network would carry it.
struct CommCounts {
  int64_t bytes = 0;
  int64_t collectives = 0;

  CommCounts& operator+=(const CommCounts& more) {
    bytes += more.bytes;
    collectives += more.collectives;
    return *this;
  }
  CommCounts operator-(const CommCounts& before) const {
    return {.bytes = bytes - before.bytes, .collectives = collectives - before.collectives};
  }
};

/// By which way a communicator carries sums; empty where it has nothing to carry there.
struct CommWays {
  /// Of one process: "memory", CPU workers read and write each other's; "gpu_kernels", GPUs do, by kernels and copies;
  /// "nccl"; "host_memory", to which GPUs' buffers are copied, and from it.
  std::string between_devices;
  /// "nccl"; "mpi"; "servers", those of a key-value store.
  std::string between_processes;
};

/// A collective or a message that was started and goes on while its rank computes.
class CommWork {
 public:
  virtual ~CommWork() = default;
  /// Blocks until the result is there. Throws the root cause where a rank failed, 75 when the deadline passes.
  virtual void wait() = 0;
};

/// One rank's end of a group of ranks that compute together. Every rank of the group makes the same calls in the same
/// order; a call that differs (another operation, another size) ends all of them with 76, naming both.
///
/// Sums follow one fixed order whatever the kind of communicator, the sizes of buckets, or who arrives first: the
/// balanced binary tree over rank numbers, ((0+1)+(2+3))+..., so that runs and strategies that add the same numbers end
/// in the same bits. For a size that is no power of two the tree of n ranks is that of its first half (the largest
/// power of two below n) plus that of the rest: 3 is (0+1)+2, 5 is ((0+1)+(2+3))+4.
///
/// Over buffers of a GPU a call "blocks" the device rather than the host: its result is there for whatever the device
/// is given next, and the call returns when the work has been given.
///
/// Every wait for another rank has a deadline. A rank that fails calls `abort`; all others then throw its cause from
/// the call they are in.
class Communicator {
 public:
  virtual ~Communicator() = default;

  virtual int rank() const = 0;
  virtual int size() const = 0;

  /// Sums over all ranks, in place. Blocks.
  void all_reduce(const CommBuffer& buffer) { start_all_reduce(buffer)->wait(); }
  /// The same, started: `buffer` must not be touched until `wait` has returned. Collectives may be started before
  /// earlier ones are waited for; their order of starting must be the same on all ranks.
  virtual std::unique_ptr<CommWork> start_all_reduce(const CommBuffer& buffer) = 0;
  /// The same with a priority, which is 0 for everything else: of what is under way at once, that of the higher
  /// priority goes first, also before what was started earlier. A communicator that can't choose carries it as any
  /// other.
  virtual std::unique_ptr<CommWork> start_prioritized_all_reduce(const CommBuffer& buffer, int /*priority*/) {
    return start_all_reduce(buffer);
  }
  /// Sums into the root's buffer; the other ranks' buffers are left as they were. Blocks until the root has the sum and
  /// every other rank may reuse its buffer.
  void reduce(const CommBuffer& buffer, int root) { start_reduce(buffer, root)->wait(); }
  /// The same, started, as `start_all_reduce` does it.
  virtual std::unique_ptr<CommWork> start_reduce(const CommBuffer& buffer, int root) = 0;
  /// Copies the root's buffer to all ranks. Blocks.
  virtual void broadcast(const CommBuffer& buffer, int root) = 0;
  /// `in` holds size() equal parts; the sum of part r ends in `out` of rank r. Blocks.
  void reduce_scatter(const CommBuffer& in, const CommBuffer& out) { start_reduce_scatter(in, out)->wait(); }
  /// The same, started, as `start_all_reduce` does it.
  virtual std::unique_ptr<CommWork> start_reduce_scatter(const CommBuffer& in, const CommBuffer& out) = 0;
  /// Rank r's `in` ends as part r of every rank's `out` (size() equal parts). Blocks.
  void all_gather(const CommBuffer& in, const CommBuffer& out) { start_all_gather(in, out)->wait(); }
  /// The same, started, as `start_all_reduce` does it.
  virtual std::unique_ptr<CommWork> start_all_gather(const CommBuffer& in, const CommBuffer& out) = 0;
  /// Rank r's `in` (parts may differ in size, or be empty) ends in the root's `out` at the sum of the sizes before it.
  /// `out` is read on the root only. Blocks.
  virtual void gather(const CommBuffer& in, const CommBuffer& out, int root) = 0;
  /// The reverse: rank r's `out` is filled from the root's `in` at the sum of the sizes before it. Blocks.
  virtual void scatter(const CommBuffer& in, const CommBuffer& out, int root) = 0;
  /// One message to `peer`, which must receive from this rank and the same size. Blocks until it was received.
  void send(const CommBuffer& buffer, int peer) { start_send(buffer, peer)->wait(); }
  void receive(const CommBuffer& buffer, int peer) { start_receive(buffer, peer)->wait(); }
  /// The same, started: `buffer` must not be touched until `wait` has returned. Starting waits for nobody. Messages
  /// from one rank to another arrive in the order in which both started them, and are waited for in that order.
  virtual std::unique_ptr<CommWork> start_send(const CommBuffer& buffer, int peer) = 0;
  virtual std::unique_ptr<CommWork> start_receive(const CommBuffer& buffer, int peer) = 0;
  /// Blocks until every rank has called it.
  virtual void barrier() = 0;

  /// Ends every wait of every rank, now and later, with `cause` and `code`; the first cause given stays. Never blocks.
  virtual void abort(const std::string& cause, ExitCode code) = 0;
  void abort(const std::string& cause) { abort(cause, ExitCode::peer_lost); }

  /// From now on this rank's calls are shown there, from their start to when their results were there, as far as they
  /// go through this process's memory; null: nowhere. What GPUs carry by themselves they show: see Device::show_on. The
  /// timeline outlives the calls. `other`: what stands for the other end of a message, "server 1"; by default its rank.
  virtual void show_on(Timeline* /*timeline*/, const std::string& /*other*/ = {}) {}

  virtual CommCounts counts() const = 0;
  /// Where it has several, that of most bytes so far.
  virtual CommWays ways() const { return {}; }

  /// Whether all-reduces, reduces and reduce-scatters of such numbers may be recorded with a device's work; where those
  /// of f32 may, broadcasts and all-gathers may, too. Ranks then record and replay together.
  virtual bool can_be_recorded(DType /*dtype*/) const { return false; }
  /// From here to `end_recordable` these go the way that they can be recorded on, whether they are or not, so that they
  /// end in the same bits. `apart`: no device is at anything else meanwhile. A GPU that comes to a kernel for the first
  /// time loads it, for which it may wait for all that it is at work on: that may not wait for another GPU of the
  /// process, which would load one, too. All ranks call it alike.
  virtual void begin_recordable(bool /*apart*/) {}
  virtual void end_recordable() {}
  /// Counts what a replay of recorded work sends.
  virtual void count_replay(const CommCounts&) {}
};

}  // namespace dptrain
