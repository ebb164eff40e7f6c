#pragma once

#include <cstdint>
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
  /// Blocks, as Communicator::receive does.
  Crossing receive(const Signature& signature);
  /// Whether tensors cross in another layout than they have.
  bool plain() const { return plain_; }

 private:
  struct Form {
    Shape shape;
    DType dtype = DType::f32;
    Layout layout = Layout::plain;
    bool requires_gradient = false;
  };
  Form receive_form();

  Device& device_;
  Ends ends_;
  int peer_;
  bool plain_;
  std::set<Signature> told_;         ///< those whose form the neighbor has been sent
  std::map<Signature, Form> known_;  ///< of what comes from it
};

}  // namespace dptrain::parallel
