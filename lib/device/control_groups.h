#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>

namespace dptrain {

/// What Linux's control groups (version 1 or 2) leave a process: a container's, a Slurm job's, a service's, and those
/// around them, as the smallest counts. Nothing where none of them has a limit.
struct ControlGroupLimits {
  std::optional<int64_t> memory;       ///< bytes that a group may have
  std::optional<int64_t> memory_left;  ///< that it may still take; files that are only cached count as free
  std::optional<double> cores;         ///< seconds of CPU time in a second
};

/// Of the process whose groups the file `groups` names (cgroups(7)), as far as their files are seen below `mount`.
ControlGroupLimits control_group_limits(const std::filesystem::path& groups = "/proc/self/cgroup",
                                        const std::filesystem::path& mount = "/sys/fs/cgroup");

}  // namespace dptrain
