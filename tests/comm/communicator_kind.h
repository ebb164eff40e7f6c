#pragma once

#include <functional>
#include <memory>
#include <memory_resource>
#include <ostream>
#include <string>
#include <vector>

#include "comm/communicator.h"

namespace dptrain {

/// A kind of communicator that all tests of this folder are run with.
struct CommunicatorKind {
  std::string name;
  /// Why this machine doesn't have the kind; empty where it does.
  std::string absence = {};
  /// Whether starting a collective waits for the other ranks, so that it can't be taken back.
  bool meets_at_start = false;
  std::function<std::vector<std::unique_ptr<Communicator>>(int size, double timeout_s)> make;
  /// Where values lie; must be readable by the test and by the ranks' devices.
  std::pmr::memory_resource* memory = std::pmr::new_delete_resource();
};

inline void PrintTo(const CommunicatorKind& kind, std::ostream* out) { *out << kind.name; }

}  // namespace dptrain
