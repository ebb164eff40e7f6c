#include "data/text_dataset.h"

#include <algorithm>
#include <filesystem>
#include <memory>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "data/cache_folders.h"
#include "data/dataset_folders.h"
#include "data/dataset_options.h"
#include "data/kept_vocabulary.h"
#include "data/next_sentence_pairs.h"
#include "data/text_lines.h"

namespace dptrain {
namespace {

using Paths = std::vector<std::filesystem::path>;

bool has_kjv(const std::filesystem::path& folder) {
  std::error_code error;
  return std::filesystem::exists(folder / "kjv.txt.gz", error);
}

Paths own_text() {
  return {find_dataset_folder("text", in_dataset_roots("kjv"), has_kjv, "write dataset: {name: text, files: [...]}") /
          "kjv.txt.gz"};
}

/// The name of a text without its endings: "kjv" for kjv.txt.gz.
std::string name_of(const std::filesystem::path& file) {
  const std::string name = file.filename().string();
  return name.substr(0, name.find('.', 1));
}

std::shared_ptr<const TokenizedLines> read_tokens(const Paths& files, int64_t pieces) {
  const TextLines lines = read_text_lines(files);
  const Tokenizer tokenizer = kept_tokenizer(
      lines, {.pieces = pieces, .name = name_of(files.front()), .folders = cache_folders(files.front())});
  return std::make_shared<const TokenizedLines>(tokenize(lines, tokenizer));
}

}  // namespace

DatasetSpec read_text(ConfigReader& config, const DatasetRequest& request) {
  const TextSizes wanted = request.text.value_or(TextSizes());
  Paths files = config.paths("files", "lines of text, plain or gzip; by default the King James Bible");
  const int64_t vocabulary = config.integer(
      "vocabulary", wanted.vocabulary,
      {.min = kSpecialTokens + 1, .max = kMostPieces, .help = "pieces of the vocabulary; by default the model's"});
  const int64_t sequence = config.integer(
      "sequence", wanted.sequence, {.min = 5, .max = 65536, .help = "tokens per sample; by default the model's"});
  for (const char* size : {"vocabulary", "sequence"}) config.default_varies(size);
  const double test_share = config.number("test_share", 0.05,
                                          {.min = 0,
                                           .max = 1,
                                           .exclusive_min = true,
                                           .exclusive_max = true,
                                           .help = "share of the lines, the last ones, that is the test part"});
  const DatasetLimits limits = read_limits(config);
  DatasetSpec spec;
  spec.order = read_sample_order(config);
  spec.has_images = false;
  spec.open = [files = std::move(files), vocabulary, sequence, test_share, limits, seed = request.seed] {
    const auto lines = read_tokens(files.empty() ? own_text() : files, vocabulary);
    SentencePairsOptions options{
        .sequence = sequence, .seed = seed, .test_fraction = test_share, .limit = limits.train};
    Datasets pairs;
    pairs.train = std::make_shared<SentencePairs>(lines, options);
    options.split = DatasetSplit::test;
    options.limit = limits.test;
    pairs.test = std::make_shared<SentencePairs>(lines, options);
    return pairs;
  };
  return spec;
}

}  // namespace dptrain
