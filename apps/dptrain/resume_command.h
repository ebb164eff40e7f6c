#pragma once

#include <string>
#include <vector>

namespace dptrain::app {

/// The words that started this process's job, with a program for each kind of its processes. They come from
/// scripts/launch.sh or mpirun; if neither can be seen, they are those of srun, if any, and this process's own.
std::vector<std::string> start_words(int processes);

/// The same words as one shell command.
std::string start_command(const std::vector<std::string>& words);

/// The shell command that resumes a training run that was started with these words: each program's arguments with
/// `--resume`. With `has_own_checkpoint`, the run's own checkpoint takes the place of another run's that the words
/// named; otherwise the run starts again from the named one, with `--overwrite`. The command is for a run that has
/// begun, and so has removed an earlier run. It has no `--fault`, because that fault has been rehearsed.
std::string resume_command(const std::vector<std::string>& words, bool has_own_checkpoint);

}  // namespace dptrain::app
