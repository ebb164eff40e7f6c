#include "device/host_machine.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <string>

#include "device/control_groups.h"
#include "device/file_number.h"

namespace dptrain {

int cores_of_mask(int process) {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (::sched_getaffinity(process, sizeof set, &set) != 0) return static_cast<int>(::sysconf(_SC_NPROCESSORS_ONLN));
  return CPU_COUNT(&set);
}

int usable_cores() {
  static const auto quota = control_group_limits().cores;
  const int cores = cores_of_mask();
  return quota ? std::clamp(static_cast<int>(std::ceil(*quota)), 1, cores) : cores;
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
  return std::min(bytes, control_group_limits().memory.value_or(bytes));
}

int64_t available_memory_bytes() {
  const ControlGroupLimits limits = control_group_limits();
  const int64_t kibibytes = number_behind("MemAvailable:", "/proc/meminfo");
  const int64_t bytes = kibibytes > 0 ? kibibytes * 1024 : host_memory_bytes();
  return std::min(bytes, limits.memory_left.value_or(bytes));
}

int64_t resident_bytes() {
  std::ifstream sizes("/proc/self/statm");
  int64_t all = 0, resident = 0, shared = 0;
  sizes >> all >> resident >> shared;
  return (resident - shared) * ::sysconf(_SC_PAGESIZE);
}

}  // namespace dptrain
