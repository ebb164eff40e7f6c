#pragma once

namespace dptrain {

/// "SIGINT" of a signal that asks a program to stop; what isn't known here is called SIGTERM. May be called by a signal
/// handler.
const char* signal_name(int signal);

}  // namespace dptrain
