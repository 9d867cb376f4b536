// What gasnet_init tells the tools: where the job's environment is, and whether this process is the
// one that speaks. Programs that use the tools alone never call these.
#pragma once

namespace penstock::gasnet {

/// Looks a name up in the environment of the job; null if it is not set there.
using environment_lookup = char* (*)(const char* key);

/// Makes gasnett_getenv ask lookup first. Once, before threads start.
void set_job_environment(environment_lookup lookup) noexcept;

/// False silences the display of settings in this process (every rank but 0).
void set_speaker(bool speaks) noexcept;

}  // namespace penstock::gasnet
