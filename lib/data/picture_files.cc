#include "data/picture_files.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <set>
#include <string>
#include <string_view>
#include <system_error>

#include "base/error.h"
#include "base/file.h"
#include "base/lower_case.h"

namespace dptrain {
namespace {

namespace fs = std::filesystem;

constexpr std::array<std::string_view, 5> kPictures = {".png", ".jpg", ".jpeg", ".jpe", ".jfif"};
constexpr std::array<std::string_view, 15> kOtherImages = {".gif",  ".bmp",  ".tif", ".tiff", ".webp",
                                                           ".ppm",  ".pgm",  ".pbm", ".pnm",  ".heic",
                                                           ".heif", ".avif", ".jp2", ".jxl",  ".tga"};

bool is_other_image(const fs::path& path) {
  return std::ranges::find(kOtherImages, lower_case(path.extension().string())) != kOtherImages.end();
}

bool is_hidden(const fs::path& path) { return path.filename().string().starts_with('.'); }

std::vector<fs::path> pictures_in(const fs::path& folder) {
  require_readable_folder(folder);
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(folder)) {
    std::error_code unreadable;
    if (entry.is_directory(unreadable) || is_hidden(entry.path())) continue;
    if (has_picture_name(entry.path()) && !entry.is_regular_file(unreadable))
      throw Error(ExitCode::bad_data, Mistake{.where = entry.path().string(),
                                              .expected = "expected a readable file",
                                              .got = entry.is_symlink(unreadable) ? "a link to a missing file" : "none",
                                              .advice = "restore the file, or remove it from the folder"});
    if (is_other_image(entry.path()))
      throw Error(ExitCode::bad_data, Mistake{.where = entry.path().string(),
                                              .expected = "expected images to be PNG or JPEG files",
                                              .got = entry.path().extension().string(),
                                              .advice = "convert it to PNG, or remove it from the folder"});
    if (has_picture_name(entry.path())) files.push_back(entry.path());
  }
  return files;
}

/// `seen`: folders already visited, with links resolved, because a link may lead back.
void add_pictures_below(const fs::path& folder, std::set<fs::path>& seen, std::vector<fs::path>& files) {
  if (!seen.insert(fs::canonical(folder)).second) return;
  std::ranges::move(pictures_in(folder), std::back_inserter(files));
  std::set<fs::path> within;
  for (const auto& entry : fs::directory_iterator(folder)) {
    std::error_code unreadable;
    if (entry.is_directory(unreadable) && !is_hidden(entry.path())) within.insert(entry.path());
  }
  for (const fs::path& next : within) add_pictures_below(next, seen, files);
}

std::vector<fs::path> sorted_files(std::vector<fs::path> files, const fs::path& folder) {
  if (files.empty())
    throw Error(ExitCode::missing_file, Mistake{.where = folder.string(),
                                                .expected = "expected PNG or JPEG files in this folder",
                                                .got = "none",
                                                .advice = "name a folder of .png or .jpg files"});
  std::ranges::sort(files);
  return files;
}

}  // namespace

bool has_picture_name(const fs::path& path) {
  return std::ranges::find(kPictures, lower_case(path.extension().string())) != kPictures.end();
}

std::vector<fs::path> picture_files_of(const fs::path& folder) { return sorted_files(pictures_in(folder), folder); }

std::vector<fs::path> picture_files_below(const fs::path& folder) {
  std::vector<fs::path> files;
  std::set<fs::path> seen;
  add_pictures_below(folder, seen, files);
  return sorted_files(std::move(files), folder);
}

}  // namespace dptrain
