// The limits of containers and batch systems, read from Linux's files.

#include "device/control_groups.h"

#include <gtest/gtest.h>

#include <string>

#include "support/idx_files.h"

namespace dptrain {
namespace {

class ControlGroups : public ::testing::Test {
 protected:
  void write(const std::string& file, const std::string& text) {
    std::filesystem::create_directories((scratch_.path() / file).parent_path());
    scratch_.write(file, text);
  }
  /// The limits of a process with these lines in /proc/self/cgroup.
  ControlGroupLimits limits(const std::string& lines) {
    return control_group_limits(scratch_.write("groups", lines), scratch_.path() / "mount");
  }

  testing::ScratchFolder scratch_;
};

TEST_F(ControlGroups, WithoutLimitsThereAreNone) {
  write("mount/a/memory.max", "max\n");
  write("mount/a/cpu.max", "max 100000\n");
  const ControlGroupLimits none = limits("0::/a\n");
  EXPECT_FALSE(none.memory || none.memory_left || none.cores);
  const ControlGroupLimits unknown = control_group_limits(scratch_.path() / "absent", scratch_.path());
  EXPECT_FALSE(unknown.memory || unknown.memory_left || unknown.cores);
  EXPECT_FALSE(limits("no line of such a file\n1:\n\n").memory);
}

/// The step of a Slurm job is like this: the job has the limit.
TEST_F(ControlGroups, OfVersion2TheSmallestCounts) {
  write("mount/job/memory.max", "4000\n");
  write("mount/job/memory.current", "3500\n");
  write("mount/job/memory.stat", "anon 2500\ninactive_file 700\n");
  write("mount/job/cpu.max", "150000 100000\n");
  write("mount/job/step/memory.max", "max\n");
  write("mount/job/step/task/memory.max", "5000\n");
  write("mount/job/step/task/memory.current", "100\n");
  write("mount/job/step/task/cpu.max", "400000 100000\n");
  const ControlGroupLimits found = limits("0::/job/step/task\n");
  EXPECT_EQ(found.memory, 4000);
  EXPECT_EQ(found.memory_left, 4000 - 3500 + 700);
  EXPECT_EQ(found.cores, 1.5);
}

TEST_F(ControlGroups, OfVersion1EachControllerHasATreeOfItsOwn) {
  write("mount/memory/a/memory.limit_in_bytes", "9223372036854771712\n");  // the kernel's value for no limit
  write("mount/memory/a/b/memory.limit_in_bytes", "3000\n");
  write("mount/memory/a/b/memory.usage_in_bytes", "3200\n");
  write("mount/memory/a/b/memory.stat", "inactive_file 9\ntotal_inactive_file 100\n");
  write("mount/cpu/c/cpu.cfs_quota_us", "50000\n");
  write("mount/cpu/c/cpu.cfs_period_us", "100000\n");
  write("mount/cpu/cpu.cfs_quota_us", "-1\n");
  const ControlGroupLimits found = limits("7:memory:/a/b\n3:cpuacct,cpu:/c\n2:cpuset:/c\n0::/\n");
  EXPECT_EQ(found.memory, 3000);
  EXPECT_EQ(found.memory_left, 0) << "and not less";
  EXPECT_EQ(found.cores, 0.5);
}

/// A container sees its own group as the root, whatever the host calls it.
TEST_F(ControlGroups, OfAContainerTheRootIsItsOwn) {
  write("mount/memory.max", "2000\n");
  write("mount/cpu.max", "200000 100000\n");
  write("memory.max", "1\n");  // outside of the container's group
  for (const char* path : {"/", "/docker/0123", "/../../other"}) {
    const ControlGroupLimits found = limits(std::string("0::") + path + "\n");
    EXPECT_EQ(found.memory, 2000) << path;
    EXPECT_EQ(found.cores, 2) << path;
  }
}

}  // namespace
}  // namespace dptrain
