#include "data/mnist_datasets.h"

#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "data/dataset_folders.h"
#include "data/idx_dataset.h"

namespace dptrain {
namespace {

/// How one data set in MNIST's format differs from another.
struct IdxSource {
  std::string name;
  std::vector<std::filesystem::path> folders;  ///< searched when the data set is opened, unless the user named a folder
  std::string advice;                          ///< for the error if no folder has the files
  std::string dir_help;
};

DatasetSpec read_idx_spec(ConfigReader& config, const IdxSource& source) {
  const std::optional<std::filesystem::path> dir = config.optional_path("dir", source.dir_help);
  const int64_t classes = config.integer(
      "classes", 10,
      {.min = 2, .max = 256, .help = "number of classes, for files of your own: their labels are 0 to classes - 1"});
  const DatasetOptions options = read_dataset_options(config, 1);
  DatasetSpec spec;
  spec.order = options.order;
  spec.open = [source, dir, classes, options] {
    return read_idx_dataset(dir ? *dir : find_dataset_folder(source.name, source.folders, has_idx_files, source.advice),
                            options, classes);
  };
  return spec;
}

}  // namespace

DatasetSpec read_mnist(ConfigReader& config, const DatasetRequest&) {
  return read_idx_spec(
      config, {.name = "mnist",
               .folders = in_dataset_roots("mnist-10k"),
               .advice = "give the folder of its four IDX files: dataset: {name: mnist, dir: ...}",
               .dir_help = "the folder of its four IDX files; by default the 10,000 digits that come with dptrain"});
}

DatasetSpec read_fashion_mnist(ConfigReader& config, const DatasetRequest&) {
  std::vector<std::filesystem::path> folders = in_dataset_roots("fashion_mnist");
  folders.emplace_back("/usr/share/datasets/fashion-mnist");  // Debian's package dataset-fashion-mnist
  return read_idx_spec(config,
                       {.name = "fashion_mnist",
                        .folders = std::move(folders),
                        .advice = "install it: sudo apt-get install dataset-fashion-mnist, or give the folder of "
                                  "its four IDX files: dataset: {name: fashion_mnist, dir: ...}",
                        .dir_help = "the folder of its four IDX files; by default found by itself"});
}

}  // namespace dptrain
