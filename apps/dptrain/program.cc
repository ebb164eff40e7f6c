#include "program.h"

#include "device/cuda_probe.h"
#include "ops/onednn_version.h"

namespace dptrain::app {

std::string version() { return DPTRAIN_VERSION; }

std::string git_commit() { return DPTRAIN_GIT_COMMIT; }

std::vector<std::string> parts_present() {
  std::vector<std::string> parts = {"oneDNN " + ops::onednn_version()};
  if (const auto cuda = cuda_version(); !cuda.empty()) parts.push_back("CUDA " + cuda);
  return parts;
}

std::vector<std::string> parts_absent() {
  std::vector<std::string> parts;
  if (cuda_version().empty()) parts.emplace_back("CUDA");
  for (const char* part : {"cuDNN", "NCCL", "MPI"}) parts.emplace_back(part);
  return parts;
}

}  // namespace dptrain::app
