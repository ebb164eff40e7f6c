#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

namespace dptrain::train {

// `best` is a link beside the checkpoints of a run with a validation. It leads to the best epoch's checkpoint, which is
// kept while it is linked, however many newer ones there are.

/// The link's path in the folder of checkpoints.
std::filesystem::path best_link(const std::filesystem::path& checkpoints);

/// The name of the linked checkpoint; nothing if there is no link.
std::optional<std::string> linked_best(const std::filesystem::path& checkpoints);

/// Throws 74 if something other than a link has the link's name, or the name that the link has while it is made.
void require_place_of_best(const std::filesystem::path& checkpoints);

/// Makes the folder of checkpoints if it is missing, and throws 74 if no link can be made in it: some file systems have
/// none. Called before anything is trained and after require_place_of_best.
void require_links(const std::filesystem::path& checkpoints);

/// Links the checkpoint of step `step` in place of another one, whole or not at all. If that checkpoint no longer
/// exists, the link is removed. Throws 74, also if something other than a link has the name.
void link_best(const std::filesystem::path& checkpoints, int64_t step);

/// Removes the link, but nothing else that has its name.
void unlink_best(const std::filesystem::path& checkpoints);

}  // namespace dptrain::train
