#include "help_format.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <regex>
#include <string>

#include "base/text_table.h"
#include "output.h"

namespace dptrain::app {
namespace {

/// The fewest columns for an option's description, whatever the width of the terminal.
constexpr int kFewestColumns = 30;

/// Matches the range that CLI11 writes behind a type's name, as in "N:INT in [1 - 1000]".
const std::regex& range_of_type() {
  static const std::regex range(R"(:(INT|UINT|FLOAT) in \[(\S+) - ([^\s\]]+)\])");
  return range;
}

class HelpFormat : public CLI::Formatter {
 public:
  explicit HelpFormat(int width) : width_(width) {}

  std::string make_description(const CLI::App* command) const override {
    return wrapped(CLI::Formatter::make_description(command), width_);
  }
  /// Leaves out what makes the name longer than its column: the range, which goes with the description, and the
  /// excluded options; an error names them if both are given.
  std::string make_option_opts(const CLI::Option* option) const override {
    std::string opts = CLI::Formatter::make_option_opts(option);
    opts.resize(std::min(opts.size(), opts.find(" Excludes:")));
    return std::regex_replace(opts, range_of_type(), "");
  }
  std::string make_option_desc(const CLI::Option* option) const override {
    std::smatch range;
    const std::string type = option->get_type_name();
    const bool has_range = std::regex_search(type, range, range_of_type());
    const std::string text = CLI::Formatter::make_option_desc(option);
    return beside_name(has_range ? fmt::format("{} ({} to {})", text, range[2].str(), range[3].str()) : text);
  }
  std::string make_subcommand(const CLI::App* command) const override {
    std::ostringstream out;
    CLI::detail::format_help(out, command->get_name(), beside_name(command->get_description()), get_column_width());
    return out.str();
  }

 private:
  /// Wraps the text to lines that fit beside the column of names.
  std::string beside_name(const std::string& text) const {
    std::string lines = wrapped(text, std::max(width_ - static_cast<int>(get_column_width()), kFewestColumns));
    if (lines.ends_with('\n')) lines.pop_back();
    return lines;
  }

  int width_;
};

}  // namespace

std::shared_ptr<CLI::FormatterBase> help_format() {
  return std::make_shared<HelpFormat>(terminal_width(STDOUT_FILENO));
}

}  // namespace dptrain::app
