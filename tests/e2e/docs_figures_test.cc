// Figures of the documentation that are the same on every machine are those that its commands print.
#include <fmt/format.h>

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
