#include "program.h"

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
  std::vector<std::string> parts = parts_that_compute(DeviceKind::cpu);
  for (const auto& part : parts_that_compute(DeviceKind::cuda)) parts.push_back(part);
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
