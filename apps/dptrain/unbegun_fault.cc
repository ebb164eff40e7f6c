#include "unbegun_fault.h"

#include <exception>

#include "base/error.h"
#include "base/file.h"
#include "comm/job.h"
#include "resume_command.h"

namespace dptrain::app {

ExpectedRun expected_run(const ConfigFlags& flags) {
  const ConfigNode config = flags.load();
  const ConfigNode* name = config.find("name");
  ExpectedRun run{.name = name != nullptr ? name->scalar : flags.default_name(),
                  .directory = {},
                  .start = start_words(launched_processes())};
  const std::string out = flags.out.value_or("runs/" + run.name);
  if (run.name.empty() || run.name.find('/') != std::string::npos || out.find('{') != std::string::npos)
    throw Error(ExitCode::job_not_formed, "the directory isn't known before the job is joined");
  run.directory = out;
  return run;
}

void write_unbegun_fault(const ExpectedRun& run, const JobFailure& failure, const JobProcess& root,
                         const std::vector<train::FaultRecord::Operation>& operations) noexcept {
  try {
    // Locks the directory meanwhile, and leaves it as it was found except for the record.
    const train::RunDirectory directory(run.directory, run.earlier);
    train::FaultRecord record;
    record.run = run.name;
    if (launched_process() != 0) record.rank.reset();
    record.exit = failure.code;
    record.root.host = root.host;
    record.root.pid = root.pid;
    record.root.operation = failure.operation;
    record.root.cause = failure.sentence;
    record.detected_s = failure.detected_s;
    record.resume = start_command(run.start);
    record.operations = operations;
    write_file_unsynced(directory.path() / train::fault_name(0, 0), train::fault_json(record));
  } catch (const std::exception&) {
    // The failure itself is reported in any case.
  }
}

}  // namespace dptrain::app
