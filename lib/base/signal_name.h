#pragma once

namespace dptrain {

/// The name of a signal that asks a program to stop, such as "SIGINT". An unknown signal is called SIGTERM. May be
/// called in a signal handler.
const char* signal_name(int signal);

}  // namespace dptrain
