// Figures of the documentation that are the same on every machine match what its commands print.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <map>
#include <set>
#include <sstream>

#include "device/cpu_isa.h"
#include "e2e/command_fixture.h"

namespace dptrain {
namespace {

class DocsFiguresTest : public testing::CommandTest {
 protected:
  /// A step planned as scripts/scaling.py plans it: `samples` per device, on a number of H200s.
  struct OnPaper {
    std::string config, shape, precision;
    int samples;
  };
  nlohmann::json planned(const OnPaper& model, int count, const std::string& links, const std::string& strategy = "ddp",
                         bool deterministic = false) const {
    const testing::Finished finished = run(
        {"plan",      "--json",
         "--config",  model.config,
         "--devices", fmt::format("{}xh200", count),
         "--links",   testing::source_file(fmt::format("configs/links/{}.yaml", links)),
         "--set",     fmt::format("dataset={{name: synthetic, {} samples: {}}}", model.shape, model.samples * count),
         "--set",     "batch_size=",
         "--set",     fmt::format("per_device_batch_size={}", model.samples),
         "--set",     "accumulate=1",
         "--set",     "precision=" + model.precision,
         "--set",     "strategy=" + strategy,
         "--set",     fmt::format("deterministic={}", deterministic)});
    EXPECT_EQ(finished.exit, 0) << finished.err;
    return nlohmann::json::parse(finished.out, nullptr, false);
  }
  static double step_ms(const nlohmann::json& plan) { return 1e3 * plan["time"]["step_s"].get<double>(); }
  static double samples_per_s(const nlohmann::json& plan) {
    return plan["time"]["samples_per_s"].get<double>() / plan["world_size"].get<double>();
  }
  inline static const OnPaper kLeNet = {"lenet_1cpu", "shape: [1, 28, 28],", "fp32", 64};
  inline static const OnPaper kResNet = {"resnet18_2gpu", "shape: [1, 28, 28],", "bf16", 128};
  inline static const OnPaper kPyramidNet = {"pyramidnet_ddp_4gpu", "shape: [3, 32, 32],", "bf16", 32};
  inline static const OnPaper kBert = {"bert_ddp_4gpu", "", "bf16", 60};
};

/// The numbers in cells such as "7.36 ms, 16 %" and "54,785".
std::vector<double> numbers_of(const std::vector<std::string>& cells) {
  std::vector<double> numbers;
  for (const std::string& cell : cells) {
    std::istringstream words(cell);
    for (std::string word; words >> word;) {
      std::erase_if(word, [](char c) { return c == ',' || c == '*'; });
      if (std::isdigit(static_cast<unsigned char>(word[0])) != 0) numbers.push_back(std::stod(word));
    }
  }
  return numbers;
}

struct Figure {
  double planned;
  double last_digit = 0.01;  ///< the last digit that the page gives
};

/// Expects the page's cells to have these figures.
void expect_figures(const std::vector<std::string>& cells, const std::vector<Figure>& figures) {
  const std::vector<double> told = numbers_of(cells);
  ASSERT_EQ(told.size(), figures.size());
  for (size_t i = 0; i < told.size(); ++i)
    EXPECT_NEAR(told[i], figures[i].planned, figures[i].last_digit) << "number " << i;
}

/// The cells of the row that begins with `first`, without that cell, in the first table after `title`.
std::vector<std::string> cells_of(const std::string& page, const std::string& title, const std::string& first) {
  std::vector<std::string> cells;
  const size_t table = page.find(title), row = page.find("\n| " + first + " | ", table);
  EXPECT_NE(table, std::string::npos) << title;
  EXPECT_NE(row, std::string::npos) << title << " has no row " << first;
  if (row == std::string::npos) return cells;
  const std::string line = page.substr(row + 1, page.find('\n', row + 1) - row - 1);
  for (size_t at = line.find(" | ") + 3; at < line.size(); at = line.find_first_of('|', at) + 2)
    cells.push_back(line.substr(at, line.find(" |", at) - at));
  return cells;
}

/// A number with separators: 1234567 as "1,234,567".
std::string in_thousands(int64_t number) {
  std::string digits = std::to_string(number);
  for (size_t end = digits.size(); end > 3; end -= 3) digits.insert(end - 3, ",");
  return digits;
}

/// docs/strategies.md and its subpages. Their commands are run as they are written there, and their figures are read
/// from the pages.
class StrategiesPageTest : public testing::CommandTest {
 protected:
  /// The commands of the only block of code that contains these words, without commands that print with jq.
  std::string commands_with(const std::string& words) const {
    std::istringstream lines(page_);
    std::string block, found;
    for (std::string line; std::getline(lines, line);) {
      if (line.starts_with("    ")) {
        if (const size_t pipe = line.find(" | jq "); pipe != std::string::npos) line.resize(pipe);
        if (!line.substr(line.find_first_not_of(' ')).starts_with("jq ")) block += line.substr(4) + "\n";
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
  /// Runs these commands; `more` is added to each command that trains.
  testing::Finished run_commands(const std::string& words, const std::string& more = "") const {
    return run_lines(commands_with(words), more);
  }
  testing::Finished run_lines(const std::string& commands, const std::string& more) const {
    const std::string program =
        fmt::format("dptrain() {{ if [ \"$1\" = hash ]; then '{0}' \"$@\"; else '{0}' \"$@\" {1}; fi; }}\n",
                    testing::dptrain_binary(), more);
    testing::Finished finished =
        testing::Process(
            {.command = {"/bin/bash", "-c", program + commands}, .folder = folder_.path(), .out = {}, .err = {}})
            .wait();
    EXPECT_EQ(finished.exit, 0) << finished.err;
    return finished;
  }
  /// The cells of the first row after `anchor` that begins with `beginning`.
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
  /// Expects a cell of megabytes as the page writes them: "64.9", "0" or "0.0". The page has figures of AVX-512;
  /// layouts and operators of other instruction sets take up to a tenth more or less.
  static void expect_megabytes(const std::string& cell, const nlohmann::json& bytes, const std::string& what) {
    ASSERT_NE(cell, "") << what;
    const double page = std::stod(cell);
    EXPECT_NEAR(page, std::round(bytes.get<double>() / 1e5) / 10, cpu_isa() == CpuIsa::avx512 ? 1e-9 : 0.1 * page)
        << what;
  }
  /// The distinct hashes in what was printed. Expects `count` hashes in all.
  static std::set<std::string> hashes(const std::string& printed, size_t count) {
    std::vector<std::string> all;
    for (const auto& line : testing::lines_of(printed))
      if (line.size() == 64 && line.find_first_not_of("0123456789abcdef") == std::string::npos) all.push_back(line);
    EXPECT_EQ(all.size(), count) << printed;
    return {all.begin(), all.end()};
  }

  /// Sets the page that all other functions here read.
  void read_page(const std::string& file) { page_ = testing::text_of(testing::source_file(file)); }
  void expect_on_page(const std::string& words) const { EXPECT_NE(page_.find(words), std::string::npos) << words; }

  static constexpr const char* kDetails = "docs/strategy-details.md";
  static constexpr const char* kSharing = "docs/sharing-a-batch.md";
  static constexpr const char* kComparing = "docs/comparing.md";
  std::string page_;
};

TEST_F(StrategiesPageTest, WhoHoldsWhat) {
  read_page("docs/strategies.md");
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
  // Another instruction set gives other bits, but the same runs have equal ones.
  std::set<std::set<std::string>> alike_on_the_page, alike;
  for (const auto& [hash, names] : written) alike_on_the_page.insert(names);
  for (const auto& [hash, names] : computed) alike.insert(names);
  EXPECT_EQ(alike, alike_on_the_page);
  const auto collectives = [&](const std::string& name) {
    return last_metrics("runs/bert/" + name)["comm"]["collectives"].get<int64_t>();
  };
  read_page(kDetails);
  expect_on_page(fmt::format("({} collectives in place of {}\n", collectives("sharded"), collectives("kvstore")));
}

TEST_F(StrategiesPageTest, WhatDataParallelSends) {
  read_page(kDetails);
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

TEST_F(StrategiesPageTest, WhereAdamsStateAndOutputsAre) {
  read_page(kDetails);
  const std::string loop = "for config in bert_data_parallel_4gpu";
  std::istringstream printed(run_commands(loop).out), told(page_.substr(page_.find("    [", page_.find(loop))));
  for (int config = 0; config < 3; ++config) {
    nlohmann::json plan, megabytes;
    printed >> plan;
    told >> megabytes;
    ASSERT_EQ(megabytes.size(), plan["ranks"].size());
    // Another instruction set needs some kilobytes of workspace more or less.
    for (size_t rank = 0; rank < megabytes.size(); ++rank)
      EXPECT_NEAR(megabytes[rank].get<double>(), plan["ranks"][rank]["peak_bytes"].get<double>() / 1e6, 1)
          << megabytes << " of " << plan["run"];
  }
}

TEST_F(StrategiesPageTest, WhatASplitSharesOut) {
  read_page(kSharing);
  std::istringstream lines(commands_with("'split=[0.7, 0.3]'"));
  for (std::string line; std::getline(lines, line);)
    if (line.find("split=[") != std::string::npos) run_lines(line, "");
  const auto devices = last_metrics("runs/split")["devices"];
  EXPECT_EQ(devices.size(), 2u);
  for (const auto& device : devices)
    expect_on_page(fmt::format("    [{},{},", device["device"].dump(), device["samples"].get<int64_t>()));
}

TEST_F(StrategiesPageTest, WhatSchedulesSend) {
  read_page(kDetails);
  run_commands("--out runs/schedules ", "--quiet");
  for (const std::string name : {"gpipe", "1f1b", "zero_bubble", "interleaved"}) {
    expect_megabytes(cells("| run | samples/s | waits", "| `" + name + "` |")[4],
                     last_metrics("runs/schedules/" + name)["comm"]["bytes"], name);
    EXPECT_EQ(hash("runs/schedules/gpipe"), hash("runs/schedules/" + name));
  }
}

TEST_F(StrategiesPageTest, WhatPlacementsHold) {
  read_page(kDetails);
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
  read_page(kDetails);
  const auto codes = testing::lines_of(run_commands("--set memory_limit=30000000").out);
  ASSERT_EQ(codes.size(), 4u);
  expect_on_page(fmt::format("prints {}, {}, {} and {}:", codes[0], codes[1], codes[2], codes[3]));
}

TEST_F(StrategiesPageTest, EqualHashes) {
  const std::string fewer = "--set dataset.limit=640 --set epochs=1";
  read_page(kComparing);
  EXPECT_EQ(hashes(run_commands("dptrain hash runs/ddp &&", fewer).out, 3).size(), 1u) << "data parallel ones";
  EXPECT_EQ(hashes(run_commands("dptrain hash runs/hybrid &&", fewer).out, 2).size(), 1u) << "replicas";
  read_page(kSharing);
  EXPECT_EQ(hashes(run_commands("for devices in cpu:0 cpu:0-1", fewer).out, 4).size(), 1u) << "shards";
}

TEST_F(DocsFiguresTest, WhatCompressionSendsIsInTheTableOfStrategies) {
  const testing::Finished finished =
      run({"compare", "--config", "bert_small_1cpu", "--devices", "cpu:0-3", "--set", "threads=1", "--set", "steps=2",
           "--set", "eval_every=0", "--out", "compressed", "--quiet", "--strategies",
           "ddp, {name: ddp, compress: bf16, as: bf16}, {name: ddp, compress: fp16, as: fp16}, {name: ddp, compress: "
           "powersgd, as: powersgd}, {name: ddp, compress: two_bit, as: two_bit}"});
  ASSERT_EQ(finished.exit, 0) << finished.err;
  const std::string page = testing::text_of(testing::source_file("docs/strategy-details.md"));
  for (const std::string run : {"ddp", "bf16", "fp16", "powersgd", "two_bit"}) {
    const auto last = last_metrics("compressed/" + run);
    const int64_t kept = last["devices"][0]["memory"]["communication"];
    const std::string row = fmt::format("| `{}` | {} | {} | {} | ", run, in_thousands(last["comm"]["bytes"]),
                                        last["comm"]["collectives"].get<int64_t>(), in_thousands(kept));
    EXPECT_NE(page.find(row), std::string::npos) << row;
  }
}

TEST_F(DocsFiguresTest, WhatBatchNormsSendIsInTheListOfStrategies) {
  const std::string page = testing::text_of(testing::source_file("docs/sharing-a-batch.md"));
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

/// Checks a few rows of what scripts/scaling.py prints.
TEST_F(DocsFiguresTest, WhatIsPlannedIsInTheTablesOfScaling) {
  const std::string page = testing::text_of(testing::source_file("docs/scaling.md"));
  const std::vector<std::string> links = {"h200_100g", "h200_200g", "h200_400g", "h200_8x400g"};
  struct Table {
    const char* title;
    OnPaper model;
    std::vector<int> counts;
  };
  for (const auto& [title, model, counts] : {Table{"LeNet, 64 samples a device", kLeNet, {8, 16, 4096}},
                                             {"ResNet-18, 128 samples", kResNet, {8, 16}},
                                             {"PyramidNet, 32 samples", kPyramidNet, {16}},
                                             {"BERT, 60 samples", kBert, {16}}})
    for (const int count : counts) {
      SCOPED_TRACE(fmt::format("{}, {}", title, count));
      const double of_a_host = samples_per_s(planned(model, 8, links[0]));
      std::vector<Figure> figures;
      for (const std::string& link : links) {
        const auto plan = planned(model, count, link);
        figures.push_back({step_ms(plan)});
        figures.push_back({100 * samples_per_s(plan) / of_a_host, 1});
      }
      expect_figures(cells_of(page, title, std::to_string(count)), figures);
    }
}

TEST_F(DocsFiguresTest, WhichStrategyWinsIsAsPlanned) {
  const std::string page = testing::text_of(testing::source_file("docs/scaling.md"));
  const auto cells = cells_of(page, "LeNet, hosts of 8 with 400 Gbit/s", "16");
  // In the order of the table, which has other strategies between these.
  const std::vector<std::pair<size_t, std::string>> strategies = {
      {0, "ddp"},
      {2, "{name: ddp, compress: bf16}"},
      {5, "{name: ddp, shard_optimizer: true}"},
      {6, "kvstore"},
      {7, "{name: kvstore, type: dist_sync}"},
      {8, "{name: hybrid, model_parallel: 2, micro_batches: 8}"}};
  ASSERT_EQ(cells.size(), 10u);
  for (const auto& [column, strategy] : strategies) {
    SCOPED_TRACE(strategy);
    expect_figures({cells[column]}, {{step_ms(planned(kLeNet, 16, "h200_400g", strategy))}});
  }
  expect_figures({cells[1]}, {{step_ms(planned(kLeNet, 16, "h200_400g", "ddp", /*deterministic=*/true))}});
  // Sums of 16 bits are also recorded with the step, and hide behind the backward pass.
  expect_figures({cells_of(page, "ResNet-18, hosts of 8 with 400 Gbit/s", "16")[2]},
                 {{step_ms(planned(kResNet, 16, "h200_400g", "{name: ddp, compress: bf16}"))}});
}

/// Trains ResNet-18 on as many images as Fashion-MNIST has.
TEST_F(DocsFiguresTest, SixteenGpusTakeWhatIsPlanned) {
  const std::string page = testing::text_of(testing::source_file("docs/scaling.md"));
  const auto epoch_s = [this](int batch, int count, const std::string& kind) {
    const testing::Finished finished = run(
        {"plan", "--json", "--config", "resnet18_2gpu", "--devices", fmt::format("{}x{}", count, kind), "--set",
         "dataset={name: synthetic, shape: [1, 28, 28], samples: 60000}", "--set", fmt::format("batch_size={}", batch),
         "--set", count > 1 ? "strategy=ddp" : "strategy=single", "--set", "precision=fp32"});
    EXPECT_EQ(finished.exit, 0) << finished.err;
    return nlohmann::json::parse(finished.out, nullptr, false)["time"]["epoch_s"].get<double>();
  };
  for (const int batch : {256, 1024}) {
    SCOPED_TRACE(batch);
    const double k80 = epoch_s(batch, 1, "k80"), k80s = epoch_s(batch, 16, "k80"), h200 = epoch_s(batch, 1, "h200"),
                 h200s = epoch_s(batch, 16, "h200");
    expect_figures(cells_of(page, "| batch | learning rate |", std::to_string(batch)), {{0.1 * batch / 256, 1e-9},
                                                                                        {k80, 0.1},
                                                                                        {k80s},
                                                                                        {k80 / k80s, 0.1},
                                                                                        {h200},
                                                                                        {h200s, 0.001},
                                                                                        {h200 / h200s, 0.1}});
  }
}

TEST_F(DocsFiguresTest, MoreSamplesAGpuAreAsPlanned) {
  const std::string page = testing::text_of(testing::source_file("docs/scaling.md"));
  for (const int samples : {128, 512}) {
    OnPaper model = kResNet;
    model.samples = samples;
    const auto plan = planned(model, 16, "h200_400g");
    double waits = 0;
    for (const auto& rank : plan["ranks"]) waits = std::max(waits, rank["time"]["exposed_comm_s"].get<double>());
    expect_figures(cells_of(page, "samples a GPU | a step", std::to_string(samples)),
                   {{step_ms(plan)}, {1e3 * waits}, {samples_per_s(plan), 1}});
  }
}

}  // namespace
}  // namespace dptrain
