#pragma once

#include <fmt/format.h>

#include "processes/watched_training.h"
#include "support/hosts.h"

namespace dptrain::testing {

/// Runs scripts/launch.sh with dptrain itself.
class LaunchedTrainingTest : public WatchdogTest {
 protected:
  ProcessOptions script(const std::string& restarts) const {
    return script({"-n", "2", "--grace", "1", "--max-restarts", restarts}, {}, "200");
  }
  ProcessOptions script(const Command& launch_options, const Command& on, const std::string& steps) const {
    return script(launch_options, on, program("run", 1, steps));
  }
  ProcessOptions script(const Command& launch_options, const Command& on, const Command& training) const {
    folder_.write("program",
                  "#!/usr/bin/env bash\necho $$ > \"pid.$OMPI_COMM_WORLD_RANK\"\n" + before_ + "exec \"$@\"\n");
    std::filesystem::permissions(folder_.path() / "program", std::filesystem::perms::owner_all);
    Command all = on;
    const auto add = [&all](const Command& more) { all.insert(all.end(), more.begin(), more.end()); };
    add({"/usr/bin/env", "OMPI_ALLOW_RUN_AS_ROOT=1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1"});
    if (!on.empty())
      add({"OMPI_MCA_btl=tcp,self", "OMPI_MCA_btl_tcp_if_include=10.77.0.0/24",
           "OMPI_MCA_oob_tcp_if_include=10.77.0.0/24"});
    add({source_file("scripts/launch.sh")});
    add(launch_options);
    add({"--", (folder_.path() / "program").string()});
    add(training);
    return {.command = all, .folder = folder_.path(), .timeout_s = 120, .out = {}, .err = {}};
  }
  pid_t pid(size_t process) const { return std::stoi(text_of(folder_.path() / fmt::format("pid.{}", process))); }
  void kill_process(size_t process) const { ::kill(pid(process), SIGKILL); }

  std::string before_;  ///< lines of bash that each process runs first
};

}  // namespace dptrain::testing
