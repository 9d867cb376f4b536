// The four ways to be in a job. Included by job.cpp only; what they share is job.hpp.
#pragma once

#include <memory>

#include "lib/job/job.hpp"

namespace penstock::job {

/// A job of size 1, with nobody to tell.
std::unique_ptr<job> join_alone();
/// The job of the penrun that set settings::launch.
result<std::unique_ptr<job>> join_penrun(const settings& s);
/// The job of the PMIx launcher that set settings::pmix.
result<std::unique_ptr<job>> join_pmix(const settings& s);
/// The job of the launcher that set settings::pmi_fd or pmi_port.
result<std::unique_ptr<job>> join_pmi(const settings& s);

/// What a collective answers after begin_fence() while the fence is not over.
failure fence_given_up();

}  // namespace penstock::job
