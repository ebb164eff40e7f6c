#include "parallel/score.h"

#include <algorithm>
#include <cstddef>

namespace dptrain::parallel {

double Score::mean_loss() const {
  double loss = 0;
  for (const OutputScore& output : outputs) loss += output.mean_loss();
  return loss;
}

Score& Score::operator+=(const Score& other) {
  outputs.resize(std::max(outputs.size(), other.outputs.size()));
  for (size_t k = 0; k < other.outputs.size(); ++k) {
    outputs[k].loss_sum += other.outputs[k].loss_sum;
    outputs[k].correct += other.outputs[k].correct;
    outputs[k].counted += other.outputs[k].counted;
  }
  samples += other.samples;
  noise += other.noise;
  return *this;
}

}  // namespace dptrain::parallel
