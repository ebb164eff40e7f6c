#include "nn/tensor_forms.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <sstream>

namespace dptrain::nn {

std::string forms_text(const std::vector<NamedValues>& tensors) {
  std::string text;
  for (const NamedValues& tensor : tensors)
    text += fmt::format("{}\t{}\t{}\n", tensor.name, tensor.tied_to, fmt::join(tensor.shape.dimensions(), " "));
  return text;
}

std::vector<NamedValues> tensors_of_forms(const std::string& text) {
  std::vector<NamedValues> tensors;
  std::istringstream lines(text);
  std::string name, tied_to, dimensions;
  while (std::getline(lines, name, '\t') && std::getline(lines, tied_to, '\t') && std::getline(lines, dimensions)) {
    std::vector<int64_t> sizes;
    std::istringstream numbers(dimensions);
    for (int64_t size = 0; numbers >> size;) sizes.push_back(size);
    tensors.push_back(
        {.name = name, .shape = Shape(std::span<const int64_t>(sizes)), .values = {}, .tied_to = tied_to});
  }
  return tensors;
}

}  // namespace dptrain::nn
