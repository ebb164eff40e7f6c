#include "train/nudged_weights.h"

#include <cmath>
#include <vector>

namespace dptrain::train {

void nudge_weights(parallel::Strategy& strategy, int roundings) {
  std::vector<nn::NamedValues> state = strategy.state_dict();
  const double share = roundings * std::ldexp(1.0, -24);
  for (nn::NamedValues& tensor : state)
    for (size_t i = 0; i < tensor.values.size(); ++i)
      tensor.values[i] = static_cast<float>(tensor.values[i] * (i % 2 == 0 ? 1 + share : 1 - share));
  strategy.restore({.model = state, .optimizer = {}, .average = {}, .loss_scale = {}});
}

}  // namespace dptrain::train
