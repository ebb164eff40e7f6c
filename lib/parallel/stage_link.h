#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <set>
#include <vector>

#include "comm/communicator.h"
#include "tensor/tensor.h"

namespace dptrain::parallel {

/// A stage's end of the boundary between it and a neighbor, which tensors cross as they are: in their own layout and
/// element type, padding included. What form a tensor has follows from what both ends know of its samples, its
/// signature: with the first of a signature a message says it, and those after it are values alone. A GPU and a CPU
/// worker lay channels out unlike: between them tensors are plain. Used by the device's rank thread.
class StageLink {
 public:
  struct Peer {
    int rank = 0;
    DeviceKind kind = DeviceKind::cpu;
  };
  struct Ends {
    Communicator& tensors;  ///< of the devices' memory
    Communicator& forms;    ///< the same ranks over host memory
  };
  StageLink(Device& device, const Ends& ends, const Peer& peer)
      : device_(device), ends_(ends), peer_(peer.rank), plain_(peer.kind != device.kind()) {}

  using Signature = std::vector<int64_t>;
  struct Crossing {
    Tensor value;
    bool requires_gradient = false;  ///< one comes back for it
  };
  /// Starts to send; the work holds the value until it was received.
  std::unique_ptr<CommWork> start_send(const Signature& signature, const Crossing& crossing);
  /// The next tensor that isn't expected yet is of this signature, and may come from now on, into `place`, where that
  /// is defined. Does nothing, and returns false, where its form isn't known yet.
  bool expect(const Signature& signature, const Tensor& place = {});
  /// Blocks, as Communicator::receive does. What was expected is received first, in that order.
  Crossing receive(const Signature& signature, const Tensor& place = {});
  /// From now on nothing crosses, or does again: tensors have memory as long as if they did.
  void rehearse(bool rehearses) { rehearses_ = rehearses; }
  int peer() const { return peer_; }
  /// Whether tensors cross in another layout than they have.
  bool plain() const { return plain_; }

 private:
  struct Form {
    Shape shape;
    DType dtype = DType::f32;
    Layout layout = Layout::plain;
    bool requires_gradient = false;
  };
  struct Expected {
    Signature signature;
    Crossing crossing;
    std::unique_ptr<CommWork> work;  ///< ends before what it writes; null in a rehearsal
  };
  Form receive_form();
  Expected start_receive(const Signature& signature, const Form& form, const Tensor& place);

  Device& device_;
  Ends ends_;
  int peer_;
  bool plain_;
  bool rehearses_ = false;
  std::set<Signature> told_;         ///< those whose form the neighbor has been sent
  std::map<Signature, Form> known_;  ///< of what comes from it
  std::deque<Expected> expected_;
};

}  // namespace dptrain::parallel
