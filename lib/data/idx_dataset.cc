#include "data/idx_dataset.h"

#include <fmt/format.h>

#include <array>
#include <optional>
#include <utility>

#include "base/error.h"
#include "data/byte_images.h"
#include "data/idx_file.h"
#include "data/plain_or_gzip_file.h"

namespace dptrain {
namespace {

constexpr int64_t kClasses = 10;

/// The two files of one part.
struct SplitFiles {
  const char* images;
  const char* labels;
};
constexpr SplitFiles kTrain = {"train-images-idx3-ubyte", "train-labels-idx1-ubyte"};
constexpr SplitFiles kTest = {"t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"};

constexpr const char* kWhereToPut =
    "put the four IDX files there, or point the data set's dir: at the folder that has them";

void check_labels(const std::filesystem::path& path, const std::vector<uint8_t>& labels) {
  for (size_t i = 0; i < labels.size(); ++i) {
    if (labels[i] >= kClasses)
      throw Error(ExitCode::bad_data, Mistake{.where = fmt::format("{}: label {}", path.string(), i),
                                              .expected = fmt::format("expected 0 to {}", kClasses - 1),
                                              .got = fmt::format("{}", labels[i]),
                                              .advice = "the labels must be those of ten classes"});
  }
}

LabelledBytes read_split(const std::filesystem::path& folder, const SplitFiles& names, std::optional<int64_t> limit) {
  const std::filesystem::path images_path = require_plain_or_gzip(folder, names.images, kWhereToPut);
  const std::filesystem::path labels_path = require_plain_or_gzip(folder, names.labels, kWhereToPut);
  // Labels first: they are small, and most mistakes show without the images.
  const std::vector<uint8_t> labels = read_idx_labels(labels_path);
  check_labels(labels_path, labels);
  IdxImages images = read_idx_images(images_path);
  if (images.count != static_cast<int64_t>(labels.size()))
    throw Error(ExitCode::bad_data, Mistake{.where = fmt::format("{}: number of labels", labels_path.string()),
                                            .expected = fmt::format("expected {}, one for each image of {}",
                                                                    images.count, images_path.string()),
                                            .got = fmt::format("{}", labels.size()),
                                            .advice = "take both files from the same data set"});

  const int64_t samples = limited(images.count, limit);
  if (samples < images.count) {
    images.pixels.resize(static_cast<size_t>(samples * images.height * images.width));
    images.pixels.shrink_to_fit();
  }
  return {.image_shape = {1, images.height, images.width},
          .classes = kClasses,
          .pixels = std::move(images.pixels),
          .labels = {labels.begin(), labels.begin() + samples}};
}

}  // namespace

bool has_idx_files(const std::filesystem::path& folder) {
  for (const char* name : {kTrain.images, kTrain.labels, kTest.images, kTest.labels})
    if (find_plain_or_gzip(folder, name)) return true;
  return false;
}

ImageDatasets read_idx_dataset(const std::filesystem::path& folder, const DatasetOptions& options) {
  LabelledBytes train = read_split(folder, kTrain, options.limit);
  LabelledBytes test = read_split(folder, kTest, options.test_limit);
  if (test.image_shape != train.image_shape)
    throw Error(ExitCode::bad_data, Mistake{.where = fmt::format("{}: {}", folder.string(), kTest.images),
                                            .expected = fmt::format("expected images of {} as in {}",
                                                                    train.image_shape.text(), kTrain.images),
                                            .got = test.image_shape.text(),
                                            .advice = "take all four files from the same data set"});
  return {.train = std::make_shared<ByteImages>(std::move(train), options.normalization),
          .test = std::make_shared<ByteImages>(std::move(test), options.normalization)};
}

}  // namespace dptrain
