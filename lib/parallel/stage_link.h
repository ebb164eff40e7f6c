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

/// A stage's end of the boundary to a neighboring stage. Tensors cross it in their own layout and element type,
/// including padding. Both ends know a tensor's form from its signature, which they derive from its samples: a message
/// announces the form for the first tensor of a signature, and later tensors are sent as values alone. Between a GPU
/// and a CPU worker, tensors cross in plain layout, because the two lay out channels differently. Used by the device's
/// rank thread.
class StageLink {
 public:
  struct Peer {
    int rank = 0;
    DeviceKind kind = DeviceKind::cpu;
  };
  struct Ends {
    Communicator& tensors;  ///< over the devices' memory
    Communicator& forms;    ///< the same ranks, over host memory
  };
  StageLink(Device& device, const Ends& ends, const Peer& peer)
      : device_(device), ends_(ends), peer_(peer.rank), plain_(peer.kind != device.kind()) {}

  using Signature = std::vector<int64_t>;
  struct Crossing {
    Tensor value;
    bool requires_gradient = false;  ///< a gradient comes back for the value
  };
  /// Starts to send. The returned work holds the value until it has been received.
  std::unique_ptr<CommWork> start_send(const Signature& signature, const Crossing& crossing);
  /// Lets the next tensor that isn't expected yet arrive from now on. It has this signature, and goes into `place` if
  /// that is defined. Returns false and does nothing if its form isn't known yet.
  bool expect(const Signature& signature, const Tensor& place = {});
  /// Receives a tensor; blocks as Communicator::receive does. Expected tensors are received first, in their order.
  Crossing receive(const Signature& signature, const Tensor& place = {});
  /// Turns rehearsal on or off. In a rehearsal nothing crosses, but tensors take memory as long as in a step.
  void rehearse(bool rehearses) { rehearses_ = rehearses; }
  int peer() const { return peer_; }
  /// Whether tensors cross in plain layout instead of their own.
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
    std::unique_ptr<CommWork> work;  ///< ends before the memory that it writes; null in a rehearsal
  };
  Form receive_form();
  Expected start_receive(const Signature& signature, const Form& form, const Tensor& place);

  Device& device_;
  Ends ends_;
  int peer_;
  bool plain_;
  bool rehearses_ = false;
  std::set<Signature> told_;         ///< signatures whose form the neighbor has been sent
  std::map<Signature, Form> known_;  ///< forms of what the neighbor sends
  std::deque<Expected> expected_;
};

}  // namespace dptrain::parallel
