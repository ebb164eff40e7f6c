#pragma once

#include <cstdint>
#include <string>

namespace dptrain {

/// Bytes of memory that processes of this machine may take. This is all memory of the machine, or the limit of a
/// container or of a batch system's job (control_groups.h).
int64_t host_memory_bytes();

/// Bytes of memory that can be taken now without other processes giving up theirs. Files that are only cached count as
/// free.
int64_t available_memory_bytes();

/// The most memory, out of `bytes`, that CPU workers take. A sixteenth is left for data, libraries and the kernel's
/// tables.
inline int64_t most_of_workers(int64_t bytes) { return bytes - bytes / 16; }

/// Bytes of memory that this process has now, without files and without what it shares with other processes.
int64_t resident_bytes();

/// Cores that a process may run on, by its affinity mask; by default this process. This isn't the machine's count.
int cores_of_mask(int process = 0);

/// Cores whose time this process has: those of its mask, or fewer if a quota of CPU time, such as a container's, is
/// smaller.
int usable_cores();

/// The CPU's model, such as "Intel(R) Xeon(R) Processor", from /proc/cpuinfo; "unknown" if it is missing there.
std::string cpu_model_name();

}  // namespace dptrain
