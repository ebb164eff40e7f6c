#pragma once

#include <cstdint>
#include <string>

namespace dptrain {

/// Bytes of memory that processes of this machine may take: all that it has, or what a container or a job of a batch
/// system is limited to (control_groups.h).
int64_t host_memory_bytes();

/// Those of them that can be taken now without others giving up theirs: files that are only cached count as free.
int64_t available_memory_bytes();

/// What CPU workers take at most of so much memory: a sixteenth is left for data, libraries and the kernel's tables.
inline int64_t most_of_workers(int64_t bytes) { return bytes - bytes / 16; }

/// What this process has of it now, but for files and what it shares with others.
int64_t resident_bytes();

/// Cores that a process, by default this one, may run on: its affinity mask, not the machine's count.
int cores_of_mask(int process = 0);

/// Cores that this process has the time of: those of its mask, or fewer where a quota of CPU time, as a container's, is
/// less.
int usable_cores();

/// "Intel(R) Xeon(R) Processor", from /proc/cpuinfo; "unknown" where it doesn't say.
std::string cpu_model_name();

}  // namespace dptrain
