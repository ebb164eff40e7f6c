#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace dptrain {

/// The functions of this process by the addresses of their instructions. Reads the files that they were loaded from,
/// whose tables of symbols name functions that aren't exported, too, unless they were stripped.
class FunctionNames {
 public:
  /// "dptrain::f(int) + 0x1c (dptrain + 0x4711)": the function, and the place in the file as addr2line takes it; of a
  /// function that nobody names the file alone.
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

  std::map<uintptr_t, Program> programs_;  ///< by where they were loaded
};

}  // namespace dptrain
