#pragma once

#include <string>
#include <vector>

#include "parallel/injected_fault.h"

namespace dptrain::train {

/// A fault as `--fault` has it: "kill:rank=1,step=37". Throws 64.
parallel::InjectedFault read_fault(const std::string& text);

/// The same the other way, with what stands there by default.
std::string fault_text(const parallel::InjectedFault& fault);
std::vector<std::string> fault_texts(const std::vector<parallel::InjectedFault>& faults);

/// What it comes to: "rank 1 (cpu:1) is killed before step 37".
std::string fault_sentence(const parallel::InjectedFault& fault, const std::string& rank_name);

/// Throws 64 where a fault is of none of so many ranks, or one hangs, or stops for ever, that nobody waits for.
void require_ranks(const std::vector<parallel::InjectedFault>& faults, size_t ranks, bool is_job);

}  // namespace dptrain::train
