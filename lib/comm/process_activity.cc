#include "comm/process_activity.h"

#include <utility>

namespace dptrain {
namespace {

/// The calling thread's place. It is global because waits begin deep within calls that know nothing of their process.
thread_local ProcessActivity::Thread* own_place = nullptr;

void enter(ProcessActivity::State state) {
  if (own_place == nullptr) return;
  // Count first, so that a thread that sees the new state also sees the change.
  ++*own_place->changes;
  own_place->state = state;
}

}  // namespace

ProcessActivity::Thread& ProcessActivity::add(const std::string& name) {
  const std::lock_guard lock(mutex_);
  Thread& thread = threads_.emplace_back();
  thread.name = name;
  thread.changes = &changes_;
  return thread;
}

ProcessActivity::Thread& ProcessActivity::add_service(const std::string& name) {
  const std::lock_guard lock(mutex_);
  Thread& thread = services_.emplace_back();
  thread.name = name;
  thread.changes = &thread.own_changes;
  return thread;
}

std::vector<ProcessActivity::Service> ProcessActivity::services() {
  const std::lock_guard lock(mutex_);
  std::vector<Service> services;
  for (const Thread& thread : services_)
    services.push_back(
        {.name = thread.name, .changes = thread.own_changes, .is_at_work = thread.state == State::at_work});
  return services;
}

ProcessActivity::AtWork ProcessActivity::at_work() {
  const std::lock_guard lock(mutex_);
  AtWork found;
  bool others_wait = false, trainer_works = false;
  for (const Thread& thread : threads_) {
    const State state = thread.state;
    if (thread.name.empty())
      trainer_works |= state == State::at_work;
    else if (state == State::at_work) {
      found.ranks.push_back(thread.name);
      if (const int64_t step = thread.step; step > 0 && (found.step == 0 || step < found.step)) found.step = step;
    } else
      others_wait |= state == State::waiting;
  }
  found.any = !found.ranks.empty() || (trainer_works && !others_wait);
  return found;
}

ActivePlace::ActivePlace(ProcessActivity::Thread* place, int64_t step) : before_(std::exchange(own_place, place)) {
  if (place != nullptr) place->step = step;
  enter(ProcessActivity::State::at_work);
}

ActivePlace::~ActivePlace() {
  enter(ProcessActivity::State::idle);
  own_place = before_;
}

WaitForOthers::WaitForOthers() { enter(ProcessActivity::State::waiting); }
WaitForOthers::~WaitForOthers() { enter(ProcessActivity::State::at_work); }

void note_progress() {
  if (own_place != nullptr) ++*own_place->changes;
}

}  // namespace dptrain
