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

/// Shape of P: one row per row of the matrix, one column per direction.
Shape basis_shape(const PowerSgdSum::Matrix& matrix) {
  return {matrix.gradient.shape()[0], matrix.directions.shape()[0]};
}

/// The next elements of a flat tensor, in the given shape, from `at` on. Moves `at` behind them.
Tensor cut(const Tensor& flat, int64_t& at, const Shape& shape, Layout layout, int64_t elements) {
  const Tensor window = flat.window(at, shape, layout);
  at += elements;
  return window;
}

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
    first += basis_shape(matrix).elements();
    second += matrix.directions.elements();
    directions_.push_back(matrix.directions);
  }
  for (const Tensor& whole : options_.whole) first += whole.storage_elements();
  first_ = Tensor::empty(device, {first}, kExchanged);
  second_ = Tensor::empty(device, {second}, kExchanged);
  first = second = 0;
  for (const Matrix& matrix : options_.matrices) {
    const Shape basis = basis_shape(matrix), found = matrix.directions.shape();
    bases_.push_back(cut(first_, first, basis, Layout::plain, basis.elements()));
    found_.push_back(cut(second_, second, found, Layout::plain, found.elements()));
  }
  for (const Tensor& whole : options_.whole)
    wholes_.push_back(cut(first_, first, whole.shape(), whole.layout(), whole.storage_elements()));
}

void PowerSgdSum::start() {
  for (size_t m = 0; m < options_.matrices.size(); ++m) {
    const Matrix& matrix = options_.matrices[m];
    ops::take_up_residual(matrix.residual, matrix.gradient, options_.loss_factor);
    bases_[m].copy_from(ops::linear_forward(plain_matrix(matrix.residual), matrix.directions, {}));
  }
  for (size_t w = 0; w < wholes_.size(); ++w) wholes_[w].copy_from(options_.whole[w]);
  first_exchange_ = communicator_.start_all_reduce(comm_buffer(first_));
}

void PowerSgdSum::go_on() {
  if (first_exchange_ == nullptr) return;
  first_exchange_->wait();
  first_exchange_.reset();
  ops::orthogonalize_columns(bases_);
  for (size_t m = 0; m < options_.matrices.size(); ++m) find_directions(options_.matrices[m], m);
  for (size_t w = 0; w < wholes_.size(); ++w) options_.whole[w].copy_from(wholes_[w]);
  if (second_.elements() > 0) second_exchange_ = communicator_.start_all_reduce(comm_buffer(second_));
}

void PowerSgdSum::find_directions(const Matrix& matrix, size_t number) {
  ops::linear_backward_weights(plain_matrix(matrix.residual), bases_[number], {.weight = found_[number], .bias = {}});
  // This rank's share of the sum is the product that it has sent.
  write_matrix(ops::linear_backward_data(found_[number], bases_[number]), matrix.gradient);
  ops::leave_residual(matrix.residual, matrix.gradient, options_.loss_factor);
}

void PowerSgdSum::finish() {
  go_on();
  if (second_exchange_ == nullptr) return;
  second_exchange_->wait();
  second_exchange_.reset();
  ops::renew_directions(directions_, found_);
  for (size_t m = 0; m < options_.matrices.size(); ++m)
    write_matrix(ops::linear_backward_data(found_[m], bases_[m]), options_.matrices[m].gradient);
}

}  // namespace dptrain::parallel
