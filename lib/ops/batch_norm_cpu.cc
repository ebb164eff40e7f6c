#include "ops/batch_norm_cpu.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "ops/batch_norm_kernels.h"
#include "ops/f32_pieces.h"
#include "ops/reorder.h"

namespace dptrain::ops::cpu {
namespace {

/// The least number of equal parts that hold no more than `most` positions each.
int64_t equal_parts(int64_t positions, int64_t most) {
  int64_t parts = (positions + most - 1) / most;
  while (positions % parts != 0) ++parts;
  return parts;
}

/// How a tensor falls into chunks of equal size: sample by sample, block of channels by block, and positions that are
/// widened at once by the others, where it isn't f32.
struct Chunks {
  explicit Chunks(const Tensor& x)
      : samples(x.shape()[0]),
        channels(x.shape()[1]),
        lanes(x.layout() == Layout::nhwc ? channels : layout_block(x.layout())),
        blocks((channels + lanes - 1) / lanes),
        parts(x.dtype() == DType::f32
                  ? 1
                  : equal_parts(x.shape()[2] * x.shape()[3], std::max(int64_t{1}, kPieceElements / lanes))),
        positions(x.shape()[2] * x.shape()[3] / parts) {}

  int64_t count() const { return samples * blocks * parts; }
  int64_t elements() const { return positions * lanes; }
  int64_t first_lane(int64_t chunk) const { return chunk / parts % blocks * lanes; }
  int64_t offset(int64_t chunk) const { return chunk * elements(); }
  int64_t padded_channels() const { return blocks * lanes; }
  double chunks_per_channel() const { return static_cast<double>(samples * parts); }
  double values_per_channel() const { return chunks_per_channel() * static_cast<double>(positions); }

  /// Calls f(i) for the places of a channel's numbers among those of all lanes of all chunks, in order.
  template <class F>
  void for_each_number(int64_t channel, const F& f) const {
    const int64_t first = channel / lanes * parts * lanes + channel % lanes;
    for (int64_t n = 0; n < samples; ++n)
      for (int64_t part = 0; part < parts; ++part) f(first + (n * blocks * parts + part) * lanes);
  }

  int64_t samples, channels, lanes, blocks;
  int64_t parts;      ///< of a sample's positions
  int64_t positions;  ///< of a chunk
};

/// A number a channel, padded to whole blocks with zeros, so that padded lanes of the output stay zero.
class PerLane {
 public:
  explicit PerLane(const Chunks& chunks) : values_(static_cast<size_t>(chunks.padded_channels())) {}
  float* at(int64_t lane) { return values_.data() + lane; }
  const float* at(int64_t lane) const { return values_.data() + lane; }

 private:
  std::vector<float> values_;
};

/// Two numbers a lane of every chunk, before they are folded over the samples.
struct Partials {
  explicit Partials(Device& device, const Chunks& chunks)
      : first(Tensor::empty(device, {chunks.count() * chunks.lanes}, {.purpose = MemoryPurpose::workspace})),
        second(Tensor::empty(device, {chunks.count() * chunks.lanes}, {.purpose = MemoryPurpose::workspace})) {}
  Tensor first, second;
};

/// y = x * scale + shift for these statistics.
void affine(const BatchNormInputs& in, const Chunks& chunks, const float* mean, const float* inverse_deviation,
            PerLane& scale, PerLane& shift) {
  const float *gamma = in.gamma.data<float>(), *beta = in.beta.data<float>();
  for (int64_t c = 0; c < chunks.channels; ++c) {
    *scale.at(c) = gamma[c] * inverse_deviation[c];
    *shift.at(c) = static_cast<float>(beta[c] - static_cast<double>(mean[c]) * *scale.at(c));
  }
}

Tensor normalized(const BatchNormInputs& in, const Tensor& residual, const Chunks& chunks, const PerLane& scale,
                  const PerLane& shift, bool relu) {
  Tensor y = Tensor::empty(in.x.device(), in.x.shape(), {.dtype = in.x.dtype(), .layout = in.x.layout()});
  for_each_unit(in.x, chunks.count(), 3 * chunks.elements(), [&](int64_t chunk, Pieces& pieces) {
    const int64_t at = chunks.offset(chunk), count = chunks.elements(), lane = chunks.first_lane(chunk);
    batch_norm_kernels().normalize(pieces.read(in.x, at, count), pieces.read(residual, at, count), chunks.positions,
                                   chunks.lanes, scale.at(lane), shift.at(lane), relu, pieces.write(y, at, count));
  });
  return y;
}

Tensor in_layout_of(const Tensor& x, const Tensor& other) {
  return other.defined() ? reorder(other, x.layout()) : other;
}

}  // namespace

BatchNormTraining batch_norm_training(const BatchNormInputs& in, const BatchNormOptions& options) {
  Device& device = in.x.device();
  const Chunks chunks(in.x);
  const Partials partials(device, chunks);
  float *means = partials.first.data<float>(), *squares = partials.second.data<float>();
  for_each_unit(in.x, chunks.count(), chunks.elements(), [&](int64_t chunk, Pieces& pieces) {
    batch_norm_kernels().statistics(pieces.read(in.x, chunks.offset(chunk), chunks.elements()), chunks.positions,
                                    chunks.lanes, means + chunk * chunks.lanes, squares + chunk * chunks.lanes);
  });

  // Chunks of equal size: the mean is the mean of their means, and the squares add up with those of the means around it
  // (Chan, Golub and LeVeque, 1979), in sample order and double precision.
  BatchNormTraining result{.y = {},
                           .mean = Tensor::empty(device, {chunks.channels}),
                           .inverse_deviation = Tensor::empty(device, {chunks.channels})};
  float *mean = result.mean.data<float>(), *inverse_deviation = result.inverse_deviation.data<float>();
  float *running_mean = in.running_mean.data<float>(), *running_variance = in.running_variance.data<float>();
  const double count = chunks.values_per_channel();
  for (int64_t c = 0; c < chunks.channels; ++c) {
    double sum = 0, within = 0, around = 0;
    chunks.for_each_number(c, [&](int64_t i) {
      sum += means[i];
      within += squares[i];
    });
    const double centre = sum / chunks.chunks_per_channel();
    chunks.for_each_number(c, [&](int64_t i) {
      const double distance = means[i] - centre;
      around += distance * distance;
    });
    const double total = within + around * static_cast<double>(chunks.positions);
    mean[c] = static_cast<float>(centre);
    inverse_deviation[c] = static_cast<float>(1.0 / std::sqrt(total / count + options.epsilon));
    const double unbiased = total / std::max(1.0, count - 1);
    running_mean[c] += options.momentum * (mean[c] - running_mean[c]);
    running_variance[c] += options.momentum * (static_cast<float>(unbiased) - running_variance[c]);
  }

  PerLane scale(chunks), shift(chunks);
  affine(in, chunks, mean, inverse_deviation, scale, shift);
  result.y = normalized(in, in_layout_of(in.x, in.residual), chunks, scale, shift, options.relu);
  return result;
}

BatchNormTraining batch_norm_by_running(const BatchNormInputs& in, const BatchNormOptions& options) {
  const Chunks chunks(in.x);
  BatchNormTraining result{
      .y = {}, .mean = in.running_mean, .inverse_deviation = Tensor::empty(in.x.device(), {chunks.channels})};
  float* inverse_deviation = result.inverse_deviation.data<float>();
  const float* variance = in.running_variance.data<float>();
  for (int64_t c = 0; c < chunks.channels; ++c) inverse_deviation[c] = 1.f / std::sqrt(variance[c] + options.epsilon);
  PerLane scale(chunks), shift(chunks);
  affine(in, chunks, in.running_mean.data<float>(), inverse_deviation, scale, shift);
  result.y = normalized(in, in_layout_of(in.x, in.residual), chunks, scale, shift, options.relu);
  return result;
}

Tensor batch_norm_again(const BatchNormInputs& in, const BatchNormTraining& forward, const BatchNormOptions& options) {
  const Chunks chunks(in.x);
  PerLane scale(chunks), shift(chunks);
  affine(in, chunks, forward.mean.data<float>(), forward.inverse_deviation.data<float>(), scale, shift);
  return normalized(in, Tensor(), chunks, scale, shift, options.relu);
}

BatchNormGradients batch_norm_backward(const BatchNormInputs& in, const BatchNormTraining& forward,
                                       const Tensor& output_gradient, const BatchNormOptions& options) {
  Device& device = in.x.device();
  const Chunks chunks(in.x);
  const float *mean_of_channel = forward.mean.data<float>(),
              *inverse_deviation = forward.inverse_deviation.data<float>();
  PerLane scale(chunks), shift(chunks), mean(chunks), mean_gradient(chunks), slope(chunks);
  affine(in, chunks, mean_of_channel, inverse_deviation, scale, shift);
  for (int64_t c = 0; c < chunks.channels; ++c) *mean.at(c) = mean_of_channel[c];

  const Tensor incoming = reorder(output_gradient, in.x.layout());
  // Without a residual the kernels compute the output's sign again, which is cheaper than reading the output.
  const Tensor y = in.residual.defined() ? forward.y : Tensor();

  const Partials partials(device, chunks);
  float *sums = partials.first.data<float>(), *dots = partials.second.data<float>();
  for_each_unit(in.x, chunks.count(), 3 * chunks.elements(), [&](int64_t chunk, Pieces& pieces) {
    const int64_t at = chunks.offset(chunk), count = chunks.elements(), lane = chunks.first_lane(chunk);
    batch_norm_kernels().gradient_sums(pieces.read(in.x, at, count), pieces.read(y, at, count),
                                       pieces.read(incoming, at, count), chunks.positions, chunks.lanes, scale.at(lane),
                                       shift.at(lane), mean.at(lane), options.relu, sums + chunk * chunks.lanes,
                                       dots + chunk * chunks.lanes);
  });

  const TensorOptions like_x{.dtype = in.x.dtype(), .layout = in.x.layout()};
  BatchNormGradients gradients{
      .x = Tensor::empty(device, in.x.shape(), like_x),
      .residual = in.residual.defined() ? Tensor::empty(device, in.x.shape(), like_x) : Tensor(),
      .gamma = Tensor::empty(device, {chunks.channels}, {.purpose = MemoryPurpose::workspace}),
      .beta = Tensor::empty(device, {chunks.channels}, {.purpose = MemoryPurpose::workspace})};
  const double values = chunks.values_per_channel();
  for (int64_t c = 0; c < chunks.channels; ++c) {
    double sum = 0, dot = 0;
    chunks.for_each_number(c, [&](int64_t i) {
      sum += sums[i];
      dot += dots[i];
    });
    const double deviation = inverse_deviation[c];
    gradients.beta.data<float>()[c] = static_cast<float>(sum);
    gradients.gamma.data<float>()[c] = static_cast<float>(dot * deviation);
    if (options.constant_statistics) continue;  // dx = scale * g
    // dx = scale * (g - mean(g) - xhat * mean(g * xhat)), with xhat = (x - mean) * deviation.
    *mean_gradient.at(c) = static_cast<float>(sum / values);
    *slope.at(c) = static_cast<float>(-*scale.at(c) * dot * deviation * deviation / values);
  }

  for_each_unit(in.x, chunks.count(), 5 * chunks.elements(), [&](int64_t chunk, Pieces& pieces) {
    const int64_t at = chunks.offset(chunk), count = chunks.elements(), lane = chunks.first_lane(chunk);
    batch_norm_kernels().input_gradient(
        pieces.read(in.x, at, count), pieces.read(y, at, count), pieces.read(incoming, at, count), chunks.positions,
        chunks.lanes, scale.at(lane), shift.at(lane), mean.at(lane), mean_gradient.at(lane), slope.at(lane),
        options.relu, pieces.write(gradients.x, at, count), pieces.write(gradients.residual, at, count));
  });
  return gradients;
}

}  // namespace dptrain::ops::cpu
