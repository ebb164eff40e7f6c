#include "data/dataset_folders.h"

namespace dptrain {

std::vector<std::filesystem::path> dataset_roots() { return {DPTRAIN_SOURCE_DATASETS, DPTRAIN_INSTALLED_DATASETS}; }

}  // namespace dptrain
