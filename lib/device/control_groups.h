#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>

namespace dptrain {

/// The limits that Linux control groups (version 1 or 2) set for a process. Groups belong to a container, a Slurm job,
/// a service and so on, and are nested; the smallest limit counts. A field is empty if no group sets it.
struct ControlGroupLimits {
  std::optional<int64_t> memory;       ///< bytes that a group may have
  std::optional<int64_t> memory_left;  ///< bytes that it may still take; files that are only cached count as free
  std::optional<double> cores;         ///< seconds of CPU time per second
};

/// Reads the limits of the process whose groups the file `groups` names (cgroups(7)), as far as their files are visible
/// below `mount`.
ControlGroupLimits control_group_limits(const std::filesystem::path& groups = "/proc/self/cgroup",
                                        const std::filesystem::path& mount = "/sys/fs/cgroup");

}  // namespace dptrain
