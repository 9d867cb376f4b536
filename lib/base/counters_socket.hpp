// The name of the abstract socket of a process that can be watched: the engine's reporter listens
// there, and pentop looks for it in /proc/net/unix. A client sends one word, and reads the answer
// until the socket is closed.
#pragma once

namespace penstock {

/// The name begins so; USER/JOB/RANK/ENDPOINT follow, which are numbers, but for the job's public
/// name.
inline constexpr const char* counters_socket = "penstock-counters/";
/// The answer is one JSON object on a line (lib/conduit/report/text.hpp).
inline constexpr const char* ask_for_counters = "counters";
/// The answer is the number of times that the process has polled.
inline constexpr const char* ask_for_polls = "polls";

}  // namespace penstock
