#pragma once

#include <string>

namespace dptrain::testing {

/// The path of a file of the source tree. The tree is where these tests were built; on another machine,
/// $DPTRAIN_SOURCE_DIR names it.
std::string source_file(const std::string& path);

/// The program under test: the one built with these tests, or $DPTRAIN_BINARY.
std::string dptrain_binary();

/// A program or a library of this name that was built beside the test programs.
std::string built_file(const std::string& name);

/// mpirun of Open MPI, as found when these tests were built; "" where none was found.
std::string mpirun();

}  // namespace dptrain::testing
