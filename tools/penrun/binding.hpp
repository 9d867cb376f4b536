// Which processors each process of a host may use.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "lib/base/result.hpp"

namespace penrun {

/// The host's cores, hardware threads, NUMA nodes or sockets that this process may use, as hwloc
/// finds them. Made before the processes are started; each binds itself.
class binding {
 public:
  binding();
  ~binding();
  binding(const binding&) = delete;
  binding& operator=(const binding&) = delete;

  /// to: core, hwthread, numa, socket, or none. Cost: tens of milliseconds, once.
  penstock::result<void> prepare(const std::string& to);
  /// Binds the calling process to the i-th of them, modulo their number; does nothing for none.
  void bind(std::uint32_t i) const;

 private:
  struct parts;
  std::unique_ptr<parts> parts_;
};

}  // namespace penrun
