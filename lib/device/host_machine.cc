#include "device/host_machine.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <fstream>
#include <optional>
#include <string>
#include <string_view>

namespace dptrain {
namespace {

/// The number behind a name that a line begins with; 0 where there is none.
int64_t number_behind(std::string_view name, const std::string& file) {
  std::ifstream lines(file);
  for (std::string line; std::getline(lines, line);)
    if (line.starts_with(name)) return std::strtoll(line.c_str() + name.size(), nullptr, 10);
  return 0;
}

/// What a container may have, and has, without files that are only cached.
struct ContainerMemory {
  int64_t limit = 0;
  int64_t in_use = 0;
};

/// A container sees its own group at the root, of version 2, where a limit of "max" is no number, or of version 1.
std::optional<ContainerMemory> group_of_container() {
  struct Version {
    const char* limit;
    const char* in_use;
    const char* details;
    const char* cached;
  };
  constexpr std::array kVersions = {Version{"memory.max", "memory.current", "memory.stat", "inactive_file "},
                                    Version{"memory/memory.limit_in_bytes", "memory/memory.usage_in_bytes",
                                            "memory/memory.stat", "total_inactive_file "}};
  const std::string root = "/sys/fs/cgroup/";
  for (const Version& version : kVersions) {
    const int64_t limit = number_behind("", root + version.limit);
    if (limit <= 0) continue;
    const int64_t in_use = number_behind("", root + version.in_use);
    return ContainerMemory{.limit = limit, .in_use = in_use - number_behind(version.cached, root + version.details)};
  }
  return std::nullopt;
}

}  // namespace

int usable_cores(int process) {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (::sched_getaffinity(process, sizeof set, &set) != 0) return static_cast<int>(::sysconf(_SC_NPROCESSORS_ONLN));
  return CPU_COUNT(&set);
}

std::string cpu_model_name() {
  std::ifstream info("/proc/cpuinfo");
  for (std::string line; std::getline(info, line);) {
    const auto colon = line.find(": ");
    if (line.starts_with("model name") && colon != std::string::npos) return line.substr(colon + 2);
  }
  return "unknown";
}

int64_t host_memory_bytes() {
  const int64_t bytes = int64_t{::sysconf(_SC_PHYS_PAGES)} * ::sysconf(_SC_PAGESIZE);
  const auto group = group_of_container();
  return group ? std::min(bytes, group->limit) : bytes;
}

int64_t available_memory_bytes() {
  const int64_t kibibytes = number_behind("MemAvailable:", "/proc/meminfo");
  int64_t bytes = kibibytes > 0 ? kibibytes * 1024 : host_memory_bytes();
  if (const auto group = group_of_container()) bytes = std::min(bytes, group->limit - group->in_use);
  return std::max<int64_t>(bytes, 0);
}

int64_t resident_bytes() {
  std::ifstream sizes("/proc/self/statm");
  int64_t all = 0, resident = 0, shared = 0;
  sizes >> all >> resident >> shared;
  return (resident - shared) * ::sysconf(_SC_PAGESIZE);
}

}  // namespace dptrain
