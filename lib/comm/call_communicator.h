#pragma once

#include <memory>

#include "comm/comm_call.h"
#include "comm/communicator.h"

namespace dptrain {

/// A communicator that treats every operation as a CommCall. This class turns the arguments of each operation into a
/// call; subclasses start the call.
class CallCommunicator : public Communicator {
 public:
  std::unique_ptr<CommWork> start_all_reduce(const CommBuffer& buffer) final {
    return start({.kind = CommKind::all_reduce, .in = buffer, .out = buffer});
  }
  std::unique_ptr<CommWork> start_prioritized_all_reduce(const CommBuffer& buffer, int priority) final {
    return start({.kind = CommKind::all_reduce, .in = buffer, .out = buffer, .priority = priority});
  }
  std::unique_ptr<CommWork> start_reduce(const CommBuffer& buffer, int root) final {
    return start({.kind = CommKind::reduce, .in = buffer, .out = buffer, .other = root});
  }
  void broadcast(const CommBuffer& buffer, int root) final {
    start({.kind = CommKind::broadcast, .in = buffer, .out = buffer, .other = root})->wait();
  }
  std::unique_ptr<CommWork> start_reduce_scatter(const CommBuffer& in, const CommBuffer& out) final {
    return start({.kind = CommKind::reduce_scatter, .in = in, .out = out});
  }
  std::unique_ptr<CommWork> start_all_gather(const CommBuffer& in, const CommBuffer& out) final {
    return start({.kind = CommKind::all_gather, .in = in, .out = out});
  }
  void gather(const CommBuffer& in, const CommBuffer& out, int root) final {
    move_parts({.kind = CommKind::gather, .in = in, .out = rank() == root ? out : CommBuffer{}, .other = root});
  }
  void scatter(const CommBuffer& in, const CommBuffer& out, int root) final {
    move_parts({.kind = CommKind::scatter, .in = rank() == root ? in : CommBuffer{}, .out = out, .other = root});
  }
  std::unique_ptr<CommWork> start_send(const CommBuffer& buffer, int peer) final {
    return start({.kind = CommKind::send, .in = buffer, .other = peer});
  }
  std::unique_ptr<CommWork> start_receive(const CommBuffer& buffer, int peer) final {
    return start({.kind = CommKind::receive, .out = buffer, .other = peer});
  }
  void barrier() final { start({.kind = CommKind::barrier})->wait(); }

 protected:
  virtual std::unique_ptr<CommWork> start(const CommCall& call) = 0;
  /// Makes a gather or a scatter, whose parts may differ in size from rank to rank.
  virtual void move_parts(const CommCall& call) { start(call)->wait(); }
};

}  // namespace dptrain
