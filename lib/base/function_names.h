#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace dptrain {

/// Finds the functions of this process by the addresses of their instructions. It reads the files that were loaded.
/// Their symbol tables also name functions that aren't exported, unless the files were stripped.
class FunctionNames {
 public:
  /// Describes an address: "dptrain::f(int) + 0x1c (dptrain + 0x4711)". That is the function, and the place in the file
  /// as addr2line takes it. If the function has no name, only the file is given.
  std::string place(uintptr_t address);

 private:
  struct Function {
    uintptr_t begin = 0;  ///< in the file's own addresses
    uintptr_t size = 0;
    std::string symbol;
  };
  struct Program {
    bool is_movable = true;           ///< its addresses count from where it was loaded
    std::vector<Function> functions;  ///< by address
  };
  static Program read(const std::string& file);

  std::map<uintptr_t, Program> programs_;  ///< by load address
};

}  // namespace dptrain
