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

/// What to do with the results of an earlier run in the directory.
enum class EarlierRun { refuse, overwrite, resume };

struct FinishedTraining {
  int64_t steps = 0;
  bool stopped_early = false;
};

/// The directory that a run writes to. One process at a time holds it. Existing results are never touched unless the
/// user asks for it.
class RunDirectory {
 public:
  /// Creates and locks the directory. Throws 74 if another process uses it, if it can't be written, or if something
  /// else has the name of a file that a run writes. If an earlier run left metrics, a summary or checkpoints, `refuse`
  /// throws 74 and names --resume and --overwrite. Nothing is removed yet. `resumable`: whether the message may name
  /// --resume. If no configuration is written afterwards, the directory is left as it was found.
  RunDirectory(const std::filesystem::path& path, EarlierRun earlier, bool resumable = true);
  const std::filesystem::path& path() const { return path_; }

  /// Removes what an earlier run wrote, and nothing else. Throws 74. Call it once nothing can be refused any more, so
  /// that a mistake costs no weights, and a run may begin from the weights that it overwrites.
  void remove_earlier_run();
  /// Removes the fault records and stacks of an earlier start.
  void remove_records_of_failures();

  /// Removes what an earlier run wrote, and also the directory unless it has files that no run wrote. Removes nothing
  /// if no run has kept the directory.
  void remove();

  // The functions that write throw 74 if writing fails, or if the path no longer leads to the locked directory. Files
  // appear as a whole, and lines are appended as a whole.

  void write_config(const std::string& yaml);
  void append_metrics(const std::string& line);
  void append_step(const std::string& line);
  /// Appends TensorBoard records (event_record.h) to a file in the folder `tb`, which begins with the first record.
  void append_events(std::string_view records, Sync sync);
  void write_summary(const std::string& json);
  /// Writes trace.json; see training_trace.h.
  void write_trace(const std::string& json);
  /// Writes fault.json; see fault_record.h.
  void write_fault(const std::string& json);
  /// The folder of checkpoints; see checkpoint.h.
  std::filesystem::path checkpoints() const;
  /// The text of config.yaml; "" if there is none.
  std::string config() const;
  /// The lines of the metrics up to this epoch.
  std::vector<std::string> metrics(int64_t epochs) const;
  /// The last line of the metrics; "" if there is none.
  std::string last_metrics() const;
  /// The result in the summary, if the training has finished.
  std::optional<FinishedTraining> finished() const;
  /// Removes what the earlier run wrote after this point: lines of later epochs and steps, half a line, the summary,
  /// and the record of its failure. TensorBoard events stay, because TensorBoard may be reading them; a newer file
  /// tells it to skip the events after this point. If metrics or steps had a line that no run writes, the old file is
  /// kept beside the new one as `.damaged`, unless such a file exists. Returns a sentence about that, and one about
  /// missing epochs.
  std::vector<std::string> go_back_to(int64_t epochs, int64_t step);

 private:
  /// Makes TensorBoard skip events after this step, to which metrics and steps have gone back.
  void go_back_in_events(int64_t step);

  std::filesystem::path path_;
  DirectoryLock lock_;
  std::optional<EventFile> events_;  ///< begun by this process
};

/// Whether `path` names a checkpoint of the run in this directory. The directory itself names its newest checkpoint.
/// Compares names and links only, so the path need not exist.
bool lies_in_run(const std::filesystem::path& path, const std::filesystem::path& run);

/// The file of weights that `path` names: a file itself, the model.safetensors of a checkpoint's folder, or the one of
/// a run directory's newest checkpoint. Throws 66, saying what was looked for. Throws 65, naming the file, if it or the
/// average beside it doesn't match its manifest. A damaged checkpoint of a run directory is passed to `report`, and the
/// one before it is used; without `report` it is refused, too.
std::filesystem::path find_weights(const std::filesystem::path& path, const DamageReport& report = {});

}  // namespace dptrain::train
