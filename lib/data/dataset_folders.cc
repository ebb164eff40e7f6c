#include "data/dataset_folders.h"

#include "base/installation.h"

namespace dptrain {

std::vector<std::filesystem::path> dataset_roots() { return {DPTRAIN_SOURCE_DATASETS, installed_data() / "datasets"}; }

}  // namespace dptrain
