#include <fmt/format.h>
#include <signal.h>

#include <exception>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/sha256.h"
#include "commands.h"
#include "data/dataset_digest.h"
#include "fault_flag.h"
#include "fault_report.h"
#include "job_session.h"
#include "output.h"
#include "program.h"
#include "read_experiment.h"
#include "stop_signals.h"
#include "train/config_changes.h"
#include "train/fault_spec.h"
#include "train/initial_weights.h"
#include "train/run_directory.h"
#include "train/safetensors.h"
#include "train/strategy_context.h"
#include "train/strategy_trials.h"
#include "train/summary.h"
#include "train/trainer.h"
#include "train/training_warnings.h"
#include "train_flags.h"
#include "training_display.h"

namespace dptrain::app {
namespace {

namespace fs = std::filesystem;

/// The checkpoint that a job goes on from. The main process finds it, and the others read the same folder.
std::optional<train::ResumePoint> resume_point(const TrainFlags& flags, const fs::path& out, JobSession& job) {
  if (!flags.resume) return std::nullopt;
  std::optional<train::ResumePoint> found;
  if (job.is_main()) found = flags.resume_point(out);
  const std::string folder = job.from_main(found ? found->folder.string() : "");
  if (!job.is_main() && !folder.empty())
    found = train::ResumePoint{.checkpoint = train::read_checkpoint(folder), .folder = folder};
  return found;
}

/// A training run in one process of its job. The main process writes for all.
class TrainRun {
 public:
  TrainRun(const TrainFlags& flags, JobSession& job, train::StopSignal& stop)
      : flags_(flags), job_(job), stop_(stop), read_(flags.common, job.config_job()) {}

  int run();

 private:
  train::Experiment& experiment() { return read_.experiment; }
  /// Opens the data; in a job also computes its digests.
  void open_data();
  /// Handles --resume in a run directory without a checkpoint. Throws 65 if the run is finished and has another
  /// configuration. Warns if epochs of an unfinished run are dropped.
  void look_at_run_without_checkpoint();
  /// The hash of the weights that the training begins with; "" if they are drawn at random.
  std::string hash_of_read_weights();
  int train(train::Trainer& trainer);
  bool is_resumed_in_vain(const train::Trainer& trainer);
  void begin_directory(const train::Trainer& trainer);
  /// `is_over` says that no steps are left to train.
  int end(const train::TrainingOutcome& outcome, bool is_over);

  const TrainFlags& flags_;
  JobSession& job_;
  train::StopSignal& stop_;
  ReadExperiment read_;
  fs::path out_;
  train::EarlierRun earlier_ = train::EarlierRun::refuse;
  std::string config_;
  Datasets data_;
  std::string train_digest_;
  std::string test_digest_;
  std::optional<train::RunDirectory> directory_;  ///< of the main process
  std::optional<train::ResumePoint> resume_;
  std::optional<TrainingDisplay> display_;
};

int TrainRun::run() {
  if (read_.dumped) return 0;
  experiment().traced = flags_.traced;
  config_ = read_.session.resolved_yaml();
  out_ = run_directory(flags_.common.out.value_or("runs/" + experiment().name), config_);
  job_.expect_training(experiment(), out_, flags_.before_training(out_));
  job_.form_training(config_, experiment());
  experiment().on_hung = [this](const Error& error) { job_.leave_hung(error); };
  if (!job_.is_worker()) {
    job_.serve(experiment());
    return 0;
  }
  train::require_ranks(flags_.faults, experiment().device_names().size(), experiment().job != nullptr);
  experiment().faults = flags_.faults;
  const ActivePlace place(job_.trainer());
  const auto traced = flags_.traced.value_or(train::TracedSteps()).after(0);
  job_.agree_on("--trace", flags_.traced ? fmt::format("steps {}-{}", traced.first, traced.last) : "not given");
  job_.agree_on("--fault", faults_text(flags_.faults));
  job_.agree_on("--resume", flags_.resume ? fmt::format("'{}'", flags_.checkpoint) : "not given");
  // Everything that can be refused is refused before a device allocates memory.
  earlier_ = flags_.earlier_run(out_);
  job_.one_of_each_host_first([&] { open_data(); });
  train::require_trainable(experiment(), *data_.train);
  if (job_.is_main()) {
    directory_.emplace(out_, earlier_);
    train::remove_unfinished_checkpoints(directory_->checkpoints());
  }
  resume_ = resume_point(flags_, out_, job_);
  auto& weights = experiment().initial_weights;
  if (!resume_ && weights) weights->path = train::find_weights(weights->path, tell_of_damage);

  display_.emplace(DisplayOptions{.quiet = flags_.common.quiet || !job_.is_main(),
                                  .json = flags_.common.json && job_.is_main(),
                                  .progress = flags_.common.progress},
                   stop_);
  if (directory_ && flags_.resume && !resume_) look_at_run_without_checkpoint();
  if (job_.is_main())
    for (const std::string& warning : train::training_warnings(experiment(), data_.train->samples(),
                                                               resume_ ? resume_->checkpoint.position.step : 0))
      display_->on_warning(warning);
  const int stopped = train::choose_strategy(experiment(), {.config = read_.config,
                                                            .data = data_,
                                                            .observer = *display_,
                                                            .stop = stop_,
                                                            .resume = resume_ ? &*resume_ : nullptr});
  if (stopped != 0)
    throw Error(exit_code_of_signal(stopped),
                fmt::format("stopped by {} in the trials of strategy: auto, before the first training step",
                            signal_name(stopped)));
  if (job_.processes() > 1) {
    job_.agree_on("training samples", std::to_string(data_.train->samples()));
    job_.agree_on("digest of the training samples", train_digest_);
    job_.agree_on("digest of the test samples", test_digest_);
    // Compared here, before a device takes its part of the weights.
    job_.agree_on("initial weights", hash_of_read_weights());
  }
  std::optional<train::Trainer> trainer;
  try {
    trainer.emplace(experiment(), data_, sha256_of(config_), resume_);
    return train(*trainer);
  } catch (const std::exception& failure) {
    // This must happen before the trainer is destroyed: messages of other processes may still be written to its
    // buffers, and it may have to wait for the others to end.
    job_.leave_after(failure);
    throw;
  }
}

void TrainRun::open_data() {
  data_ = experiment().dataset.open();
  if (job_.processes() == 1) return;
  train_digest_ = digest_of(*data_.train);
  test_digest_ = digest_of(*data_.test);
}

void TrainRun::look_at_run_without_checkpoint() {
  std::error_code none;
  if (directory_->finished()) {
    const std::string changes = train::changes_since_finished(out_, config_);
    if (changes.empty()) return;
    throw Error(
        ExitCode::bad_data,
        Mistake{.where = out_.string(),
                .expected = fmt::format("the run is finished, expected a checkpoint to resume from with {}", changes),
                .got = "none",
                .advice = "choose another --out, or --overwrite to train anew"});
  }
  if (fs::file_size(out_ / "metrics.jsonl", none) == 0 || none) return;
  display_->on_warning(fmt::format(
      "{}: no checkpoint to resume from; the run starts again, and the earlier epochs in its metrics.jsonl are dropped",
      out_.string()));
}

int TrainRun::train(train::Trainer& trainer) {
  if (job_.processes() > 1) job_.agree_on_weights(trainer.state_dict());
  if (is_resumed_in_vain(trainer)) {
    job_.begin_nothing();
    return 0;
  }
  if (directory_) begin_directory(trainer);
  std::optional<train::FaultRecord::Saved> resumed;
  if (resume_) resumed = {.path = resume_->folder, .step = trainer.position().step};
  job_.begin_training(experiment(), out_, resumed);
  ProgressRecorder recorder(*display_, job_.progress());
  const train::TrainingOutcome outcome = trainer.run(directory_ ? &*directory_ : nullptr, recorder, stop_);
  return end(outcome, trainer.finished());
}

std::string TrainRun::hash_of_read_weights() {
  if (resume_) return train::weights_hash(resume_->checkpoint.state.model);
  if (experiment().initial_weights)
    return train::weights_hash(train::read_initial_weights(*experiment().initial_weights));
  return {};
}

bool TrainRun::is_resumed_in_vain(const train::Trainer& trainer) {
  const bool goes_on = directory_ && earlier_ == train::EarlierRun::resume;
  auto finished = goes_on ? directory_->finished() : std::nullopt;
  // A finished run without checkpoints was handled by look_at_run_without_checkpoint.
  const bool is_over = finished && (!resume_ || trainer.finished_in(*directory_));
  if (is_over) {
    // The user may ask for more steps now, but a run that has stopped early stays finished.
    if (resume_ && !trainer.finished()) finished->stopped_early = true;
    directory_->remove_records_of_failures();
    display_->on_finished_before(*finished, out_.string());
    // This happens to sweeps whose --out isn't different for each run.
    if (const std::string changes = resume_ ? train::changes_since(*resume_, config_) : ""; !changes.empty())
      display_->on_warning(
          fmt::format("{} was trained with another configuration: {}; choose another --out, or "
                      "--overwrite, to train with this one",
                      out_.string(), changes));
  }
  return job_.from_main(is_over ? "over" : "") == "over";
}

void TrainRun::begin_directory(const train::Trainer& trainer) {
  const train::TrainingPosition& position = trainer.position();
  // Compared before config.yaml is written again.
  const std::string changes = resume_ ? train::changes_since(*resume_, config_) : "";
  if (earlier_ == train::EarlierRun::resume) {
    for (const std::string& damage :
         directory_->go_back_to(position.epochs + (position.reported ? 1 : 0), position.step))
      display_->on_warning(damage);
    for (const fs::path& aside : train::put_aside_after(directory_->checkpoints(), position.step)) {
      const std::string name = aside.filename().string();
      const fs::path later = aside.parent_path() / name.substr(0, name.find('.'));
      display_->on_warning(
          fmt::format("{} is of a later step than {}; renamed to {}", later.string(), position.step, name));
    }
  } else {
    directory_->remove_earlier_run();
  }
  directory_->write_config(config_);
  display_->on_start(experiment(), out_.string());
  if (resume_) display_->on_resume(*resume_, experiment(), changes, trainer.finished());
}

int TrainRun::end(const train::TrainingOutcome& outcome, bool is_over) {
  // A run ends with an error even after its last step if its last row couldn't be shown. In a job the main process
  // decides how it ends.
  const bool unwritten = stop_.load() == SIGPIPE;
  const int code = unwritten             ? static_cast<int>(ExitCode::io)
                   : outcome.signal == 0 ? 0
                                         : static_cast<int>(exit_code_of_signal(outcome.signal));
  std::string sentence;
  if (unwritten)
    sentence = fmt::format("{}. Stopped after step {}; the weights are in {}{}", unwritten_output(), outcome.steps,
                           outcome.weights.string(), is_over ? "" : ", --resume goes on from them");
  else if (outcome.signal != 0)
    sentence = fmt::format("stopped by {} after step {}; the weights are in {}, --resume goes on from them",
                           signal_name(outcome.signal), outcome.steps, outcome.weights.string());
  const std::vector<std::string> processes = job_.gather(train::process_record(experiment(), data_));
  if (directory_) {
    directory_->write_summary(train::summary_json(experiment(), outcome, code,
                                                  {.version = version(),
                                                   .commit = git_commit(),
                                                   .libraries = parts_of_run(experiment().devices),
                                                   .processes = processes},
                                                  config_));
    display_->on_finish(outcome, out_.string());
  }
  sentence = job_.from_main(sentence);
  const int code_of_job = std::stoi(job_.from_main(std::to_string(code)));
  if (code_of_job != 0) throw JobError({.code = static_cast<ExitCode>(code_of_job), .sentence = sentence});
  return 0;
}

int train_with(const TrainFlags& flags) {
  train::StopSignal& stop = watch_stop_signals();
  const auto expected = [&flags] {
    ExpectedRun run = expected_run(flags.common);
    run.earlier = flags.before_training(run.directory);
    return run;
  };
  JobSession job(stop, expected);
  try {
    const int code = TrainRun(flags, job, stop).run();
    job.finish();
    return code;
  } catch (const std::exception& failure) {
    job.leave_after(failure);
    throw;
  }
}

}  // namespace

Run add_train_command(CLI::App& command) {
  auto flags = std::make_shared<TrainFlags>();
  flags->common.add_to(
      command, {.out = "the run directory; {hash} in it stands for the configuration's hash; runs/<name> by default",
                .json = "print the metrics as JSON lines on stdout; everything else goes to stderr",
                .progress = kProgressHelp});
  command.add_flag("--overwrite", flags->overwrite, "replace the run directory's files of an earlier run");
  command
      .add_option_function<std::vector<std::string>>(
          "--resume",
          [flags](const std::vector<std::string>& values) {
            flags->resume = true;
            if (!values.empty()) flags->checkpoint = values[0];
          },
          "go on from the run directory's checkpoint if it has one, or from CHECKPOINT; else start")
      ->expected(0, 1)
      ->type_name("[CHECKPOINT]");
  command
      .add_option_function<std::vector<std::string>>(
          "--trace",
          [flags](const std::vector<std::string>& values) {
            const std::string steps = values.empty() ? "" : values[0];
            flags->traced = steps.empty() ? train::TracedSteps() : traced_steps(steps);
          },
          "write trace.json, a timeline of what each device computes and exchanges, for Perfetto or chrome://tracing: "
          "of STEPS steps, 10 by default, from the third trained step on, or of steps FIRST-LAST")
      ->expected(0, 1)
      ->type_name("[STEPS]");
  add_fault_flag(command, flags->faults,
                 "rehearse a failure: kill, stop, hang, memory, flip, nan as kill:rank=1,step=37, or "
                 "slow:rank=1,ms=20; may be repeated");
  return [flags] { return train_with(*flags); };
}

}  // namespace dptrain::app
