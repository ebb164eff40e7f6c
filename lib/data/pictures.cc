#include "data/pictures.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <string>
#include <thread>

#include "base/check.h"
#include "base/error.h"
#include "base/file.h"
#include "data/picture_scaling.h"
#include "device/host_machine.h"

namespace dptrain {
namespace {

namespace fs = std::filesystem;

std::string advice_for(const Shape& found, const Shape& wanted) {
  if (found[1] != wanted[1] || found[2] != wanted[2])
    return fmt::format("scale it to {} x {} pixels, or use an image_folder data set with size, which scales its images",
                       wanted[2], wanted[1]);
  if (wanted[0] == 1) return "convert it to gray";
  return fmt::format("image files can't hold the {} channels of the data set", wanted[0]);
}

/// Decodes files with several threads; each thread takes the next file.
class DecodedFiles {
 public:
  DecodedFiles(std::span<const fs::path> files, const PictureForm& form)
      : files_(files), form_(form), pixels_(files.size() * static_cast<size_t>(form.shape.elements())) {}

  std::vector<uint8_t> take() {
    const size_t threads = std::min(static_cast<size_t>(usable_cores()), files_.size());
    std::vector<std::jthread> others;
    for (size_t i = 1; i < threads; ++i) others.emplace_back([this] { decode(); });
    decode();
    others.clear();
    if (failure_) std::rethrow_exception(failure_);
    return std::move(pixels_);
  }

 private:
  void decode() {
    const auto bytes = static_cast<size_t>(form_.shape.elements());
    for (size_t i; (i = next_++) < files_.size();) {
      try {
        copy_as(form_, read_picture(files_[i]), files_[i], std::span(pixels_).subspan(i * bytes, bytes));
      } catch (...) {
        note_failure(i, std::current_exception());
      }
    }
  }

  /// All files before the failed one have been taken by some thread, so an earlier failure can still arrive; the
  /// earliest one is kept.
  void note_failure(size_t file, std::exception_ptr failure) {
    next_ = files_.size();
    const std::lock_guard lock(mutex_);
    if (failure_ && failed_ < file) return;
    failed_ = file;
    failure_ = std::move(failure);
  }

  std::span<const fs::path> files_;
  PictureForm form_;
  std::vector<uint8_t> pixels_;
  std::atomic<size_t> next_ = 0;
  std::mutex mutex_;
  size_t failed_ = 0;
  std::exception_ptr failure_;
};

}  // namespace

void copy_as(const PictureForm& form, const Picture& picture, const fs::path& file, std::span<uint8_t> out) {
  const Shape& shape = form.shape;
  DPTRAIN_CHECK(static_cast<int64_t>(out.size()) == shape.elements(), "{} bytes for an image of {}", out.size(),
                shape.text());
  if (form.scales && (picture.shape[1] != shape[1] || picture.shape[2] != shape[2]))
    return copy_as({.shape = shape}, scaled_to_square(picture, shape[1]), file, out);
  const bool repeated = picture.shape == shape.with_first(1) && shape[0] == 3;
  if (picture.shape != shape && !repeated)
    throw Error(ExitCode::bad_data, Mistake{.where = file.string(),
                                            .expected = fmt::format("expected an image of {}", shape.text()),
                                            .got = picture.shape.text(),
                                            .advice = advice_for(picture.shape, shape)});
  for (auto to = out.begin(); to != out.end();) to = std::ranges::copy(picture.pixels, to).out;
}

std::vector<uint8_t> read_pictures(std::span<const fs::path> files, const PictureForm& form) {
  return DecodedFiles(files, form).take();
}

}  // namespace dptrain
