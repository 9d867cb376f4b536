// Where a process that can be watched is found: the name of its abstract socket, which the engine's
// reporter listens at, and pentop looks for in /proc/net/unix. A client says one word, and reads
// the answer until the socket is closed.
#pragma once

namespace penstock {

/// Before USER/JOB/RANK/ENDPOINT: numbers, but for the job's public name.
inline constexpr const char* counters_socket = "penstock-counters/";
/// Answered by one JSON object on a line (lib/conduit/report/text.hpp).
inline constexpr const char* ask_for_counters = "counters";
/// Answered by how often the process has polled, as a number.
inline constexpr const char* ask_for_polls = "polls";

}  // namespace penstock
