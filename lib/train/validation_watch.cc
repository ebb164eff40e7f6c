#include "train/validation_watch.h"

#include <nlohmann/json.hpp>

namespace dptrain::train {

bool ValidationWatch::is_better(const parallel::Score& validation) const {
  return is_better(validation.mean_loss(), validation.accuracy());
}

bool ValidationWatch::is_better(double loss, double accuracy) const {
  if (!best_) return true;
  return settings_.monitor == Monitor::loss ? loss < best_->loss : accuracy > best_->accuracy;
}

void ValidationWatch::take(const std::string& line) {
  const auto epoch = nlohmann::json::parse(line);
  const auto validation = epoch.find("validation");  // earlier versions didn't write it
  if (validation == epoch.end() || !validation->is_object()) return;
  const auto is_number = [](const nlohmann::json& of, const char* key) {
    const auto found = of.find(key);
    return found != of.end() && found->is_number();
  };
  // A line that somebody has changed doesn't count.
  if (!is_number(*validation, "loss") || !is_number(*validation, "accuracy") || !is_number(epoch, "step")) return;
  const double loss = validation->at("loss"), accuracy = validation->at("accuracy");
  if (!is_better(loss, accuracy)) {
    ++evaluations_since_;
    return;
  }
  best_ = {.epoch = epoch.at("epoch"), .step = epoch.at("step"), .loss = loss, .accuracy = accuracy, .line = line};
  evaluations_since_ = 0;
}

ValidationWatch watch_of(const ValidationSettings& settings, const std::vector<std::string>& lines) {
  ValidationWatch watch(settings);
  for (const std::string& line : lines) watch.take(line);
  return watch;
}

}  // namespace dptrain::train
