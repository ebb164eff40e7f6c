#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace dptrain {

/// The whole file. Throws 66 where it is missing or a folder, 74 where it can't be read, 65 where it is over
/// `limit_bytes`.
std::string read_file(const std::filesystem::path& path, size_t limit_bytes = size_t{1} << 30);

/// Writes `parts` one after the other beside `path`, syncs, then renames: a reader sees the old file or the whole new
/// one. Throws 74 and leaves nothing behind where the disk is full or the folder can't be written.
void write_file_atomically(const std::filesystem::path& path, std::span<const std::span<const std::byte>> parts);
void write_file_atomically(const std::filesystem::path& path, std::string_view text);

/// The same without waiting for the disk: what is there outlives this process, and not the end of its machine.
void write_file_unsynced(const std::filesystem::path& path, std::string_view text);

/// What lies there in place of a file: "a folder", "a pipe", "a device", "a socket"; "something else" where it is none
/// of these.
std::string kind_of_what_is_no_file(const std::filesystem::path& path);

/// Whether what is written is to be on the disk at once, or may be lost where the machine, and not only this process,
/// comes to its end before the next sync of the file.
enum class Sync { now, later };

/// Appends `bytes` in one write: a killed process leaves all of them or none. Throws 74; of those that could only be
/// written in part, on a full disk, nothing is left.
void append_bytes(const std::filesystem::path& path, std::string_view bytes, Sync sync);

/// Appends `line` and a newline so, synced.
void append_line(const std::filesystem::path& path, std::string_view line);

/// Creates the folder and its parents. Throws 74.
void make_folder(const std::filesystem::path& path);

/// What lies in the folder, in no order; nothing where there is no such folder. Throws 74 where it can't be read to its
/// end: without the right to, or where a link leads to a disk that isn't there.
std::vector<std::filesystem::path> entries_of(const std::filesystem::path& folder);

/// Throws 74 where something is there, and can't be read as a folder though it may be one: without the right to, say.
void require_readable_folder(const std::filesystem::path& path);

/// What tells a file from another of the same name.
struct FileNumber {
  uint64_t device = 0;
  uint64_t inode = 0;
  bool operator==(const FileNumber&) const = default;
};
/// That of what the path leads to; nothing where that isn't there.
std::optional<FileNumber> file_number(const std::filesystem::path& path);

/// Makes a rename inside `folder` durable. Throws 74.
void sync_folder(const std::filesystem::path& folder);

}  // namespace dptrain
