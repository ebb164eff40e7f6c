#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/exit_code.h"

namespace dptrain::train {

/// What a training that has failed leaves behind: why, what was lost and how it goes on. Processes are named by their
/// first rank.
struct FaultRecord {
  /// Where it began: the same in all processes of a job.
  struct Root {
    std::optional<int> rank;  ///< none of a process that doesn't train
    std::string host;
    int64_t pid = 0;
    std::optional<int64_t> step;  ///< that the process was in, as far as is known
    std::string operation;        ///< the last one between processes that it began; "": none is known
    std::string cause;            ///< one sentence
  };
  struct Saved {
    std::filesystem::path path;
    int64_t step = 0;
    std::string manifest_sha256 = {};  ///< "" where this host doesn't have it
  };
  struct Operation {
    std::string name;
    double ago_s = 0;  ///< that it was begun
  };

  std::string run;
  std::optional<int> rank = 0;  ///< of the process that writes the record; none of one that doesn't train
  ExitCode exit = ExitCode::bug;
  Root root;
  double detected_s = 0;  ///< after the last sign of life of the process that it began in
  std::optional<Saved> last_checkpoint;
  int64_t steps_lost = 0;  ///< that were begun after the last checkpoint
  std::string resume;      ///< the command that goes on
  /// Between processes, that this one began last, oldest first.
  std::vector<Operation> operations = {};
  std::string stacks = {};  ///< the file beside it that says where the process's threads were; "": none
};

/// The text of fault.json; docs/fault.schema.json describes it.
std::string fault_json(const FaultRecord& record);

/// "fault.json" of the process with rank 0, "fault-3.json" of that whose first rank is 3, "fault-process-5.json" of
/// process 5 of the job where it doesn't train.
std::string fault_name(std::optional<int> rank, int process);
/// The same of the stacks of its threads: "fault.stacks.txt".
std::string fault_stacks_name(std::optional<int> rank, int process);
/// Either of them.
bool is_fault_name(const std::string& name);

}  // namespace dptrain::train
