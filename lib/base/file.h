#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace dptrain {

/// Reads the whole file. Throws an error with exit code 66 if it is missing or a folder, 74 if it can't be read, 65 if
/// it is larger than `limit_bytes`.
std::string read_file(const std::filesystem::path& path, size_t limit_bytes = size_t{1} << 30);

/// Writes `parts` one after the other to a file beside `path`, syncs it, and renames it. A reader sees the old file or
/// the whole new one. If the disk is full or the folder can't be written, throws an error with exit code 74 and leaves
/// nothing behind.
void write_file_atomically(const std::filesystem::path& path, std::span<const std::span<const std::byte>> parts);
void write_file_atomically(const std::filesystem::path& path, std::string_view text);

/// Does the same without waiting for the disk. The file survives the end of this process, but maybe not of the machine.
void write_file_unsynced(const std::filesystem::path& path, std::string_view text);

/// Names the thing at `path` that isn't a regular file: "a folder", "a pipe", "a device", "a socket"; else "something
/// else".
std::string kind_of_what_is_no_file(const std::filesystem::path& path);

/// Whether written bytes must be on the disk at once. With `later` they may be lost if the machine, and not only this
/// process, stops before the next sync of the file.
enum class Sync { now, later };

/// Appends `bytes` in one write (per 16 MiB), so that a killed process leaves all of them or none. Throws an error with
/// exit code 74. If only a part could be written, on a full disk, that part is removed.
void append_bytes(const std::filesystem::path& path, std::string_view bytes, Sync sync);

/// Appends `line` and a newline, as append_bytes does, and syncs.
void append_line(const std::filesystem::path& path, std::string_view line);

/// Creates the folder and its parents. Throws an error with exit code 74.
void make_folder(const std::filesystem::path& path);

/// The entries of the folder, in no order. Empty if there is no such folder. Throws an error with exit code 74 if the
/// folder can't be read completely: without permission, or if a link leads to a disk that is missing.
std::vector<std::filesystem::path> entries_of(const std::filesystem::path& folder);

/// Throws an error with exit code 74 if there is something at `path` that may be a folder but can't be read, for
/// instance without permission.
void require_readable_folder(const std::filesystem::path& path);

/// Distinguishes a file from another one of the same name.
struct FileNumber {
  uint64_t device = 0;
  uint64_t inode = 0;
  bool operator==(const FileNumber&) const = default;
};
/// The number of the file that the path leads to; nothing if there is none.
std::optional<FileNumber> file_number(const std::filesystem::path& path);

/// Makes a rename inside `folder` durable. Throws an error with exit code 74.
void sync_folder(const std::filesystem::path& folder);

}  // namespace dptrain
