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

/// A piece of memory that a collective reads or writes. It is on the calling rank's device.
struct CommBuffer {
  void* data = nullptr;
  int64_t elements = 0;
  DType dtype = DType::f32;

  int64_t bytes() const { return elements * dtype_bytes(dtype); }
};

/// Wraps values in host memory as a buffer for a collective.
template <class T>
CommBuffer buffer_of(std::vector<T>& values) {
  return {.data = values.data(), .elements = static_cast<int64_t>(values.size()), .dtype = dtype_of<T>()};
}

/// What this rank has sent so far. Only payload counts, and it counts as a network would carry it.
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

/// How a communicator carries sums. A field is empty if no sum goes that way.
struct CommWays {
  /// Between devices of one process:
  ///   "memory"        CPU workers read and write each other's memory
  ///   "gpu_kernels"   GPUs read and write each other's memory by kernels and copies
  ///   "nccl"          NCCL carries the sums
  ///   "host_memory"   the GPUs' buffers are copied to host memory and back
  std::string between_devices;
  /// Between processes: "nccl", "mpi", or "servers" (the servers of a key-value store).
  std::string between_processes;
};

/// A collective or a message that has been started. It goes on while its rank computes.
class CommWork {
 public:
  virtual ~CommWork() = default;
  /// Blocks until the result is ready. Throws the root cause if a rank failed, and an error with exit code 75 when the
  /// deadline passes.
  virtual void wait() = 0;
};

/// One rank's end of a group of ranks that compute together. Every rank of the group makes the same calls in the same
/// order. If a call differs (another operation or another size), all ranks fail with exit code 76; the error names both
/// calls.
///
/// Sums follow one fixed order: the balanced binary tree over rank numbers, ((0+1)+(2+3))+... The order does not depend
/// on the kind of communicator, the sizes of buckets or which rank arrives first. So runs and strategies that add the
/// same numbers give bit-identical results. If n is not a power of two, the tree of n ranks is the tree of its first
/// part plus the tree of the rest. The first part has as many ranks as the largest power of two below n: 3 ranks are
/// (0+1)+2, 5 ranks are ((0+1)+(2+3))+4.
///
/// With buffers in GPU memory, a call "blocks" the device, not the host. It returns when its work has been given to the
/// device, and whatever the device is given next sees the result.
///
/// Every wait for another rank has a deadline. A rank that fails calls `abort`. All other ranks then throw its cause
/// from the call that they are in.
class Communicator {
 public:
  virtual ~Communicator() = default;

  virtual int rank() const = 0;
  virtual int size() const = 0;

  /// Sums over all ranks, in place. Blocks.
  void all_reduce(const CommBuffer& buffer) { start_all_reduce(buffer)->wait(); }
  /// Starts an all-reduce. `buffer` must not be touched until `wait` has returned. Collectives may be started before
  /// earlier ones have been waited for, but all ranks must start them in the same order.
  virtual std::unique_ptr<CommWork> start_all_reduce(const CommBuffer& buffer) = 0;
  /// Starts an all-reduce with a priority; everything else has priority 0. Among the operations under way, the one with
  /// the highest priority goes first, even if it was started later. A communicator that can't choose ignores the
  /// priority.
  virtual std::unique_ptr<CommWork> start_prioritized_all_reduce(const CommBuffer& buffer, int /*priority*/) {
    return start_all_reduce(buffer);
  }
  /// Sums into the root's buffer and leaves the other ranks' buffers unchanged. Blocks until the root has the sum and
  /// every other rank may reuse its buffer.
  void reduce(const CommBuffer& buffer, int root) { start_reduce(buffer, root)->wait(); }
  /// Starts a reduce; the rules of `start_all_reduce` hold.
  virtual std::unique_ptr<CommWork> start_reduce(const CommBuffer& buffer, int root) = 0;
  /// Copies the root's buffer to all ranks. Blocks.
  virtual void broadcast(const CommBuffer& buffer, int root) = 0;
  /// Sums parts: `in` holds size() equal parts, and the sum of part r is written to `out` of rank r. Blocks.
  void reduce_scatter(const CommBuffer& in, const CommBuffer& out) { start_reduce_scatter(in, out)->wait(); }
  /// Starts a reduce-scatter; the rules of `start_all_reduce` hold.
  virtual std::unique_ptr<CommWork> start_reduce_scatter(const CommBuffer& in, const CommBuffer& out) = 0;
  /// Copies rank r's `in` to part r of every rank's `out`, which holds size() equal parts. Blocks.
  void all_gather(const CommBuffer& in, const CommBuffer& out) { start_all_gather(in, out)->wait(); }
  /// Starts an all-gather; the rules of `start_all_reduce` hold.
  virtual std::unique_ptr<CommWork> start_all_gather(const CommBuffer& in, const CommBuffer& out) = 0;
  /// Copies each rank's `in` to the root's `out`, in the order of the ranks and without gaps. Parts may differ in size,
  /// or be empty. `out` is used on the root only. Blocks.
  virtual void gather(const CommBuffer& in, const CommBuffer& out, int root) = 0;
  /// Does the reverse of `gather`: fills each rank's `out` from the root's `in`, in the order of the ranks and without
  /// gaps. Blocks.
  virtual void scatter(const CommBuffer& in, const CommBuffer& out, int root) = 0;
  /// Sends one message to `peer`, which must receive a message of the same size from this rank. Blocks until the peer
  /// has received it.
  void send(const CommBuffer& buffer, int peer) { start_send(buffer, peer)->wait(); }
  void receive(const CommBuffer& buffer, int peer) { start_receive(buffer, peer)->wait(); }
  /// Starts a message: `buffer` must not be touched until `wait` has returned. Starting never blocks. Messages from one
  /// rank to another arrive in the order in which both ranks started them, and must be waited for in that order.
  virtual std::unique_ptr<CommWork> start_send(const CommBuffer& buffer, int peer) = 0;
  virtual std::unique_ptr<CommWork> start_receive(const CommBuffer& buffer, int peer) = 0;
  /// Blocks until every rank has called it.
  virtual void barrier() = 0;

  /// Ends every wait of every rank, now and later, with `cause` and `code`. The first cause stays. Never blocks.
  virtual void abort(const std::string& cause, ExitCode code) = 0;
  void abort(const std::string& cause) { abort(cause, ExitCode::peer_lost); }

  /// Shows this rank's calls on `timeline` from now on; null stops that. A call is shown from its start until its
  /// result is ready, as far as it goes through this process's memory. GPUs show what they carry themselves: see
  /// Device::show_on. The timeline must outlive the calls. `other` names the other end of a message ("server 1"); by
  /// default it is the rank.
  virtual void show_on(Timeline* /*timeline*/, const std::string& /*other*/ = {}) {}

  virtual CommCounts counts() const = 0;
  /// The way in use; if there are several, the one that has carried the most bytes so far.
  virtual CommWays ways() const { return {}; }

  /// Whether all-reduces, reduces and reduce-scatters of this type can be recorded with a device's work. If those of
  /// f32 can, broadcasts and all-gathers can too. Ranks must record and replay together.
  virtual bool can_be_recorded(DType /*dtype*/) const { return false; }
  /// Until `end_recordable`, sends these collectives along the path that can be recorded. That holds whether they are
  /// being recorded or not, so both give bit-identical results. All ranks must call it with the same `apart`.
  ///
  /// `apart`: no device does anything else meanwhile. A GPU loads a kernel when it first needs it, and may wait for all
  /// its other work to do so. That work must not wait for another GPU of the process that would have to load a kernel
  /// too.
  virtual void begin_recordable(bool /*apart*/) {}
  virtual void end_recordable() {}
  /// Adds what a replay of recorded work sends.
  virtual void count_replay(const CommCounts&) {}
};

}  // namespace dptrain
