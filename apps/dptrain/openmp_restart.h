#pragma once

namespace dptrain::app {

/// Executes this program again, once, where OpenMP's environment would hurt: libgomp reads it when it is loaded, so
/// that setting it in main comes too late. Idle threads that spin take the cores of the other devices' threads; threads
/// that are bound end up on one core. Returns where nothing needs to change.
void restart_with_openmp_environment(char** arguments);

}  // namespace dptrain::app
