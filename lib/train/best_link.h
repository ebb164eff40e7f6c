#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

namespace dptrain::train {

// `best` beside the checkpoints of a run with a validation: a link to that of the best epoch, which stays as long as it
// is linked, however many newer ones there are.

/// The link's place in the folder of checkpoints.
std::filesystem::path best_link(const std::filesystem::path& checkpoints);

/// The name of the checkpoint that is linked; nothing where none is.
std::optional<std::string> linked_best(const std::filesystem::path& checkpoints);

/// Throws 74 where something that isn't a link has its name, or that under which it is made.
void require_place_of_best(const std::filesystem::path& checkpoints);

/// Makes the folder of checkpoints where there is none, and throws 74 where no link can be made in it, which not all
/// file systems have: before anything is trained. After require_place_of_best.
void require_links(const std::filesystem::path& checkpoints);

/// Links the checkpoint of step `step` in place of another, whole or not at all; where that checkpoint isn't there any
/// more none is. Throws 74, also where something else has the name.
void link_best(const std::filesystem::path& checkpoints, int64_t step);

/// Removes the link, and nothing else of its name.
void unlink_best(const std::filesystem::path& checkpoints);

}  // namespace dptrain::train
