#include "ops/batch_norm_chunks_cpu.h"

#include <algorithm>
#include <cmath>

#include "ops/reorder.h"

namespace dptrain::ops::cpu {
namespace {

/// Returns the smallest number of equal parts with at most `most` positions each.
int64_t equal_parts(int64_t positions, int64_t most) {
  int64_t parts = (positions + most - 1) / most;
  while (positions % parts != 0) ++parts;
  return parts;
}

/// Two numbers per lane of each chunk, before they are folded over the samples.
struct Partials {
  explicit Partials(Device& device, const Chunks& chunks)
      : first(Tensor::empty(device, {chunks.count() * chunks.lanes}, {.purpose = MemoryPurpose::workspace})),
        second(Tensor::empty(device, {chunks.count() * chunks.lanes}, {.purpose = MemoryPurpose::workspace})) {}
  Tensor first, second;
};

/// Computes scale and shift of y = x * scale + shift from these statistics.
void affine(const BatchNormInputs& in, const BatchNormTraining& statistics, const Chunks& chunks, PerLane& scale,
            PerLane& shift) {
  const float *gamma = in.gamma.data<float>(), *beta = in.beta.data<float>();
  const float *mean = statistics.mean.data<float>(), *inverse_deviation = statistics.inverse_deviation.data<float>();
  for (int64_t c = 0; c < chunks.channels; ++c) {
    *scale.at(c) = gamma[c] * inverse_deviation[c];
    *shift.at(c) = static_cast<float>(beta[c] - static_cast<double>(mean[c]) * *scale.at(c));
  }
}

/// The residual that is added to the first channels of x, by chunks of x.
class ResidualChunks {
 public:
  ResidualChunks(const Tensor& x, const Chunks& chunks, const Tensor& residual)
      : chunks_(chunks), residual_(residual.defined() ? reorder(residual, x.layout()) : residual) {
    if (!residual.defined()) return;
    const int64_t channels = residual.shape()[1];
    lanes_ = x.layout() == Layout::nhwc ? channels : chunks.lanes;
    blocks_ = (channels + lanes_ - 1) / lanes_;
  }

  int64_t lanes() const { return lanes_; }
  /// Returns the residual's rows for a chunk; null if nothing is added.
  const float* read(int64_t chunk, Pieces& pieces) const {
    const int64_t part = chunk % chunks_.parts, block = chunk / chunks_.parts % chunks_.blocks;
    if (block >= blocks_) return nullptr;
    const int64_t sample = chunk / chunks_.parts / chunks_.blocks, elements = chunks_.positions * lanes_;
    return pieces.read(residual_, ((sample * blocks_ + block) * chunks_.parts + part) * elements, elements);
  }

 private:
  const Chunks& chunks_;
  Tensor residual_;
  int64_t lanes_ = 0, blocks_ = 0;
};

}  // namespace

Chunks::Chunks(const Tensor& x)
    : samples(x.shape()[0]),
      channels(x.shape()[1]),
      lanes(x.layout() == Layout::nhwc ? channels : layout_block(x.layout())),
      blocks((channels + lanes - 1) / lanes),
      parts(x.dtype() == DType::f32
                ? 1
                : equal_parts(x.shape()[2] * x.shape()[3], std::max(int64_t{1}, kPieceElements / lanes))),
      positions(x.shape()[2] * x.shape()[3] / parts) {}

std::vector<ChannelMoments> moments_of(const Tensor& x) {
  const Chunks chunks(x);
  std::vector<ChannelMoments> moments(static_cast<size_t>(chunks.channels));
  if (x.elements() == 0) return moments;
  const Partials partials(x.device(), chunks);
  float *means = partials.first.data<float>(), *squares = partials.second.data<float>();
  for_each_unit(x, chunks.count(), chunks.elements(), [&](int64_t chunk, Pieces& pieces) {
    batch_norm_kernels().statistics(pieces.read(x, chunks.offset(chunk), chunks.elements()), chunks.positions,
                                    chunks.lanes, means + chunk * chunks.lanes, squares + chunk * chunks.lanes);
  });
  // Chunks have equal size, so the mean is the mean of their means. The squares add up with those of the means around
  // it (Chan, Golub and LeVeque, 1979), in sample order and double precision.
  chunks.for_each_number([&](size_t c, int64_t i) {
    moments[c].mean += means[i];
    moments[c].squares += squares[i];
  });
  for (ChannelMoments& of_channel : moments) of_channel.mean /= chunks.chunks_per_channel();
  std::vector<double> around(moments.size());
  chunks.for_each_number([&](size_t c, int64_t i) {
    const double distance = means[i] - moments[c].mean;
    around[c] += distance * distance;
  });
  for (size_t c = 0; c < moments.size(); ++c) moments[c].squares += around[c] * static_cast<double>(chunks.positions);
  return moments;
}

void finish_statistics(const BatchNormInputs& in, const BatchNormTraining& result, int64_t c,
                       const ChannelMoments& moments, double count, const BatchNormOptions& options) {
  float &mean = result.mean.data<float>()[c], &inverse_deviation = result.inverse_deviation.data<float>()[c];
  mean = static_cast<float>(moments.mean);
  inverse_deviation = count > 0 ? static_cast<float>(1.0 / std::sqrt(moments.squares / count + options.epsilon)) : 0.f;
  if (count == 0) return;
  const double unbiased = moments.squares / std::max(1.0, count - 1);
  float &running_mean = in.running_mean.data<float>()[c], &running_variance = in.running_variance.data<float>()[c];
  running_mean += options.momentum * (mean - running_mean);
  running_variance += options.momentum * (static_cast<float>(unbiased) - running_variance);
}

Tensor normalized(const BatchNormInputs& in, const BatchNormTraining& statistics, const BatchNormOptions& options) {
  const Chunks chunks(in.x);
  PerLane scale(chunks), shift(chunks);
  affine(in, statistics, chunks, scale, shift);
  const ResidualChunks residual(in.x, chunks, in.residual);
  Tensor y = Tensor::empty(in.x.device(), in.x.shape(), {.dtype = in.x.dtype(), .layout = in.x.layout()});
  for_each_unit(in.x, chunks.count(), 3 * chunks.elements(), [&](int64_t chunk, Pieces& pieces) {
    const int64_t at = chunks.offset(chunk), count = chunks.elements(), lane = chunks.first_lane(chunk);
    const BatchNormChunk of_x = {.x = pieces.read(in.x, at, count),
                                 .positions = chunks.positions,
                                 .lanes = chunks.lanes,
                                 .scale = scale.at(lane),
                                 .shift = shift.at(lane),
                                 .relu = options.relu};
    const BatchNormAddend addend = {.rows = residual.read(chunk, pieces), .lanes = residual.lanes()};
    batch_norm_kernels().normalize(of_x, addend, pieces.write(y, at, count));
  });
  return y;
}

BatchNormBackward::BatchNormBackward(const BatchNormInputs& in, const BatchNormTraining& forward,
                                     const Tensor& output_gradient, const BatchNormOptions& options)
    : in_(in),
      forward_(forward),
      relu_(options.relu),
      chunks_(in.x),
      scale_(chunks_),
      shift_(chunks_),
      mean_(chunks_),
      mean_gradient_(chunks_),
      slope_(chunks_),
      incoming_(reorder(output_gradient, in.x.layout())),
      // Without a residual the kernels compute the output's sign again, which is cheaper than reading the output.
      y_(in.residual.defined() ? forward.y : Tensor()) {
  affine(in, forward, chunks_, scale_, shift_);
  for (int64_t c = 0; c < chunks_.channels; ++c) *mean_.at(c) = forward.mean.data<float>()[c];
}

BatchNormChunkGradient BatchNormBackward::gradient_of(int64_t chunk, Pieces& pieces) const {
  const int64_t at = chunks_.offset(chunk), count = chunks_.elements(), lane = chunks_.first_lane(chunk);
  return {{.x = pieces.read(in_.x, at, count),
           .positions = chunks_.positions,
           .lanes = chunks_.lanes,
           .scale = scale_.at(lane),
           .shift = shift_.at(lane),
           .relu = relu_},
          pieces.read(y_, at, count),
          pieces.read(incoming_, at, count),
          mean_.at(lane)};
}

std::vector<ChannelGradients> BatchNormBackward::sums() const {
  const Partials partials(in_.x.device(), chunks_);
  float *sums = partials.first.data<float>(), *dots = partials.second.data<float>();
  for_each_unit(in_.x, chunks_.count(), 3 * chunks_.elements(), [&](int64_t chunk, Pieces& pieces) {
    const int64_t first = chunk * chunks_.lanes;
    batch_norm_kernels().gradient_sums(gradient_of(chunk, pieces), sums + first, dots + first);
  });
  std::vector<ChannelGradients> folded(static_cast<size_t>(chunks_.channels));
  chunks_.for_each_number([&](size_t c, int64_t i) {
    folded[c].sum += sums[i];
    folded[c].dot += dots[i];
  });
  return folded;
}

void BatchNormBackward::finish_parameters(const BatchNormSinks& sinks, int64_t c, const ChannelGradients& sums) const {
  const double deviation = forward_.inverse_deviation.data<float>()[c];
  float &gamma = sinks.gamma.data<float>()[c], &beta = sinks.beta.data<float>()[c];
  const auto of_gamma = static_cast<float>(sums.dot * deviation), of_beta = static_cast<float>(sums.sum);
  gamma = sinks.accumulate_gamma ? gamma + of_gamma : of_gamma;
  beta = sinks.accumulate_beta ? beta + of_beta : of_beta;
}

void BatchNormBackward::center(int64_t c, const ChannelGradients& sums, double count) {
  // dx = scale * (g - mean(g) - xhat * mean(g * xhat)), with xhat = (x - mean) * deviation.
  const double deviation = forward_.inverse_deviation.data<float>()[c];
  *mean_gradient_.at(c) = static_cast<float>(sums.sum / count);
  *slope_.at(c) = static_cast<float>(-*scale_.at(c) * sums.dot * deviation * deviation / count);
}

BatchNormGradients BatchNormBackward::inputs() const {
  const TensorOptions like_x{.dtype = in_.x.dtype(), .layout = in_.x.layout()};
  const auto make = [&] { return Tensor::empty(in_.x.device(), in_.x.shape(), like_x); };
  // Without a ReLU the residual's gradient is the incoming gradient.
  const bool masks = in_.residual.defined() && relu_;
  const Tensor masked = masks ? make() : Tensor();
  const BatchNormGradients gradients{.x = make(), .residual = in_.residual.defined() && !masks ? incoming_ : masked};
  for_each_unit(in_.x, chunks_.count(), 5 * chunks_.elements(), [&](int64_t chunk, Pieces& pieces) {
    const int64_t at = chunks_.offset(chunk), count = chunks_.elements(), lane = chunks_.first_lane(chunk);
    batch_norm_kernels().input_gradient(gradient_of(chunk, pieces), mean_gradient_.at(lane), slope_.at(lane),
                                        pieces.write(gradients.x, at, count), pieces.write(masked, at, count));
  });
  return gradients;
}

}  // namespace dptrain::ops::cpu
