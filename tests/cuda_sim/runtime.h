// The simulated machine: work with its dependencies, streams, events, devices, allocations. One mutex guards all of it;
// work runs without the mutex.
#pragma once

#include <cuda_runtime_api.h>

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <unordered_set>
#include <vector>

namespace dptrain::cuda_sim {

struct Op;
struct Capture;
using Lock = std::unique_lock<std::mutex>;
// Returns the error that becomes the device's sticky error.
using Body = std::function<cudaError_t()>;

// Work of several streams that runs once, when all members' predecessors are done: a collective.
struct Rendezvous {
  std::size_t expected = 0;
  std::vector<std::shared_ptr<Op>> members;
  bool failed = false;  // then members end without running and without waiting for each other
  std::function<void()> run;
  bool complete() const { return members.size() == expected; }
};

enum class OpState { kPending, kRunning, kDone };

struct Op {
  std::uint64_t sequence = 0;
  int device = 0;
  OpState state = OpState::kPending;
  std::vector<std::shared_ptr<Op>> predecessors;  // emptied when done
  std::vector<std::weak_ptr<Op>> successors;
  int unmet = 0;  // predecessors that are not done
  Body body;
  std::shared_ptr<Rendezvous> rendezvous;
  bool held = false;            // until other processes have given their part
  std::uint64_t needed_by = 0;  // the last search that reached this operation
  std::chrono::steady_clock::time_point done_at;
};
using OpPtr = std::shared_ptr<Op>;

// What a call adds to a stream. `join` makes the operation a member of a collective, at the call or at each replay.
struct Work {
  Body body;
  std::function<void(const OpPtr&)> join;
  cudaGraphNodeType type = cudaGraphNodeTypeKernel;
};

struct Device {
  std::size_t used_bytes = 0;
  cudaError_t sticky = cudaSuccess;
  std::set<cudaStream_t> streams;
  std::unique_ptr<CUstream_st> legacy;
  std::vector<OpPtr> orphans;  // last work of destroyed streams
};

enum class Place { kPageable, kPinned, kDevice };
struct Allocation {
  std::size_t bytes = 0;
  Place place = Place::kPageable;
  int device = 0;
  bool registered = false;  // by cudaHostRegister: we must not free it
};

struct Runtime {
  std::mutex mutex;
  std::condition_variable changed;  // work was added or ended
  std::uint64_t next_sequence = 1;
  std::uint64_t next_search = 1;
  std::vector<Device> devices;
  std::size_t device_bytes = 0;
  std::map<std::uintptr_t, Allocation> allocations;  // by first address
  std::unordered_set<cudaStream_t> streams;
  std::unordered_set<cudaEvent_t> events;
  std::vector<std::shared_ptr<Capture>> captures;  // in progress
};
Runtime& runtime();

// State of a host thread.
struct Caller {
  int device = 0;
  cudaError_t last_error = cudaSuccess;
  cudaStreamCaptureMode capture_mode = cudaStreamCaptureModeGlobal;
  std::map<int, std::unique_ptr<CUstream_st>> own_streams;  // cudaStreamPerThread by device
  ~Caller();
};
Caller& caller();

// Remembers an error for cudaGetLastError. cudaErrorNotReady isn't remembered.
cudaError_t finish(cudaError_t error);
// Does as finish(), and prints a line on stderr.
cudaError_t refuse(cudaError_t error, const std::string& why);
// cudaSuccess, cudaErrorNoDevice or the current device's sticky error.
cudaError_t usable();

// Defined in engine.cc; called with the lock held. `precede` does nothing for work that is done.
OpPtr make_op(int device, Body body);
void precede(const OpPtr& op, const OpPtr& predecessor);
// Makes `op` a member of a rendezvous.
void join_rendezvous(const OpPtr& op, const std::shared_ptr<Rendezvous>& rendezvous);
void fail_rendezvous(const std::shared_ptr<Rendezvous>& rendezvous);
// Runs the work that `targets` need, and waits for other threads that run some of it. Unlocks meanwhile.
void wait_for(Lock& lock, const std::vector<OpPtr>& targets);
// Runs one operation that `target` needs. Unlocks meanwhile.
void make_progress(Lock& lock, const OpPtr& target);

// Defined in stream.cc; called with the lock held.
// Null if there is no such stream. The stream for 0, cudaStreamLegacy or cudaStreamPerThread is made when first used.
CUstream_st* find_stream(cudaStream_t handle);
// The operations after which all of the stream's work so far is done; empty where there is none.
std::vector<OpPtr> tails(const CUstream_st& stream);
std::vector<OpPtr> device_tails(int device);
// Adds an operation at the stream's end. Not for streams that capture.
OpPtr append(CUstream_st& stream, Body body);
// Adds work to a stream, or to the graph that it captures. `op` receives the new operation, null while capturing.
cudaError_t submit(CUstream_st& stream, const Work& work, OpPtr* op = nullptr);
// Adds several operations without an order among them, and then one that waits for them all.
cudaError_t submit_group(CUstream_st& stream, const std::vector<Work>& works);

// Defined in capture.cc; called with the lock held.
// For calls that a capture forbids: returns cudaSuccess, or invalidates the captures concerned and returns the error.
cudaError_t check_unsafe();
// For waits and queries of a stream or of a whole device.
cudaError_t check_not_capturing(const CUstream_st& stream);
cudaError_t check_device_not_capturing(int device);
cudaError_t capture_work(CUstream_st& stream, const std::vector<Work>& works);
cudaError_t capture_wait(CUstream_st& stream, CUevent_st& event);
// Checks work for the legacy stream while a stream that waits for it captures.
cudaError_t check_legacy(const CUstream_st& stream);

// Defined in memory.cc; called with the lock held. Null where `address` is in no allocation.
const Allocation* find_allocation(const void* address, std::size_t* bytes_after = nullptr);

}  // namespace dptrain::cuda_sim

struct CUstream_st {
  int device = 0;
  unsigned flags = 0;
  int priority = 0;
  bool legacy = false;
  dptrain::cuda_sim::OpPtr tail;
  std::shared_ptr<dptrain::cuda_sim::Capture> capture;
  std::vector<std::size_t> capture_tail;  // nodes that the next captured node follows
};

struct CUevent_st {
  int device = 0;
  unsigned flags = 0;
  dptrain::cuda_sim::OpPtr op;                          // null: never recorded
  std::shared_ptr<dptrain::cuda_sim::Capture> capture;  // set: last recorded in a capture
  std::vector<std::size_t> capture_tail;
};

struct CUgraphNode_st {
  dptrain::cuda_sim::Work work;
  int device = 0;
  std::vector<std::size_t> predecessors;
};

struct CUgraph_st {
  std::vector<std::shared_ptr<CUgraphNode_st>> nodes;
};

namespace dptrain::cuda_sim {

enum class CaptureState { kActive, kInvalid, kEnded };
struct Capture {
  CaptureState state = CaptureState::kActive;
  cudaStreamCaptureMode mode = cudaStreamCaptureModeGlobal;
  const Caller* owner = nullptr;
  CUstream_st* origin = nullptr;
  unsigned long long id = 0;
  std::set<CUstream_st*> streams;
  std::vector<std::shared_ptr<CUgraphNode_st>> nodes;
};

}  // namespace dptrain::cuda_sim
