#pragma once

#include <string>
#include <vector>

#include "parallel/injected_fault.h"

namespace dptrain::train {

/// Parses a fault in the form of `--fault`: "kill:rank=1,step=37". Throws 64.
parallel::InjectedFault read_fault(const std::string& text);

/// The inverse of read_fault, with defaults written out.
std::string fault_text(const parallel::InjectedFault& fault);
std::vector<std::string> fault_texts(const std::vector<parallel::InjectedFault>& faults);

/// A sentence about the fault: "rank 1 (cpu:1) is killed before step 37".
std::string fault_sentence(const parallel::InjectedFault& fault, const std::string& rank_name);

/// Throws 64 if a fault's rank is none of `ranks` ranks, or if a rank hangs or stops forever while no other rank waits
/// for it.
void require_ranks(const std::vector<parallel::InjectedFault>& faults, size_t ranks, bool is_job);

}  // namespace dptrain::train
