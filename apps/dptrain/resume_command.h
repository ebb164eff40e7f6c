#pragma once

#include <string>
#include <vector>

namespace dptrain::app {

/// The words that started this process's job, a program for each kind of its processes: those of scripts/launch.sh, of
/// mpirun, or where neither can be seen those of an srun or nothing, and this process's own.
std::vector<std::string> start_words(int processes);

/// The same as a shell takes them.
std::string start_command(const std::vector<std::string>& words);

/// The command that goes on with a training that was started so, as a shell takes it: each program's arguments with
/// `--resume`. Where the run has a checkpoint of its own, that takes the place of another run's that was named; else
/// the run begins there once more, with `--overwrite`. For a run that has begun, and has thereby removed an earlier
/// one. Without `--fault`, which has been rehearsed.
std::string resume_command(const std::vector<std::string>& words, bool has_own_checkpoint);

}  // namespace dptrain::app
