#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/exit_code.h"

namespace dptrain::train {

/// The record that a failed training run leaves: why it failed, what was lost and how to resume it. Processes are named
/// by their first rank.
struct FaultRecord {
  /// Where the failure began. It is the same in all processes of a job.
  struct Root {
    std::optional<int> rank;  ///< none for a process that doesn't train
    std::string host;
    int64_t pid = 0;
    std::optional<int64_t> step;  ///< the step that the process was in, if it is known
    std::string operation;        ///< the last operation between processes that it began; "" if none is known
    std::string cause;            ///< one sentence
  };
  struct Saved {
    std::filesystem::path path;
    int64_t step = 0;
    std::string manifest_sha256 = {};  ///< "" if this host doesn't have it
  };
  struct Operation {
    std::string name;
    double ago_s = 0;  ///< the time since it began
  };

  std::string run;
  std::optional<int> rank = 0;  ///< of the process that writes the record; none for a process that doesn't train
  ExitCode exit = ExitCode::bug;
  Root root;
  double detected_s = 0;  ///< seconds after the last sign of life of the process in which the failure began
  std::optional<Saved> last_checkpoint;
  int64_t steps_lost = 0;  ///< steps begun after the last checkpoint
  std::string resume;      ///< the command that resumes the training
  /// The last operations between processes that this process began, oldest first.
  std::vector<Operation> operations = {};
  /// The file beside the record with the stacks of the process's threads; "" if there is none.
  std::string stacks = {};
};

/// The text of fault.json; docs/fault.schema.json describes it.
std::string fault_json(const FaultRecord& record);

/// The record's file name: "fault.json" for the process with rank 0, "fault-3.json" for one whose first rank is 3,
/// "fault-process-5.json" for process 5 of the job if it doesn't train.
std::string fault_name(std::optional<int> rank, int process);
/// The file name for the stacks of the process's threads: "fault.stacks.txt" for rank 0.
std::string fault_stacks_name(std::optional<int> rank, int process);
/// Whether a file has a name of either kind.
bool is_fault_name(const std::string& name);

}  // namespace dptrain::train
