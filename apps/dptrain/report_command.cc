#include <fmt/format.h>

#include <memory>

#include "base/counted.h"
#include "base/error.h"
#include "commands.h"
#include "output.h"
#include "output_file.h"
#include "train/report_page.h"
#include "value_checks.h"

namespace dptrain::app {
namespace {

struct ReportFlags {
  std::vector<std::string> directories;
  std::string file;
};

int write_report(const ReportFlags& flags) {
  const OutputFile file(flags.file, {.name = "a page of HTML", .beginning = "<!DOCTYPE html>"});
  const train::ReportPage page({flags.directories.begin(), flags.directories.end()});
  if (page.runs() == 0) throw Error(*page.left_out());
  file.write(page.html());
  write_output(fmt::format("{}: {}\n", flags.file, counted(static_cast<int64_t>(page.runs()), "run")));
  if (page.left_out()) throw Error(*page.left_out());
  return 0;
}

}  // namespace

Run add_report_command(CLI::App& command) {
  auto flags = std::make_shared<ReportFlags>();
  command.add_option("directories", flags->directories, "run directories, or folders of them")
      ->required()
      ->type_name("RUN_DIR");
  command.add_option("-o", flags->file, "the page, a single HTML file; an existing file is replaced")
      ->required()
      ->check(refuse_empty)
      ->type_name("FILE");
  return [flags] { return write_report(*flags); };
}

}  // namespace dptrain::app
