#include "openmp_restart.h"

#include <sys/prctl.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <string_view>

namespace dptrain::app {
namespace {

/// Set for the second start, which never starts a third.
constexpr const char* kRestarted = "DPTRAIN_OPENMP_RESTARTED";

/// How often an idle thread looks for work before it sleeps: some microseconds. Long enough for the pauses between the
/// phases of a convolution, and short enough to leave the core to others: beside a busy process 20,000 are a third
/// slower, and none at all is 5 % slower on a quiet machine (LeNet and ResNet-18, two threads).
constexpr const char* kSpins = "2000";

bool is_set(const char* variable) { return std::getenv(variable) != nullptr; }

}  // namespace

void restart_with_openmp_environment(char** arguments) {
  if (is_set(kRestarted)) {
    // What it was executed as is no name to be found by, in top or with pkill.
    ::prctl(PR_SET_NAME, std::filesystem::path(arguments[0]).filename().c_str());
    return;
  }
  const bool chooses_waiting = is_set("OMP_WAIT_POLICY") || is_set("GOMP_SPINCOUNT");
  const char* binding = std::getenv("OMP_PROC_BIND");
  const bool binds = binding != nullptr && std::string_view(binding) != "false";
  if (chooses_waiting && !binds) return;
  // A user who chose how threads wait keeps that choice.
  if (!chooses_waiting) ::setenv("GOMP_SPINCOUNT", kSpins, 1);
  if (binds) ::setenv("OMP_PROC_BIND", "false", 1);
  ::setenv(kRestarted, "1", 1);
  ::execv("/proc/self/exe", arguments);
  // Where it can't be executed again, it runs as it is: slower beside other programs, and no less right.
}

}  // namespace dptrain::app
