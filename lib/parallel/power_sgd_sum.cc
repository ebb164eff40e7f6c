#include "parallel/power_sgd_sum.h"

#include <algorithm>
#include <utility>

#include "ops/linear.h"
#include "ops/power_iteration.h"
#include "ops/reorder.h"
#include "ops/residual.h"
#include "parallel/comm_buffer.h"

namespace dptrain::parallel {
namespace {

constexpr TensorOptions kExchanged = {.purpose = MemoryPurpose::communication};

/// Writes a matrix to a tensor of any shape and layout.
void write_matrix(const Tensor& matrix, const Tensor& to) { ops::reorder_into(matrix.reshaped(to.shape()), to); }

Tensor plain_matrix(const Tensor& tensor) {
  const int64_t rows = tensor.shape()[0];
  return ops::reorder(tensor, Layout::plain, MemoryPurpose::workspace).reshaped({rows, tensor.elements() / rows});
}

/// Windows of a flat tensor, one after the other.
class Cuts {
 public:
  explicit Cuts(const Tensor& flat) : flat_(flat) {}
  /// The next one, like this tensor.
  Tensor like(const Tensor& tensor) {
    const Tensor window = flat_.window(at_, tensor.shape(), tensor.layout());
    at_ += tensor.storage_elements();
    return window;
  }

 private:
  const Tensor& flat_;
  int64_t at_ = 0;
};

}  // namespace

FactoredShape FactoredShape::of(const Shape& shape, int rank) {
  const int64_t rows = shape[0], columns = shape.elements() / rows;
  return {.rows = rows, .columns = columns, .rank = std::min<int64_t>(rank, std::min(rows, columns))};
}

bool is_factored(const Shape& shape, int rank) {
  if (shape.rank() < 2) return false;
  const auto [rows, columns, columns_of_factors] = FactoredShape::of(shape, rank);
  return 2 * columns_of_factors * (rows + columns) <= rows * columns;
}

PowerSgdSum::PowerSgdSum(Communicator& communicator, Options options)
    : communicator_(communicator), options_(std::move(options)) {
  int64_t first = 0, second = 0;
  Device& device = options_.matrices.empty() ? options_.whole[0].device() : options_.matrices[0].gradient.device();
  for (const Matrix& matrix : options_.matrices) {
    const int64_t rank = matrix.directions.shape()[0];
    bases_.push_back(Tensor::empty(device, {matrix.gradient.shape()[0], rank}, kExchanged));
    found_.push_back(Tensor::empty(device, matrix.directions.shape(), kExchanged));
    first += bases_.back().elements();
    second += found_.back().elements();
  }
  for (const Tensor& whole : options_.whole) first += whole.storage_elements();
  first_ = Tensor::empty(device, {first}, kExchanged);
  second_ = Tensor::empty(device, {second}, kExchanged);
}

void PowerSgdSum::start() {
  Cuts cuts(first_);
  for (const Matrix& matrix : options_.matrices) {
    ops::take_up_residual(matrix.residual, matrix.gradient, options_.loss_factor);
    const Tensor basis = ops::linear_forward(plain_matrix(matrix.residual), matrix.directions, {});
    cuts.like(basis).copy_from(basis);
  }
  for (const Tensor& whole : options_.whole) cuts.like(whole).copy_from(whole);
  first_exchange_ = communicator_.start_all_reduce(comm_buffer(first_));
}

void PowerSgdSum::go_on() {
  if (first_exchange_ == nullptr) return;
  first_exchange_->wait();
  first_exchange_.reset();
  Cuts sums(first_), next(second_);
  for (size_t m = 0; m < options_.matrices.size(); ++m) {
    bases_[m].copy_from(sums.like(bases_[m]));
    ops::orthogonalize_columns(bases_[m]);
    find_directions(options_.matrices[m], m);
    next.like(found_[m]).copy_from(found_[m]);
  }
  for (const Tensor& whole : options_.whole) whole.copy_from(sums.like(whole));
  if (second_.elements() > 0) second_exchange_ = communicator_.start_all_reduce(comm_buffer(second_));
}

void PowerSgdSum::find_directions(const Matrix& matrix, size_t number) {
  ops::linear_backward_weights(plain_matrix(matrix.residual), bases_[number], {.weight = found_[number], .bias = {}});
  // This rank's part of the sum is what it has sent.
  write_matrix(ops::linear_backward_data(found_[number], bases_[number]), matrix.gradient);
  ops::leave_residual(matrix.residual, matrix.gradient, options_.loss_factor);
}

void PowerSgdSum::finish() {
  go_on();
  if (second_exchange_ == nullptr) return;
  second_exchange_->wait();
  second_exchange_.reset();
  Cuts sums(second_);
  for (size_t m = 0; m < options_.matrices.size(); ++m) {
    const Matrix& matrix = options_.matrices[m];
    found_[m].copy_from(sums.like(found_[m]));
    ops::renew_directions(matrix.directions, found_[m]);
    write_matrix(ops::linear_backward_data(found_[m], bases_[m]), matrix.gradient);
  }
}

}  // namespace dptrain::parallel
