#pragma once

#include <cstdint>
#include <optional>

#include "parallel/key_value_store.h"

namespace dptrain::parallel {

struct StoreOptions {
  enum class Type {
    device,            ///< on the ranks' devices
    local,             ///< in host memory of the process
    dist_sync,         ///< on servers in the processes; each process adds up its ranks' gradients in host memory
    dist_device_sync,  ///< as dist_sync, but gradients are added up on the devices
    dist_async,        ///< as dist_sync, but each process's gradients are a separate update
  };
  Type type = Type::device;
  Placement placement = Placement::balanced;  ///< of keys over devices or servers
  // For a store on servers:
  int servers = 0;  ///< 0: one server in each process
  /// For dist_async: steps that a process may be ahead of the slowest one; nothing: any number.
  std::optional<int64_t> max_staleness = {};

  bool is_dist() const { return type != Type::device && type != Type::local; }
  bool is_asynchronous() const { return type == Type::dist_async; }
};

/// "dist_sync"
const char* store_type_name(StoreOptions::Type type);

}  // namespace dptrain::parallel
