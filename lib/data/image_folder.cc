#include "data/image_folder.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <system_error>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "config/yaml_bytes.h"
#include "data/byte_images.h"
#include "data/picture_files.h"
#include "data/pictures.h"
#include "device/host_machine.h"

namespace dptrain {
namespace {

namespace fs = std::filesystem;

constexpr const char* kLayout =
    "put each class's images into a folder of its own, like train/cat/1.png, test/cat/2.png";

[[noreturn]] void refuse(const fs::path& where, std::string expected, std::string got, std::string advice) {
  throw Error(ExitCode::bad_data, Mistake{.where = where.string(),
                                          .expected = std::move(expected),
                                          .got = std::move(got),
                                          .advice = std::move(advice)});
}

/// The images of a class. Its folder may have no subfolders.
std::vector<fs::path> files_of_class(const fs::path& folder) {
  std::vector<fs::path> files = picture_files_of(folder);
  for (const fs::path& entry : entries_of(folder)) {
    std::error_code unreadable;
    if (fs::is_directory(entry, unreadable) && !entry.filename().string().starts_with('.'))
      refuse(entry, "expected all images of a class directly in its folder", "a subfolder",
             "move its images into the folder of the class");
  }
  return files;
}

/// Whether the name has an ASCII control character or one of ISO 6429 (C1), which a terminal would obey.
bool has_control_character(std::string_view name) {
  for (size_t i = 0; i < name.size(); ++i) {
    const auto byte = static_cast<unsigned char>(name[i]);
    if (byte < 0x20 || byte == 0x7f) return true;
    if (byte == 0xc2 && i + 1 < name.size() && static_cast<unsigned char>(name[i + 1]) < 0xa0) return true;
  }
  return false;
}

/// The names of the folders in a part's folder, sorted; hidden folders are skipped.
std::vector<std::string> class_names_of(const fs::path& folder, const std::string& advice) {
  require_readable_folder(folder);
  std::vector<std::string> names;
  for (const fs::path& entry : entries_of(folder)) {
    std::error_code unreadable;
    std::string name = entry.filename().string();
    if (name.starts_with('.')) continue;
    if (!fs::is_directory(entry, unreadable)) {
      if (has_picture_name(entry))
        refuse(entry, "expected each image in the folder of its class", "one outside the folders of the classes",
               kLayout);
      continue;
    }
    if (has_control_character(name))
      refuse(entry, "expected a class name that can be printed", "a name with a control character",
             "rename the folder");
    if (first_bad_byte(name)) refuse(entry, "expected a class name in UTF-8", "another encoding", "rename the folder");
    names.push_back(std::move(name));
  }
  if (names.empty())
    throw Error(ExitCode::missing_file, Mistake{.where = folder.string(),
                                                .expected = "expected a folder for each class of images",
                                                .got = fs::exists(folder) ? "none" : "no such folder",
                                                .advice = advice});
  std::ranges::sort(names);
  return names;
}

/// The files of one part with the numbers of their classes, in the order of samples.
struct LabelledFiles {
  std::vector<fs::path> files;
  std::vector<int32_t> labels;
};

/// Orders the files of a part by turns. `classes` are all classes, `present` those that `folder` has; both are sorted.
LabelledFiles files_in_turn(const fs::path& folder, const std::vector<std::string>& classes,
                            const std::vector<std::string>& present) {
  std::vector<std::vector<fs::path>> of_classes;
  std::vector<int32_t> numbers;
  size_t most = 0;
  for (const std::string& name : present) {
    const auto found = std::ranges::lower_bound(classes, name);
    if (found == classes.end() || *found != name)
      refuse(folder / name, "expected a class that also has training images", name,
             "add training images of this class, or remove the folder");
    numbers.push_back(static_cast<int32_t>(found - classes.begin()));
    of_classes.push_back(files_of_class(folder / name));
    most = std::max(most, of_classes.back().size());
  }
  LabelledFiles all;
  for (size_t turn = 0; turn < most; ++turn)
    for (size_t i = 0; i < of_classes.size(); ++i) {
      if (turn >= of_classes[i].size()) continue;
      all.files.push_back(std::move(of_classes[i][turn]));
      all.labels.push_back(numbers[i]);
    }
  return all;
}

void limit_to(std::optional<int64_t> limit, LabelledFiles& part) {
  const int64_t samples = limited(static_cast<int64_t>(part.files.size()), limit);
  part.files.resize(static_cast<size_t>(samples));
  part.labels.resize(static_cast<size_t>(samples));
}

void check_fits_memory(const fs::path& dir, int64_t samples, const Shape& shape) {
  const int64_t bytes = samples * shape.elements();
  const int64_t free = available_memory_bytes();
  if (bytes <= free) return;
  throw Error(ExitCode::device,
              Mistake{.where = dir.string(),
                      .expected = fmt::format("expected images that fit into the {} bytes of free memory", free),
                      .got = fmt::format("{} images of {}, {} bytes", samples, shape.text(), bytes),
                      .advice = "scale the images down with size, or use fewer of them with limit"});
}

PictureForm form_of(const ImageFolder& folder, const fs::path& first) {
  if (folder.size) return {.shape = {folder.channels, *folder.size, *folder.size}, .scales = true};
  return {.shape = read_picture(first).shape.with_first(folder.channels)};
}

}  // namespace

ImageDatasets read_image_folder(const ImageFolder& folder, const DatasetOptions& options) {
  const fs::path train_path = folder.dir / "train", test_path = folder.dir / folder.test_folder;
  const std::vector<std::string> classes = class_names_of(train_path, kLayout);
  LabelledFiles train = files_in_turn(train_path, classes, classes);
  LabelledFiles test = files_in_turn(
      test_path, classes, class_names_of(test_path, std::string(kLayout) + ", or name the folder with test_folder"));
  limit_to(options.limit, train);
  limit_to(options.test_limit, test);
  const PictureForm form = form_of(folder, train.files.front());
  check_fits_memory(folder.dir, static_cast<int64_t>(train.files.size() + test.files.size()), form.shape);

  const auto decoded = [&](LabelledFiles& part) {
    return std::make_shared<ByteImages>(LabelledBytes{.image_shape = form.shape,
                                                      .classes = static_cast<int64_t>(classes.size()),
                                                      .class_names = classes,
                                                      .pixels = read_pictures(part.files, form),
                                                      .labels = std::move(part.labels)},
                                        options.normalization);
  };
  return {.train = decoded(train), .test = decoded(test)};
}

DatasetSpec read_image_folder_options(ConfigReader& config, const DatasetRequest&) {
  ImageFolder folder;
  folder.dir = config.path("dir", "the folder that has train/CLASS/*.jpg and test/CLASS/*.jpg, or .png");
  folder.test_folder = config.text("test_folder", "test", "the folder in dir with the images to test on");
  folder.size = config.optional_integer(
      "size", {.min = 1,
               .max = kMostPicturePixels,
               .help = "side of the square images: their shorter side is scaled to it, then the middle is taken",
               .example = 64});
  folder.channels = config.integer(
      "channels", 3, {.min = 1, .max = 3, .help = "3, or 1 where all images are gray; gray ones are repeated to 3"});
  if (folder.channels == 2) config.mistake("channels", "expected 1 or 3", "2", "write channels: 3");
  const DatasetOptions options = read_dataset_options(config, folder.channels);
  DatasetSpec spec;
  spec.order = options.order;
  spec.scales_pictures = folder.size.has_value();
  spec.open = [folder, options] { return read_image_folder(folder, options); };
  return spec;
}

}  // namespace dptrain
