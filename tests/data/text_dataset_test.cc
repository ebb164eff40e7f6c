#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "config/config_document.h"
#include "data/batch_part.h"
#include "data/dataset_registry.h"
#include "data/refusal.h"
#include "data/small_text.h"
#include "support/idx_files.h"
#include "support/test_device.h"

namespace dptrain {
namespace {

using testing::expect_refusal;
using testing::ScratchFolder;

DatasetSpec read_text(const std::string& text, const DatasetRequest& request = {}) {
  DatasetSpec spec;
  const ConfigSession session(parse_config(text, "a.yaml"),
                              [&](ConfigReader& config) { spec = read_dataset(config, request); });
  return spec;
}

const TextDataset& text_of(const std::shared_ptr<const Dataset>& dataset) {
  return dynamic_cast<const TextDataset&>(*dataset);
}

/// The small text in two files of a folder.
class TextDatasetTest : public ::testing::Test {
 protected:
  TextDatasetTest() {
    const TextLines lines = testing::small_text();
    std::string first, second;
    for (int64_t i = 0; i < lines.count(); ++i) (i < 7 ? first : second) += std::string(lines[i]) + "\n";
    folder_.write("genesis.txt", first);
    folder_.write("rest.txt", second);
  }
  std::string files() const {
    return "[" + (folder_.path() / "genesis.txt").string() + ", " + (folder_.path() / "rest.txt").string() + "]";
  }

  ScratchFolder folder_;
};

TEST_F(TextDatasetTest, TakesTheModelsSizesUnlessToldOtherwise) {
  const DatasetRequest bert{.seed = 1, .text = TextSizes{.vocabulary = 60, .sequence = 20}};
  const Datasets given = read_text("dataset: {name: text, files: " + files() + ", test_share: 0.4}", bert).open();
  EXPECT_EQ(given.train->samples(), 7);  // of 8 lines
  EXPECT_EQ(given.test->samples(), 3);
  EXPECT_EQ(text_of(given.train).sequence(), 20);
  EXPECT_EQ(text_of(given.train).vocabulary_size(), 60);
  const Datasets own =
      read_text("dataset: {name: text, files: " + files() + ", vocabulary: 62, sequence: 12, limit: 3, test_limit: 1}",
                bert)
          .open();
  EXPECT_EQ(own.train->samples(), 3);
  EXPECT_EQ(own.test->samples(), 1);
  EXPECT_EQ(text_of(own.train).sequence(), 12);
  EXPECT_EQ(text_of(own.train).vocabulary_size(), 62);
  size_t vocabularies = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder_.path()))
    vocabularies += entry.path().filename().string().starts_with("genesis.6");
  EXPECT_EQ(vocabularies, 2u) << "kept beside the first file";
}

TEST_F(TextDatasetTest, FilesThatAreMissingOrWrongAreNamed) {
  expect_refusal(ExitCode::missing_file, {"a.yaml:1", "none.txt"},
                 [&] { read_text("dataset: {name: text, files: [none.txt]}").open(); });
  folder_.write("bad.txt", "fine\n\xff\n");
  expect_refusal(ExitCode::bad_data, {"a.yaml:1", "bad.txt:2", "UTF-8"}, [&] {
    read_text("dataset: {name: text, files: " + (folder_.path() / "bad.txt").string() + "}").open();
  });
  expect_refusal(ExitCode::config, {"a.yaml:1", "files"}, [] { read_text("dataset: {name: text, files: {a: 1}}"); });
  expect_refusal(ExitCode::config, {"a.yaml:1", "sequence", "got 4"},
                 [] { read_text("dataset: {name: text, sequence: 4}"); });
  for (const char* share : {"0", "1"})
    expect_refusal(ExitCode::config, {"a.yaml:1", "test_share", "expected a number over 0 and below 1"},
                   [&] { read_text(std::string("dataset: {name: text, test_share: ") + share + "}"); });
}

TEST_F(TextDatasetTest, PartsPredictMaskedRowsAloneUpToAMultiple) {
  const Datasets text = read_text("dataset: {name: synthetic, samples: 90}",
                                  {.seed = 1, .text = TextSizes{.vocabulary = 70, .sequence = 30}})
                            .open();
  EXPECT_EQ(text.train->samples(), 90);
  EXPECT_EQ(text.test->samples(), 18);
  const auto device = testing::test_device();
  std::vector<int64_t> samples(60);
  for (size_t i = 0; i < samples.size(); ++i) samples[i] = static_cast<int64_t>(i);
  const BatchPart part = load_part(*text.train, samples, *device, {.epoch = 2});
  const BatchPart block = load_block(*text.train, 0, 60, *device);
  ASSERT_EQ(part.targets.size(), 2u);
  EXPECT_EQ(part.text.predicted.size() % kPredictedRows, 0u);
  EXPECT_EQ(part.targets[0].size(), part.text.predicted.size());
  const std::vector<int64_t> counted = counted_labels(part);
  EXPECT_GT(counted[0], 60);
  EXPECT_LE(counted[0], static_cast<int64_t>(part.text.predicted.size()));
  EXPECT_GT(counted[0] + kPredictedRows, static_cast<int64_t>(part.text.predicted.size()));
  EXPECT_EQ(counted[1], 60);
  EXPECT_TRUE(block.text.predicted.empty());
  EXPECT_EQ(block.targets[0].size(), 60u * 30u);
  for (size_t n = 0; n < 60; ++n) {
    const auto begin = part.text.tokens.begin() + static_cast<int64_t>(30 * n);
    const int32_t length = part.text.lengths[n];
    EXPECT_EQ(std::count(begin, begin + 30, 0), 30 - length);
    EXPECT_EQ(*(begin + length - 1), 3) << "the last token is a separator";
  }
  EXPECT_NE(load_part(*text.train, samples, *device, {.epoch = 3}).text.tokens, part.text.tokens) << "another epoch";
}

TEST_F(TextDatasetTest, APartIsTheSameForEveryNumberOfThreads) {
  const Datasets text = read_text("dataset: {name: synthetic, samples: 900}",
                                  {.seed = 1, .text = TextSizes{.vocabulary = 70, .sequence = 128}})
                            .open();
  const auto device = testing::test_device();
  std::vector<int64_t> samples(900);
  std::iota(samples.rbegin(), samples.rend(), 0);
  const BatchPart by_one = load_part(*text.train, samples, *device, {.epoch = 2});
  SampleThreads threads(4);
  const BatchPart by_four = load_part(*text.train, samples, *device, {.epoch = 2, .threads = &threads});
  EXPECT_EQ(by_four.text.tokens, by_one.text.tokens);
  EXPECT_EQ(by_four.text.segments, by_one.text.segments);
  EXPECT_EQ(by_four.text.lengths, by_one.text.lengths);
  EXPECT_EQ(by_four.text.predicted, by_one.text.predicted);
  EXPECT_EQ(by_four.targets, by_one.targets);
}

TEST_F(TextDatasetTest, SyntheticTextBeyondTheMemoryIsRefused) {
  expect_refusal(ExitCode::config, {"a.yaml:1", "samples", "this machine's memory", "fewer samples"}, [] {
    read_text("dataset: {name: synthetic, samples: 2000000000, test_samples: 2000000000}",
              {.text = TextSizes{.vocabulary = 8000, .sequence = 60'000}});
  });
}

TEST_F(TextDatasetTest, BlocksPredictEveryRowOrThoseOfTraining) {
  const Datasets text = read_text("dataset: {name: synthetic, samples: 20}",
                                  {.seed = 1, .text = TextSizes{.vocabulary = 70, .sequence = 30}})
                            .open();
  const auto device = testing::test_device();
  const std::vector<int64_t> samples = {4, 5, 6};
  const BatchPart trained = load_part(*text.train, samples, *device);
  const BatchPart all = load_block(*text.train, 4, 7, *device),
                  masked = load_block(*text.train, 4, 7, *device, PredictedRows::masked);
  EXPECT_EQ(masked.text.predicted, trained.text.predicted);
  EXPECT_EQ(masked.targets, trained.targets);
  EXPECT_EQ(masked.text.tokens, all.text.tokens);
  EXPECT_EQ(counted_labels(masked), counted_labels(all));
  EXPECT_EQ(all.targets[0].size(), 90u);
  EXPECT_EQ(load_block_without_images(*text.train, 4, 7, PredictedRows::masked).targets, trained.targets);
}

TEST_F(TextDatasetTest, SyntheticSamplesFillTheSequenceWhereAsked) {
  const auto device = testing::test_device();
  const std::vector<int64_t> samples = {0, 1, 2, 3, 4, 5, 6, 7};
  const auto lengths = [&](const std::string& options) {
    const Datasets text = read_text("dataset: {name: synthetic, samples: 8" + options + "}",
                                    {.text = TextSizes{.vocabulary = 70, .sequence = 31}})
                              .open();
    return load_part(*text.train, samples, *device, {.epoch = 1}).text.lengths;
  };
  EXPECT_EQ(lengths(", full: true"), std::vector<int32_t>(8, 31));
  const std::vector<int32_t> varied = lengths("");
  EXPECT_LT(std::ranges::min(varied), 31);
}

}  // namespace
}  // namespace dptrain
