// The four ways to join a job. This folder's files include it; job.hpp has what they share.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

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

/// A job has at most this many processes; a larger number is a launcher's mistake.
inline constexpr std::uint32_t most_ranks = 1u << 24;
/// Fails unless a process can have that place in a job; protocol: by which the launcher has told.
result<void> check_place(const char* protocol, std::uint32_t rank, std::uint32_t size);
/// The job's name, of those bytes from rank 0; fails unless random_name() has made it.
result<std::string> name_from(std::span<const std::byte> bytes);

/// The failure of a collective that is called after begin_fence() while the fence is not over.
failure fence_given_up();

}  // namespace penstock::job
