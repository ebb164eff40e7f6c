#include "base/function_names.h"

#include <cxxabi.h>
#include <dlfcn.h>
#include <elf.h>
#include <fmt/format.h>
#include <link.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>

namespace dptrain {
namespace {

/// No program has more symbols than that, but a damaged file may claim so.
constexpr size_t kMostBytes = size_t{1} << 28;

/// Reads `count` entries at `offset` of the file. Empty if the file has fewer.
template <class Entry>
std::vector<Entry> entries_at(std::ifstream& file, uint64_t offset, size_t count) {
  if (count > kMostBytes / sizeof(Entry)) return {};
  std::vector<Entry> entries(count);
  file.clear();
  file.seekg(static_cast<std::streamoff>(offset));
  file.read(reinterpret_cast<char*>(entries.data()), static_cast<std::streamsize>(count * sizeof(Entry)));
  if (!file) entries.clear();
  return entries;
}

std::string demangled(const char* symbol) {
  int status = 0;
  const std::unique_ptr<char, decltype(&std::free)> name(abi::__cxa_demangle(symbol, nullptr, nullptr, &status),
                                                         &std::free);
  return name != nullptr ? name.get() : symbol;
}

/// Where this program itself was loaded. Its file may have been replaced since, or may be named relative to another
/// folder.
const void* own_base() {
  Dl_info found = {};
  return ::dladdr(reinterpret_cast<const void*>(&own_base), &found) != 0 ? found.dli_fbase : nullptr;
}

}  // namespace

FunctionNames::Program FunctionNames::read(const std::string& path) {
  Program program;
  std::ifstream file(path, std::ios::binary);
  const auto header = entries_at<ElfW(Ehdr)>(file, 0, 1);
  if (header.empty() || std::memcmp(header[0].e_ident, ELFMAG, SELFMAG) != 0) return program;
  program.is_movable = header[0].e_type != ET_EXEC;
  const auto sections = entries_at<ElfW(Shdr)>(file, header[0].e_shoff, header[0].e_shnum);
  const auto table = std::ranges::find(sections, ElfW(Word){SHT_SYMTAB}, &ElfW(Shdr)::sh_type);
  if (table == sections.end() || table->sh_link >= sections.size()) return program;
  const auto symbols = entries_at<ElfW(Sym)>(file, table->sh_offset, table->sh_size / sizeof(ElfW(Sym)));
  auto names = entries_at<char>(file, sections[table->sh_link].sh_offset, sections[table->sh_link].sh_size);
  if (names.empty()) return program;
  names.back() = '\0';
  for (const ElfW(Sym) & symbol : symbols)
    if (ELF64_ST_TYPE(symbol.st_info) == STT_FUNC && symbol.st_value != 0 && symbol.st_name < names.size())
      program.functions.push_back(
          {.begin = symbol.st_value, .size = symbol.st_size, .symbol = names.data() + symbol.st_name});
  std::ranges::sort(program.functions, {}, &Function::begin);
  return program;
}

std::string FunctionNames::place(uintptr_t address) {
  Dl_info found = {};
  if (::dladdr(reinterpret_cast<const void*>(address), &found) == 0) return fmt::format("{:#x}", address);
  const auto base = reinterpret_cast<uintptr_t>(found.dli_fbase);
  const auto [program, is_new] = programs_.try_emplace(base);
  if (is_new) program->second = read(found.dli_fbase == own_base() ? "/proc/self/exe" : found.dli_fname);
  const uintptr_t in_file = program->second.is_movable ? address - base : address;
  std::string place = fmt::format("{} + {:#x}", std::filesystem::path(found.dli_fname).filename().string(), in_file);
  const std::vector<Function>& functions = program->second.functions;
  const auto after = std::ranges::upper_bound(functions, in_file, {}, &Function::begin);
  if (after != functions.begin() && in_file - std::prev(after)->begin < std::prev(after)->size)
    return fmt::format("{} + {:#x} ({})", demangled(std::prev(after)->symbol.c_str()),
                       in_file - std::prev(after)->begin, place);
  if (found.dli_sname == nullptr) return place;
  return fmt::format("{} + {:#x} ({})", demangled(found.dli_sname),
                     address - reinterpret_cast<uintptr_t>(found.dli_saddr), place);
}

}  // namespace dptrain
