// Figures of the documentation that are the same on every machine are those that its commands print.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>
#include <map>
#include <set>
#include <sstream>

#include "e2e/command_fixture.h"

namespace dptrain {
namespace {

class DocsFiguresTest : public testing::CommandTest {};

/// 1234567 as "1,234,567".
std::string in_thousands(int64_t number) {
  std::string digits = std::to_string(number);
  for (size_t end = digits.size(); end > 3; end -= 3) digits.insert(end - 3, ",");
  return digits;
}

/// docs/strategies.md: its commands are run as they stand there, and its figures are read out of it.
class StrategiesPageTest : public testing::CommandTest {
 protected:
  /// The commands of the one block of code that has these words, but for the lines that print with jq.
  std::string commands_with(const std::string& words) const {
    std::istringstream lines(page_);
    std::string block, found;
    for (std::string line; std::getline(lines, line);) {
      if (line.starts_with("    ")) {
        if (line.find("jq -") == std::string::npos) block += line.substr(4) + "\n";
        continue;
      }
      if (block.find(words) != std::string::npos) {
        EXPECT_EQ(found, "") << "two blocks have " << words;
        found = block;
      }
      block.clear();
    }
    EXPECT_NE(found, "") << "no block has " << words;
    return found;
  }
  /// Runs them; `more` stands behind what is trained.
  testing::Finished run_commands(const std::string& words, const std::string& more = "") const {
    const std::string program =
        fmt::format("dptrain() {{ if [ \"$1\" = hash ]; then '{0}' \"$@\"; else '{0}' \"$@\" {1}; fi; }}\n",
                    testing::dptrain_binary(), more);
    testing::Finished finished = testing::Process({.command = {"/bin/bash", "-c", program + commands_with(words)},
                                                   .folder = folder_.path(),
                                                   .out = {},
                                                   .err = {}})
                                     .wait();
    EXPECT_EQ(finished.exit, 0) << finished.err;
    return finished;
  }
  /// Those of the first row behind `anchor` that begins with these.
  std::vector<std::string> cells(const std::string& anchor, const std::string& beginning) const {
    std::vector<std::string> found;
    const size_t from = page_.find(anchor), row = page_.find("\n" + beginning, from) + 1;
    if (from == std::string::npos || row == 0) {
      ADD_FAILURE() << "no row " << beginning << " behind " << anchor;
      return std::vector<std::string>(20);
    }
    std::istringstream line(page_.substr(row + 1, page_.find('\n', row) - row - 1));
    for (std::string cell; std::getline(line, cell, '|');) {
      const size_t first = cell.find_first_not_of(' '), last = cell.find_last_not_of(' ');
      found.push_back(first == std::string::npos ? "" : cell.substr(first, last - first + 1));
    }
    return found;
  }
  /// As the page has megabytes: "64.9", "0" or "0.0".
  static void expect_megabytes(const std::string& cell, const nlohmann::json& bytes, const std::string& what) {
    ASSERT_NE(cell, "") << what;
    EXPECT_NEAR(std::stod(cell), std::round(bytes.get<double>() / 1e5) / 10, 1e-9) << what;
  }
  /// The hashes that were printed, each once, of so many.
  static std::set<std::string> hashes(const std::string& printed, size_t count) {
    std::vector<std::string> all;
    for (const auto& line : testing::lines_of(printed))
      if (line.size() == 64 && line.find_first_not_of("0123456789abcdef") == std::string::npos) all.push_back(line);
    EXPECT_EQ(all.size(), count) << printed;
    return {all.begin(), all.end()};
  }

  const std::string page_ = testing::text_of(testing::source_file("docs/strategies.md"));
};

TEST_F(StrategiesPageTest, WhoHoldsWhat) {
  run_commands("--out runs/bert ", "--quiet");
  std::map<std::string, std::set<std::string>> written, computed;
  for (const std::string name :
       {"single", "data_parallel", "ddp", "sharded", "kvstore", "local", "pipeline", "hybrid"}) {
    const auto row = cells("## Who holds what", "| `" + name + "` |");
    const auto last = last_metrics("runs/bert/" + name);
    const auto& memory = last["devices"][0]["memory"];
    expect_megabytes(row[3], last["comm"]["bytes"], name + " sends");
    expect_megabytes(row[5], memory["weights"], name + " weights");
    expect_megabytes(row[6], memory["gradients"], name + " gradients");
    expect_megabytes(row[7], memory["optimizer"], name + " optimizer");
    written[row[4]].insert(name);
    computed[last["weights_hash"]].insert(name);
  }
  // Another instruction set ends in other bits, equal for the same ones.
  std::set<std::set<std::string>> alike_on_the_page, alike;
  for (const auto& [hash, names] : written) alike_on_the_page.insert(names);
  for (const auto& [hash, names] : computed) alike.insert(names);
  EXPECT_EQ(alike, alike_on_the_page);
}

TEST_F(StrategiesPageTest, WhatDataParallelSends) {
  run_commands("--out runs/outputs ", "--quiet");
  const std::string anchor = "| model | run | peak MB |";
  const auto expect_sent = [&](const std::string& row, const std::string& out) {
    expect_megabytes(cells(anchor, row)[4], last_metrics(out)["comm"]["bytes"], out);
  };
  expect_sent("| BERT, 8,000 words | `data_parallel` |", "runs/outputs/data_parallel");
  expect_sent("| | `output-1` |", "runs/outputs/output-1");
  expect_sent("| | `parallel` |", "runs/outputs/parallel");
  expect_sent("| PyramidNet, 10 classes | `data_parallel` |", "runs/pyramidnet/data_parallel");
}

TEST_F(StrategiesPageTest, WhatSchedulesSend) {
  run_commands("--out runs/schedules ", "--quiet");
  for (const std::string name : {"gpipe", "1f1b"})
    expect_megabytes(cells("| run | peak MB | MB sent | activations", "| `" + name + "` |")[2],
                     last_metrics("runs/schedules/" + name)["comm"]["bytes"], name);
  EXPECT_EQ(hash("runs/schedules/gpipe"), hash("runs/schedules/1f1b"));
}

TEST_F(StrategiesPageTest, WhatPlacementsHold) {
  run_commands("for placement in balanced round_robin", "--quiet");
  for (const std::string placement : {"balanced", "round_robin"}) {
    const auto row = cells("| `placement` | `kvstore.bytes` |", "| `" + placement + "` |");
    const auto last = last_metrics("runs/" + placement);
    std::vector<int64_t> optimizer;
    for (const auto& device : last["devices"]) optimizer.push_back(device["memory"]["optimizer"]);
    EXPECT_EQ(row[1], fmt::format("{}", fmt::join(last["kvstore"]["bytes"].get<std::vector<int64_t>>(), ", ")));
    EXPECT_EQ(row[2], fmt::format("{}", fmt::join(optimizer, ", ")));
  }
}

TEST_F(StrategiesPageTest, HowTrainingsUnderAMemoryLimitEnd) {
  const auto codes = testing::lines_of(run_commands("--set memory_limit=30000000").out);
  ASSERT_EQ(codes.size(), 4u);
  const std::string sentence = fmt::format("prints {}, {}, {} and {}:", codes[0], codes[1], codes[2], codes[3]);
  EXPECT_NE(page_.find(sentence), std::string::npos) << sentence;
}

TEST_F(StrategiesPageTest, EqualHashes) {
  const std::string fewer = "--set dataset.limit=640 --set epochs=1";
  EXPECT_EQ(hashes(run_commands("dptrain hash runs/ddp &&", fewer).out, 3).size(), 1u) << "data parallel ones";
  EXPECT_EQ(hashes(run_commands("dptrain hash runs/hybrid &&", fewer).out, 2).size(), 1u) << "replicas";
  EXPECT_EQ(hashes(run_commands("for devices in cpu:0 cpu:0-1", fewer).out, 4).size(), 1u) << "shards";
}

TEST_F(DocsFiguresTest, WhatCompressionSendsIsInTheTableOfStrategies) {
  const testing::Finished finished =
      run({"compare", "--config", "bert_small_1cpu", "--devices", "cpu:0-3", "--set", "threads=1", "--set", "steps=2",
           "--set", "eval_every=0", "--out", "compressed", "--quiet", "--strategies",
           "ddp, {name: ddp, compress: bf16, as: bf16}, {name: ddp, compress: fp16, as: fp16}, {name: ddp, compress: "
           "powersgd, as: powersgd}, {name: ddp, compress: two_bit, as: two_bit}"});
  ASSERT_EQ(finished.exit, 0) << finished.err;
  const std::string page = testing::text_of(testing::source_file("docs/strategies.md"));
  for (const std::string run : {"ddp", "bf16", "fp16", "powersgd", "two_bit"}) {
    const auto last = last_metrics("compressed/" + run);
    const int64_t kept = last["devices"][0]["memory"]["communication"];
    const std::string row = fmt::format("| `{}` | {} | {} | {} | ", run, in_thousands(last["comm"]["bytes"]),
                                        last["comm"]["collectives"].get<int64_t>(), in_thousands(kept));
    EXPECT_NE(page.find(row), std::string::npos) << row;
  }
}

TEST_F(DocsFiguresTest, WhatBatchNormsSendIsInTheListOfStrategies) {
  const std::string page = testing::text_of(testing::source_file("docs/strategies.md"));
  for (const std::string mode : {"local", "sync", "average", "first"}) {
    const testing::Finished finished = run({"--config", "resnet18_1gpu",     "--devices", "cpu:0-1",
                                            "--set",    "strategy=ddp",      "--set",     "batch_norm=" + mode,
                                            "--set",    "dataset=synthetic", "--set",     "batch_size=8",
                                            "--set",    "epochs=",           "--set",     "steps=1",
                                            "--set",    "eval_every=0",      "--out",     mode,
                                            "--quiet"});
    ASSERT_EQ(finished.exit, 0) << finished.err;
    const auto comm = last_metrics(mode)["comm"];
    const std::string line = fmt::format(R"(["{}",{{"bytes":{},"collectives":{}}}])", mode,
                                         comm["bytes"].get<int64_t>(), comm["collectives"].get<int64_t>());
    EXPECT_NE(page.find(line), std::string::npos) << line;
  }
}

}  // namespace
}  // namespace dptrain
