#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "train/checkpoint.h"
#include "train/directory_lock.h"
#include "train/event_file.h"

namespace dptrain::train {

/// What to do with what an earlier run left in its directory.
enum class EarlierRun { refuse, overwrite, resume };

struct FinishedTraining {
  int64_t steps = 0;
  bool stopped_early = false;
};

/// Where a run writes. Held by one process at a time; a directory that has metrics is never touched unless asked to.
class RunDirectory {
 public:
  /// Creates and locks the directory. Throws 74 where another process uses it, it can't be written, or something else
  /// lies in the place of a file that a run writes. Of an earlier run that left metrics, a summary or checkpoints:
  /// `refuse` throws 74, naming --resume and --overwrite. Nothing of it is removed yet. `resumable`: whether --resume
  /// is there to be named. A directory for which no configuration is written after that is left as it was found.
  RunDirectory(const std::filesystem::path& path, EarlierRun earlier, bool resumable = true);
  const std::filesystem::path& path() const { return path_; }

  /// Removes what an earlier run wrote, and only that. Throws 74. For when nothing is left that could be refused: a
  /// mistake costs no weights, and a run may begin from those that it overwrites.
  void remove_earlier_run();
  /// fault.json and its like, which tell of an earlier start.
  void remove_records_of_failures();

  /// Does that and removes the directory, too, unless something lies in it that no run wrote. Nothing of a directory
  /// that no run has kept.
  void remove();

  // Each throws 74 where it can't be written, or isn't the directory any more that was locked. Files appear whole,
  // lines are appended whole.

  void write_config(const std::string& yaml);
  void append_metrics(const std::string& line);
  void append_step(const std::string& line);
  /// Records of events for TensorBoard (event_record.h), in a file of the folder `tb` that begins with the first.
  void append_events(std::string_view records, Sync sync);
  void write_summary(const std::string& json);
  /// trace.json; see training_trace.h.
  void write_trace(const std::string& json);
  /// fault.json; see fault_record.h.
  void write_fault(const std::string& json);
  /// Where checkpoints are kept; see checkpoint.h.
  std::filesystem::path checkpoints() const;
  /// What config.yaml says; "" where there is none.
  std::string config() const;
  /// The lines of the metrics up to this epoch.
  std::vector<std::string> metrics(int64_t epochs) const;
  /// The last line of the metrics, "" where there is none.
  std::string last_metrics() const;
  /// What the summary says of a training that came to its end.
  std::optional<FinishedTraining> finished() const;
  /// Removes what the earlier run wrote after this point: lines of later epochs and steps, half a line, the summary,
  /// what it said of its failure. Events stay, as TensorBoard may be reading them; a file that comes after theirs tells
  /// it to pass over such. Where metrics or steps had a line that no run wrote, the file as it was is kept beside it,
  /// as `.damaged`, unless there is such a one. Returns a sentence about that, and about epochs that are missing.
  std::vector<std::string> go_back_to(int64_t epochs, int64_t step);

 private:
  /// Has TensorBoard pass over events that metrics and steps, which have gone back to this step, don't tell of.
  void go_back_in_events(int64_t step);

  std::filesystem::path path_;
  DirectoryLock lock_;
  std::optional<EventFile> events_;  ///< that this process has begun
};

/// Whether a checkpoint, which `path` names, is one of the run in this directory; the directory itself names its newest
/// one. By their names and links, so also of what isn't there.
bool lies_in_run(const std::filesystem::path& path, const std::filesystem::path& run);

/// The file of weights that `path` names: itself, the model.safetensors of a checkpoint's folder, or that of a run
/// directory's newest checkpoint. Throws 66, saying what was looked for; 65, naming the file, where it or the average
/// beside it isn't the one that its manifest speaks of. In a run directory such a checkpoint is told to `report` and
/// the one before taken; without `report` it is refused, too.
std::filesystem::path find_weights(const std::filesystem::path& path, const DamageReport& report = {});

}  // namespace dptrain::train
