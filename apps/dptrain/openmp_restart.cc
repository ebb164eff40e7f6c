#include "openmp_restart.h"

#include <sys/prctl.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <string_view>

namespace dptrain::app {
namespace {

/// Set in the restarted program, so that it doesn't restart again.
constexpr const char* kRestarted = "DPTRAIN_OPENMP_RESTARTED";

/// How often an idle thread checks for work before it sleeps: some microseconds. This is long enough for the pauses
/// between the phases of a convolution, and short enough to leave the core to others. With 20,000, training beside a
/// busy process is a third slower; with 0 it is 5 % slower on a quiet machine (LeNet and ResNet-18, two threads).
constexpr const char* kSpins = "2000";

bool is_set(const char* variable) { return std::getenv(variable) != nullptr; }

}  // namespace

void restart_with_openmp_environment(char** arguments) {
  if (is_set(kRestarted)) {
    // The restart has changed the process's name, by which top and pkill find it.
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
  // If it can't be executed again, it goes on: slower beside other programs, but with correct results.
}

}  // namespace dptrain::app
