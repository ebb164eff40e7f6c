#include "device/file_number.h"

#include <cstdlib>
#include <fstream>
#include <string>

namespace dptrain {

int64_t number_behind(std::string_view name, const std::filesystem::path& file) {
  std::ifstream lines(file);
  for (std::string line; std::getline(lines, line);)
    if (line.starts_with(name)) return std::strtoll(line.c_str() + name.size(), nullptr, 10);
  return 0;
}

}  // namespace dptrain
