// How much memory this process may pin, and which limit decides that. The sizes come from settings,
// the kernel's limits from the kernel; no other code computes them.
#pragma once

#include <cstdint>
#include <string>

#include "lib/base/settings.hpp"
#include "memreg/host_memory.hpp"
#include "memreg/registrar.hpp"

namespace penstock::memreg {

/// What this process may pin, and why.
struct pin_budget {
  std::uint64_t physical = 0;     ///< of the host, or of its control group
  std::uint64_t host_limit = 0;   ///< what the settings allow all processes of the host together
  std::uint64_t memlock = 0;      ///< RLIMIT_MEMLOCK after raising it to its hard limit
  bool memlock_exempt = false;    ///< CAP_IPC_LOCK: the limit does not bind
  bool by_memlock = false;        ///< RLIMIT_MEMLOCK binds, and is the smallest limit
  std::uint64_t per_process = 0;  ///< the smallest of all these limits
  std::string binding;  ///< the limit that is smallest, for messages: "ulimit -l (8.0 MiB)"
  std::string hint;     ///< what the user can raise
};

/// Reads the limits; raises the soft RLIMIT_MEMLOCK to the hard one. The settings' limit is that of
/// all of the job's `processes_on_host` (> 0) together, and each has an equal part of it: nobody
/// has to ask another one, and when one dies, its part is unused. device_pins: the device in
/// use pins what is registered; with one that does not, RLIMIT_MEMLOCK limits nothing. Set-up only.
pin_budget probe_pin_budget(const settings& s, unsigned processes_on_host, bool device_pins = true);

/// The budget with no more than could be registered in a trial (PHYSMEM_PROBE): memory of this
/// process's is registered piece by piece, and given back. It comes within 1 MiB of what the device
/// refuses. Cost: the kernel clears and pins up to per_process bytes.
pin_budget tried(pin_budget b, registrar& with);

}  // namespace penstock::memreg
