#include "device/control_groups.h"

#include <algorithm>
#include <fstream>
#include <functional>
#include <string>
#include <string_view>

#include "device/file_number.h"

namespace dptrain {

namespace fs = std::filesystem;

namespace {

template <class Number>
void lower(std::optional<Number>& least, Number other) {
  least = std::min(least.value_or(other), other);
}

/// The names of a group's files, for version 1 or 2. A limit of "max" isn't a number.
struct MemoryFiles {
  const char* limit;
  const char* in_use;
  const char* cached;  ///< in memory.stat
};
constexpr MemoryFiles kMemory1 = {"memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file "};
constexpr MemoryFiles kMemory2 = {"memory.max", "memory.current", "inactive_file "};

void read_memory(const fs::path& group, const MemoryFiles& files, ControlGroupLimits& limits) {
  const int64_t limit = number_behind("", group / files.limit);
  if (limit <= 0) return;
  lower(limits.memory, limit);
  const int64_t cached = number_behind(files.cached, group / "memory.stat");
  lower(limits.memory_left, std::max<int64_t>(limit - number_behind("", group / files.in_use) + cached, 0));
}

void lower_cores(int64_t quota, int64_t period, ControlGroupLimits& limits) {
  if (quota > 0 && period > 0) lower(limits.cores, static_cast<double>(quota) / static_cast<double>(period));
}

void read_cores_1(const fs::path& group, ControlGroupLimits& limits) {
  lower_cores(number_behind("", group / "cpu.cfs_quota_us"), number_behind("", group / "cpu.cfs_period_us"), limits);
}

void read_version_2(const fs::path& group, ControlGroupLimits& limits) {
  read_memory(group, kMemory2, limits);
  std::ifstream file(group / "cpu.max");
  int64_t quota = 0, period = 0;
  if (file >> quota >> period) lower_cores(quota, period, limits);
}

/// Visits the group and all groups around it. A container may see its own group at the root, while the file names
/// another path.
void for_groups(const fs::path& root, const fs::path& own, const std::function<void(const fs::path& group)>& visit) {
  fs::path inside = own.lexically_normal().relative_path();
  if (inside.begin() != inside.end() && *inside.begin() == "..") inside.clear();
  for (; !inside.empty(); inside = inside.parent_path()) visit(root / inside);
  visit(root);
}

bool names(std::string_view controllers, std::string_view controller) {
  while (!controllers.empty()) {
    const std::string_view one = controllers.substr(0, controllers.find(','));
    if (one == controller) return true;
    controllers.remove_prefix(std::min(one.size() + 1, controllers.size()));
  }
  return false;
}

}  // namespace

ControlGroupLimits control_group_limits(const fs::path& groups, const fs::path& mount) {
  ControlGroupLimits limits;
  std::ifstream lines(groups);
  // "4:memory:/a/b" of version 1, "0::/a/b" of version 2.
  for (std::string line; std::getline(lines, line);) {
    const size_t first = line.find(':'), second = line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string_view controllers = std::string_view(line).substr(first + 1, second - first - 1);
    const fs::path own = line.substr(second + 1);
    if (controllers.empty()) for_groups(mount, own, [&](const fs::path& group) { read_version_2(group, limits); });
    if (names(controllers, "memory"))
      for_groups(mount / "memory", own, [&](const fs::path& group) { read_memory(group, kMemory1, limits); });
    if (names(controllers, "cpu"))
      for_groups(mount / "cpu", own, [&](const fs::path& group) { read_cores_1(group, limits); });
  }
  return limits;
}

}  // namespace dptrain
