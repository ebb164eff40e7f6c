#include "data/dataset_registry.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "data/cifar10.h"
#include "data/image_folder.h"
#include "data/mnist_datasets.h"
#include "data/synthetic.h"
#include "data/text_dataset.h"

namespace dptrain {
namespace {

/// A data set that a configuration may name. To add one, add a row.
struct DatasetRow {
  const char* name;
  DatasetSpec (*read)(ConfigReader& config, const DatasetRequest& request);
  const char* help;
};

constexpr std::array kDatasets = {
    DatasetRow{"mnist", read_mnist, "handwritten digits, 28 x 28, ten classes"},
    DatasetRow{"fashion_mnist", read_fashion_mnist, "articles of clothing, 28 x 28, ten classes"},
    DatasetRow{"cifar10", read_cifar10, "photographs of things and animals, 32 x 32 in color, ten classes"},
    DatasetRow{"image_folder", read_image_folder_options, "PNG or JPEG files of your own, a folder for each class"},
    DatasetRow{"text", read_text, "pairs of lines of a text with masked tokens, for models of text"},
    DatasetRow{"synthetic", read_synthetic,
               "one pattern per class plus noise, or text for models of text, drawn from the seed"},
};

/// Options that say where samples are stored and which of them are taken by which process, not what a sample is.
constexpr std::array<std::string_view, 8> kPlacesAndCounts = {"dir",        "test_folder", "files",        "limit",
                                                              "test_limit", "samples",     "test_samples", "partition"};

/// The keys under which a data set's files may be written.
constexpr std::array<std::string_view, 2> kPlaces = {"dir", "files"};

/// The beginning of a message about the files of a data set: the key that names them, if one was written.
std::string where_files_are(const ConfigReader& options) {
  const auto key = std::ranges::find_if(kPlaces, [&](std::string_view place) { return options.has(place); });
  return key != kPlaces.end() ? options.where(*key) : std::string();
}

bool is_place_or_count(const ResolvedOptions::value_type& option) {
  return std::ranges::find(kPlacesAndCounts, option.first) != kPlacesAndCounts.end();
}

}  // namespace

DatasetSpec read_dataset(ConfigReader& config, const DatasetRequest& request) {
  DatasetSpec spec;
  std::string files;
  std::vector<ConfigChoice> choices;
  for (const DatasetRow& row : kDatasets)
    choices.push_back({row.name, row.help, [&](ConfigReader& options) {
                         spec = row.read(options, request);
                         files = where_files_are(options);
                       }});
  spec.name = config.named("dataset", choices, std::nullopt, "what to train on");
  if (!config.describing()) spec.options = config.resolved_options("dataset");
  std::erase_if(spec.options, is_place_or_count);
  // An error about a missing or bad file also names the line of the configuration, or the override, that asked for the
  // file.
  spec.open = [open = spec.open, files, dataset = config.where("dataset")] {
    try {
      return open();
    } catch (const Error& error) {
      const bool is_about_files = error.code() == ExitCode::missing_file || error.code() == ExitCode::bad_data;
      throw Error(error.code(), (is_about_files && !files.empty() ? files : dataset) + ": " + error.what());
    }
  };
  return spec;
}

}  // namespace dptrain
