#include "program.h"

#include <algorithm>

#include "comm/communicators.h"
#include "comm/job.h"
#include "device/cuda_probe.h"
#include "ops/gpu_libraries.h"
#include "ops/onednn_version.h"

namespace dptrain::app {

std::string version() { return DPTRAIN_VERSION; }

std::string git_commit() { return DPTRAIN_GIT_COMMIT; }

std::string built_by() { return DPTRAIN_BUILT_BY; }

std::vector<std::string> parts_that_compute(DeviceKind kind) {
  if (kind == DeviceKind::cpu) return {"oneDNN " + ops::onednn_version()};
  std::vector<std::string> parts;
  if (const auto cuda = cuda_version(); !cuda.empty()) parts.push_back("CUDA " + cuda);
  for (const auto& library : ops::gpu_libraries()) parts.push_back(library.text());
  return parts;
}

std::vector<std::string> parts_present() {
  return parts_of_run({{.kind = DeviceKind::cpu}, {.kind = DeviceKind::cuda}});
}

std::vector<std::string> parts_of_run(const std::vector<DeviceId>& devices) {
  std::vector<std::string> parts;
  const auto add = [&](const std::vector<std::string>& more) { parts.insert(parts.end(), more.begin(), more.end()); };
  const auto has = [&](DeviceKind kind) { return std::ranges::find(devices, kind, &DeviceId::kind) != devices.end(); };
  for (const DeviceKind kind : {DeviceKind::cpu, DeviceKind::cuda})
    if (has(kind)) add(parts_that_compute(kind));
  if (has(DeviceKind::cuda))
    for (const auto& library : comm_libraries()) parts.push_back(library.text());
  for (const auto& library : job_libraries()) parts.push_back(library.text());
  return parts;
}

std::vector<std::string> parts_absent() {
  std::vector<std::string> parts;
  if (cuda_version().empty()) parts.insert(parts.end(), {"CUDA", "cuDNN"});
  if (comm_libraries().empty()) parts.emplace_back("NCCL");
  if (job_libraries().empty()) parts.emplace_back("MPI");
  return parts;
}

}  // namespace dptrain::app
