#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>

#include "base/error.h"
#include "base/host_name.h"
#include "base/text_table.h"
#include "commands.h"
#include "device/device_list.h"
#include "device/host_machine.h"
#include "job_session.h"
#include "output.h"
#include "parallel/comm_speed.h"
#include "program.h"
#include "stop_signals.h"
#include "value_checks.h"

namespace dptrain::app {
namespace {

constexpr double kMiB = 1024.0 * 1024.0;

struct BenchFlags {
  std::string devices = "auto:2";
  std::vector<double> mb = {0.0625, 1, 25};
  int repeats = 20;
  bool json = false;
};

std::string as_text(const std::vector<parallel::CommSpeed>& speeds, int width) {
  std::vector<TableColumn> columns = {{.header = "collective", .cells = {}, .left_aligned = true},
                                      {.header = "MiB", .cells = {}},
                                      {.header = "ms", .cells = {}},
                                      {.header = "GB/s sent", .cells = {}},
                                      {.header = "of memcpy", .cells = {}}};
  for (const auto& speed : speeds)
    add_row(columns,
            {std::string(comm_kind_name(speed.kind)), fmt::format("{:.4g}", static_cast<double>(speed.bytes) / kMiB),
             fmt::format("{:.4g}", 1e3 * speed.seconds), fmt::format("{:.3g}", speed.sent_bytes_per_s() / 1e9),
             speed.copies() > 0 ? fmt::format("{:.2f}x", speed.copies()) : "-"});
  return text_table(columns, width);
}

/// The places of a process that is alone.
std::vector<train::RankPlace> places_of(const std::vector<DeviceId>& devices) {
  std::vector<train::RankPlace> places;
  for (const DeviceId& device : devices) places.push_back({.device = device.name(), .host = host_name(), .process = 0});
  return places;
}

std::string as_json(const std::vector<train::RankPlace>& ranks, const std::vector<parallel::CommSpeed>& speeds) {
  using nlohmann::ordered_json;
  ordered_json names = ordered_json::array(), hosts = ordered_json::array(), processes = ordered_json::array(),
               rows = ordered_json::array();
  for (const train::RankPlace& rank : ranks) {
    names.push_back(rank.device);
    hosts.push_back(rank.host);
    processes.push_back(rank.process);
  }
  for (const auto& speed : speeds)
    rows.push_back({{"collective", std::string(comm_kind_name(speed.kind))},
                    {"bytes", speed.bytes},
                    {"sent_bytes", speed.sent_bytes},
                    {"seconds", speed.seconds},
                    {"copy_s", speed.copy_s > 0 ? ordered_json(speed.copy_s) : ordered_json(nullptr)}});
  const ordered_json document = {{"schema", 1},
                                 {"devices", names},
                                 {"hosts", hosts},
                                 {"processes", processes},
                                 {"cpu", cpu_model_name()},
                                 {"cores", usable_cores()},
                                 {"comm", rows}};
  return document.dump(2) + "\n";
}

/// Throws if memory is too small: each rank has at least two buffers, and all of them are written. `workers`: on this
/// host.
void require_memory(const BenchFlags& flags, int64_t workers) {
  const double largest = *std::ranges::max_element(flags.mb) * kMiB;
  const auto memory = static_cast<double>(host_memory_bytes());
  if (2 * largest * static_cast<double>(workers) <= memory) return;
  throw Error(ExitCode::device,
              Mistake{.where = "--mb",
                      .expected = fmt::format("expected buffers that fit into the {:.0f} MiB of this machine's memory",
                                              memory / kMiB),
                      .got = fmt::format("two of {:.0f} MiB for each of {} CPU workers", largest / kMiB, workers),
                      .advice = "choose smaller ones"});
}

/// An experiment for the ranks of several processes. Throws 71 if they have too little memory.
train::Experiment experiment_of(const BenchFlags& flags, const train::ConfigJob& job) {
  train::Experiment experiment;
  experiment.devices = parse_device_list(flags.devices, "--devices", job.processes > 1 ? job.place_on_host() : 0);
  require_devices(experiment.devices, "--devices");
  experiment.threads.assign(experiment.devices.size(), 1);
  std::vector<std::vector<DeviceId>> all = {experiment.devices};
  if (job.exchange_devices) all = job.exchange_devices(experiment.devices);
  int64_t workers = 0;
  for (size_t process = 0; process < all.size(); ++process) {
    experiment.devices_of_processes.push_back(static_cast<int>(all[process].size()));
    if (job.hosts.empty() || job.hosts[process] == job.host)
      workers += std::ranges::count(all[process], DeviceKind::cpu, &DeviceId::kind);
  }
  require_memory(flags, workers);
  return experiment;
}

int bench_comm_in(JobSession& job, const BenchFlags& flags, const train::StopSignal& stop) {
  train::Experiment experiment = experiment_of(flags, job.config_job());
  // The job compares this text between processes as if it were a configuration.
  job.form_training(fmt::format("mb: [{}]\nrepeats: {}\n", fmt::join(flags.mb, ", "), flags.repeats), experiment);
  const train::TrainingJob* formed = experiment.job;
  parallel::RankTeam team({.devices = experiment.devices,
                           .threads = experiment.threads,
                           .world = formed != nullptr ? std::optional(formed->ranks) : std::nullopt});
  parallel::CommSpeedOptions options{
      .bytes = {}, .repeats = flags.repeats, .stopped = [&stop] { return stop.load() != 0; }};
  for (const double mb : flags.mb) options.bytes.push_back(static_cast<int64_t>(mb * kMiB));
  const auto speeds = parallel::measure_comm(team, options);
  const int signal = std::stoi(job.from_main(std::to_string(stop.load())));
  if (signal != 0)
    throw JobError({.code = exit_code_of_signal(signal),
                    .sentence = fmt::format("stopped by {}; nothing was printed", signal_name(signal))});
  if (!job.is_main()) return 0;
  const std::vector<train::RankPlace> ranks = formed != nullptr ? formed->places : places_of(experiment.devices);
  write_output(flags.json ? as_json(ranks, speeds) : as_text(speeds, terminal_width(STDOUT_FILENO)));
  return 0;
}

int bench_comm(const BenchFlags& flags) {
  train::StopSignal& stop = watch_stop_signals();
  JobSession job(stop, []() -> ExpectedRun { throw std::logic_error("a measurement leaves no run"); });
  try {
    const int code = bench_comm_in(job, flags, stop);
    job.finish();
    return code;
  } catch (const std::exception& failure) {
    job.leave_after(failure);
    throw;
  }
}

}  // namespace

Run add_bench_command(CLI::App& command) {
  auto flags = std::make_shared<BenchFlags>();
  command.require_subcommand(1);
  CLI::App* ops = command.add_subcommand("ops", "each operator of a training step, where it stands in the step");
  ops->footer("Example: dptrain bench ops --config lenet_1cpu");
  const Run run_ops = add_bench_ops_command(*ops);
  CLI::App* comm = command.add_subcommand(
      "comm", "collectives over the devices of one process or of many, in turns with a memcpy of as many bytes");
  comm->add_option("--devices", flags->devices, "the ranks")->type_name("LIST")->capture_default_str();
  comm->add_option("--mb", flags->mb, "MiB of each rank's buffer")
      ->delimiter(',')
      ->check(CLI::Range(1e-6, 4096.0))
      ->check(refuse_nan)
      ->type_name("MIB")
      ->capture_default_str();
  comm->add_option("--repeats", flags->repeats, "calls that the median is of")
      ->check(CLI::Range(1, 10000))
      ->type_name("N")
      ->capture_default_str();
  comm->add_flag("--json", flags->json, "one JSON document");
  return [flags, ops, run_ops] { return ops->parsed() ? run_ops() : bench_comm(*flags); };
}

}  // namespace dptrain::app
