// The documents are complete: they list every configuration, key and command, and README.md has the figures of
// docs/results.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "e2e/command_fixture.h"
#include "support/process.h"
#include "support/source_tree.h"

namespace dptrain {
namespace documents_test {

/// The cells of a table's first row that begins with these words and stands behind `title`.
std::vector<std::string> row(const std::string& page, const std::string& title, const std::string& begins) {
  std::vector<std::string> cells;
  const size_t at = page.find("\n| " + begins, page.find(title));
  if (at == std::string::npos) {
    ADD_FAILURE() << "no row " << begins << " behind " << title;
    return cells;
  }
  const std::string line = page.substr(at + 1, page.find('\n', at + 1) - at - 1);
  for (size_t from = 2; from < line.size();) {
    const size_t end = line.find(" |", from);
    cells.push_back(line.substr(from, end - from));
    from = end + 3;
  }
  return cells;
}

/// "2.10x (>= 1.9x)" as 2.1.
double ratio(const std::string& cell) { return std::stod(cell.substr(0, cell.find('x'))); }

TEST(ReadmeFigures, OfSpeedAndMemoryAreThoseOfTheResults) {
  const std::string readme = testing::text_of(testing::source_file("README.md"));
  const std::string results = testing::text_of(testing::source_file("docs/results/cpu-speed.md"));
  const auto speed = row(readme, "## What it costs", "speed"), memory = row(readme, "## What it costs", "memory");
  const std::vector<std::string> models = {"lenet, batch 256", "resnet18, batch 64", "pyramidnet, batch 16",
                                           "bert, batch 8"};
  ASSERT_EQ(speed.size(), models.size() + 1);
  ASSERT_EQ(memory.size(), models.size() + 1);
  for (size_t m = 0; m < models.size(); ++m) {
    SCOPED_TRACE(models[m]);
    const auto of_speed = row(results, "## Samples/s", models[m] + " | fp32"),
               of_memory = row(results, "## Memory", models[m]);
    ASSERT_EQ(of_speed.size(), 11u);
    ASSERT_EQ(of_memory.size(), 11u);
    EXPECT_EQ(speed[m + 1], fmt::format("{:.1f}x", ratio(of_speed[9])));
    EXPECT_EQ(memory[m + 1], fmt::format("{:.2f}x", ratio(of_memory[9])));
  }
}

TEST(Documents, ListEveryConfiguration) {
  const std::string index = testing::text_of(testing::source_file("configs/README.md"));
  const std::filesystem::path folder = testing::source_file("configs");
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    if (entry.path().extension() != ".yaml") continue;
    const std::string name = entry.path().lexically_relative(folder).generic_string();
    EXPECT_NE(index.find("](" + name + ")"), std::string::npos) << name << " isn't in configs/README.md";
  }
}

class DocumentsTest : public testing::CommandTest {};

TEST_F(DocumentsTest, HaveEveryKey) {
  const std::string page = testing::text_of(testing::source_file("docs/configuration.md"));
  const auto schema = nlohmann::json::parse(run({"schema"}).out);
  for (const auto& [key, unused] : schema["properties"].items())
    EXPECT_TRUE(page.find("\n| `" + key + "` |") != std::string::npos ||
                page.find("\n| **`" + key + "`** |") != std::string::npos)
        << key << " has no row in docs/configuration.md";
}

TEST_F(DocumentsTest, HaveEveryCommand) {
  const std::string page = testing::text_of(testing::source_file("docs/commands.md"));
  std::istringstream help(run({"--help"}).out);
  std::string line;
  while (std::getline(help, line) && line != "Subcommands:") {
  }
  int commands = 0;
  for (; std::getline(help, line) && line.starts_with("  "); ++commands) {
    const std::string name = line.substr(2, line.find(' ', 2) - 2);
    EXPECT_NE(page.find("\n| `" + name), std::string::npos) << name << " has no row in docs/commands.md";
  }
  EXPECT_GT(commands, 10);
}

}  // namespace documents_test
}  // namespace dptrain
