#pragma once

#include <string>

namespace dptrain::testing {

/// A file of the source tree. The tree is where these tests were built; on another machine, where $DPTRAIN_SOURCE_DIR
/// says.
std::string source_file(const std::string& path);

/// The program under test: the one built with these tests, or $DPTRAIN_BINARY.
std::string dptrain_binary();

/// A program or a library of this name that was built beside the test programs.
std::string built_file(const std::string& name);

/// mpirun of Open MPI, where it was when these tests were built; "" where there was none.
std::string mpirun();

}  // namespace dptrain::testing
