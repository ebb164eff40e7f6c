#include "base/line_mark.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>

namespace dptrain {
namespace {

// Each kind of mark has its own buffer, so that no buffer changes while it is read.
using Text = std::array<char, 32>;
Text of_process = {}, of_rank = {};
std::atomic<const char*> mark = "";
static_assert(std::atomic<const char*>::is_always_lock_free);

void set(Text& text, const char* kind, int number) {
  if (number == 0) {
    mark = "";
    return;
  }
  *fmt::format_to_n(text.data(), text.size() - 1, "[{} {}] ", kind, number).out = '\0';
  mark = text.data();
}

}  // namespace

void mark_lines_as_of_process(int process) { set(of_process, "process", process); }

void mark_lines_as_of_rank(int rank) { set(of_rank, "rank", rank); }

std::string_view line_mark() { return mark.load(); }

std::string marked_lines(std::string_view text) {
  std::string marked;
  while (!text.empty()) {
    const size_t line = std::min(text.find('\n'), text.size() - 1) + 1;
    marked += line_mark();
    marked += text.substr(0, line);
    text.remove_prefix(line);
  }
  return marked;
}

}  // namespace dptrain
