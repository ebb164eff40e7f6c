#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <vector>

#include "tensor/shape.h"

namespace dptrain {

/// The PNG files in a folder, told by their names, sorted by them; hidden ones and what isn't an image are
/// passed over. Throws 66 for a
/// folder without any, 74 for one that can't be read, and 65 for one that has an image of another format too, or a link
/// to an image that isn't there: nobody would see it missing.
std::vector<std::filesystem::path> png_files_of(const std::filesystem::path& folder);

bool has_png_name(const std::filesystem::path& path);

/// Writes the image `found`, bytes [1 or 3, H, W], to `out` as one of `shape`, [C, H, W]: a gray one becomes one of
/// three channels by repeating. Throws 65, naming the file, both shapes and what to do, for one of another shape.
void copy_as(const Shape& shape, const Shape& found, std::span<const uint8_t> pixels, const std::filesystem::path& file,
             std::span<uint8_t> out);

/// The images in PNG files as bytes [files, C, H, W] for `shape`, [C, H, W]; several are decoded at once, by as many
/// threads as there are cores. Throws as `read_png` and `copy_as` do, for the first of the files that is refused.
std::vector<uint8_t> read_png_files(std::span<const std::filesystem::path> files, const Shape& shape);

}  // namespace dptrain
