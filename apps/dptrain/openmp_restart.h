#pragma once

namespace dptrain::app {

/// Executes this program again, once, if OpenMP's environment would slow it down. Idle threads that spin take cores
/// from the threads of other devices, and threads that are bound end up on one core. libgomp reads the environment when
/// it is loaded, so that setting it in main is too late. Returns if nothing needs to change.
void restart_with_openmp_environment(char** arguments);

}  // namespace dptrain::app
