#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

namespace dptrain::train {

/// What a training that has failed leaves behind: why, what was lost and how it goes on.
struct FaultRecord {
  /// Where it began: the same in all processes of a job.
  struct Root {
    int process = 0;
    std::string host;
    int64_t pid = 0;
    std::optional<int64_t> step;  ///< that the process was in, as far as is known
    std::string cause;            ///< one sentence
  };
  struct Saved {
    std::filesystem::path path;
    int64_t step = 0;
  };

  std::string run;
  int process = 0;  ///< that writes the record
  int exit = 0;     ///< the program's exit code
  Root root;
  std::optional<Saved> last_checkpoint;
  int64_t steps_lost = 0;  ///< that were begun after the last checkpoint
  std::string resume;      ///< the command that goes on
};

/// The text of fault.json; docs/fault.schema.json describes it.
std::string fault_json(const FaultRecord& record);

/// fault.json of process 0, fault-N.json of others.
std::string fault_name(int process);
bool is_fault_name(const std::string& name);

}  // namespace dptrain::train
