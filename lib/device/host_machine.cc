#include "device/host_machine.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <string>

namespace dptrain {

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
  int64_t bytes = int64_t{::sysconf(_SC_PHYS_PAGES)} * ::sysconf(_SC_PAGESIZE);
  // A container sees its own group at the root: of version 2, where "max" is no number, or of version 1.
  for (const char* file : {"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"}) {
    std::ifstream limit(file);
    if (int64_t most = 0; limit >> most && most > 0) bytes = std::min(bytes, most);
  }
  return bytes;
}

int64_t available_memory_bytes() {
  std::ifstream info("/proc/meminfo");
  for (std::string line; std::getline(info, line);)
    if (line.starts_with("MemAvailable:"))
      return std::min<int64_t>(host_memory_bytes(), std::stoll(line.substr(line.find(':') + 1)) * 1024);
  return host_memory_bytes();
}

int64_t resident_bytes() {
  std::ifstream sizes("/proc/self/statm");
  int64_t all = 0, resident = 0;
  sizes >> all >> resident;
  return resident * ::sysconf(_SC_PAGESIZE);
}

}  // namespace dptrain
