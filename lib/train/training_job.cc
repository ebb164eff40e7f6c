#include "train/training_job.h"

#include <cstring>
#include <type_traits>

namespace dptrain::train {

std::vector<parallel::RankCosts> gather_costs(ProcessGroup& group, const std::vector<parallel::RankCosts>& own) {
  // All processes of a job have the same build, so the bytes have the same layout.
  using parallel::RankCosts;
  static_assert(std::is_trivially_copyable_v<RankCosts>);
  const std::string bytes(reinterpret_cast<const char*>(own.data()), own.size() * sizeof(RankCosts));
  const std::vector<std::string> all = group.gather(bytes);
  if (!group.is_main()) return own;
  std::vector<RankCosts> costs;
  for (const std::string& of_process : all) {
    const size_t before = costs.size();
    costs.resize(before + of_process.size() / sizeof(RankCosts));
    std::memcpy(costs.data() + before, of_process.data(), of_process.size());
  }
  return costs;
}

}  // namespace dptrain::train
