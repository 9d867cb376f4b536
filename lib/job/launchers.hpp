// The four ways to join a job. This folder's files include it; job.hpp has what they share.
#pragma once

#include <memory>

#include "lib/job/job.hpp"

namespace penstock::job {

/// A job of size 1, without a launcher.
std::unique_ptr<job> join_alone();
/// The job of the penrun that set settings::launch.
result<std::unique_ptr<job>> join_penrun(const settings& s);
/// The job of the PMIx launcher that set settings::pmix.
result<std::unique_ptr<job>> join_pmix(const settings& s);
/// The job of the launcher that set settings::pmi_fd or pmi_port.
result<std::unique_ptr<job>> join_pmi(const settings& s);

/// The failure of a collective that is called after begin_fence() while the fence is not over.
failure fence_given_up();

}  // namespace penstock::job
