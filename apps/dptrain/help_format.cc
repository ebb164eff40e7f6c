#include "help_format.h"

#include <unistd.h>

#include <algorithm>
#include <string>

#include "base/text_table.h"
#include "output.h"

namespace dptrain::app {
namespace {

/// The fewest columns for an option's description, whatever the width of the terminal.
constexpr int kFewestColumns = 30;

class HelpFormat : public CLI::Formatter {
 public:
  explicit HelpFormat(int width) : width_(width) {}

  std::string make_description(const CLI::App* command) const override {
    return wrapped(CLI::Formatter::make_description(command), width_);
  }
  /// Leaves out the excluded options, which make the name longer than its column; an error names them if both are
  /// given.
  std::string make_option_opts(const CLI::Option* option) const override {
    std::string opts = CLI::Formatter::make_option_opts(option);
    opts.resize(std::min(opts.size(), opts.find(" Excludes:")));
    return opts;
  }
  std::string make_option_desc(const CLI::Option* option) const override {
    return beside_name(CLI::Formatter::make_option_desc(option));
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
