#include "data/idx_dataset.h"

#include <fmt/format.h>

#include <array>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/sha256.h"
#include "data/byte_images.h"
#include "data/idx_file.h"
#include "data/kept_digest.h"
#include "data/plain_or_gzip_file.h"
#include "data/stored_images.h"

namespace dptrain {
namespace {

/// The two files of one part.
struct SplitFiles {
  const char* images;
  const char* labels;
};
constexpr SplitFiles kTrain = {"train-images-idx3-ubyte", "train-labels-idx1-ubyte"};
constexpr SplitFiles kTest = {"t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"};

constexpr const char* kWhereToPut =
    "put the four IDX files there, or point the data set's dir: at the folder that has them";

void check_labels(const std::filesystem::path& path, const std::vector<uint8_t>& labels, int64_t classes) {
  for (size_t i = 0; i < labels.size(); ++i) {
    if (labels[i] >= classes)
      throw Error(ExitCode::bad_data, Mistake{.where = fmt::format("{}: label {}", path.string(), i),
                                              .expected = fmt::format("expected 0 to {}", classes - 1),
                                              .got = fmt::format("{}", labels[i]),
                                              .advice = "set the data set's classes to more than its largest label"});
  }
}

/// The two files of a part, with the labels read and checked.
struct SplitPaths {
  std::filesystem::path images;
  std::filesystem::path labels;
  int64_t classes = 0;
  std::vector<uint8_t> label_bytes = {};

  /// The labels of the first `limit` of `count` images.
  std::vector<int32_t> labels_of(int64_t count, std::optional<int64_t> limit) const {
    if (count != static_cast<int64_t>(label_bytes.size()))
      throw Error(ExitCode::bad_data,
                  Mistake{.where = fmt::format("{}: number of labels", labels.string()),
                          .expected = fmt::format("expected {}, one for each image of {}", count, images.string()),
                          .got = fmt::format("{}", label_bytes.size()),
                          .advice = "take both files from the same data set"});
    return {label_bytes.begin(), label_bytes.begin() + limited(count, limit)};
  }
};

/// The digest of the pixels of the first `samples` images.
KeptDigest pixels_digest(const FileIdentity& file, const IdxSizes& sizes, size_t samples) {
  return {.file = file,
          .what = fmt::format("the first {} of {} images of {} x {}", samples, sizes.count, sizes.height, sizes.width)};
}

std::shared_ptr<const ImageDataset> stored_split(const SplitPaths& paths, const IdxSizes& sizes,
                                                 std::optional<int64_t> limit, const Normalization& normalization) {
  const auto file = std::make_shared<const StoredFile>(paths.images);
  const int64_t image_bytes = sizes.height * sizes.width;
  StoredContent content{.image_shape = {1, sizes.height, sizes.width},
                        .classes = paths.classes,
                        .labels = paths.labels_of(sizes.count, limit)};
  const auto samples = static_cast<int64_t>(content.labels.size());
  content.runs = {{.file = file, .images = samples, .begin = kIdxPixelsBegin, .stride = image_bytes}};
  content.digest = [file, sizes, samples, image_bytes, labels = content.labels] {
    const auto read = [&] {
      Sha256 digest;
      file->read_through(kIdxPixelsBegin, kIdxPixelsBegin + samples * image_bytes, image_bytes,
                         [&](std::span<const uint8_t> pixels) { digest.update(std::as_bytes(pixels)); });
      return digest.hex_digest();
    };
    return content_digest_of(pixels_digest(file->identity(), sizes, labels.size()).get(read), labels);
  };
  return std::make_shared<StoredImages>(std::move(content), normalization);
}

std::shared_ptr<const ImageDataset> unpacked_split(const SplitPaths& paths, std::optional<int64_t> limit,
                                                   const Normalization& normalization) {
  IdxImages images = read_idx_images(paths.images);
  LabelledBytes data{.image_shape = {1, images.height, images.width},
                     .classes = paths.classes,
                     .labels = paths.labels_of(images.count, limit)};
  if (data.labels.size() < static_cast<size_t>(images.count)) {
    images.pixels.resize(data.labels.size() * static_cast<size_t>(images.height * images.width));
    images.pixels.shrink_to_fit();
  }
  data.pixels = std::move(images.pixels);
  const auto digest = [file = images.file, sizes = IdxSizes(images)](const LabelledBytes& bytes) {
    const KeptDigest pixels = pixels_digest(file, sizes, bytes.labels.size());
    return content_digest_of(pixels.get([&] { return digest_of_pixels(bytes); }), bytes.labels);
  };
  return std::make_shared<ByteImages>(std::move(data), normalization, digest);
}

std::shared_ptr<const ImageDataset> read_split(const std::filesystem::path& folder, const SplitFiles& names,
                                               int64_t classes, std::optional<int64_t> limit,
                                               const Normalization& normalization) {
  SplitPaths paths{.images = require_plain_or_gzip(folder, names.images, kWhereToPut),
                   .labels = require_plain_or_gzip(folder, names.labels, kWhereToPut),
                   .classes = classes};
  // Labels come first: they are small, and most mistakes show without reading the images.
  paths.label_bytes = read_idx_labels(paths.labels);
  check_labels(paths.labels, paths.label_bytes, classes);
  const std::optional<IdxSizes> sizes = read_plain_idx_sizes(paths.images);
  return sizes ? stored_split(paths, *sizes, limit, normalization) : unpacked_split(paths, limit, normalization);
}

}  // namespace

bool has_idx_files(const std::filesystem::path& folder) {
  for (const char* name : {kTrain.images, kTrain.labels, kTest.images, kTest.labels})
    if (find_plain_or_gzip(folder, name)) return true;
  return false;
}

ImageDatasets read_idx_dataset(const std::filesystem::path& folder, const DatasetOptions& options, int64_t classes) {
  ImageDatasets datasets{.train = read_split(folder, kTrain, classes, options.limit, options.normalization),
                         .test = read_split(folder, kTest, classes, options.test_limit, options.normalization)};
  const Shape train = datasets.train->image_shape(), test = datasets.test->image_shape();
  if (test != train)
    throw Error(ExitCode::bad_data,
                Mistake{.where = fmt::format("{}: {}", folder.string(), kTest.images),
                        .expected = fmt::format("expected images of {} as in {}", train.text(), kTrain.images),
                        .got = test.text(),
                        .advice = "take all four files from the same data set"});
  return datasets;
}

}  // namespace dptrain
