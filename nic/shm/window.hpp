// Memory windows: keys that open a part of a region to peers for a while. A window has an entry in
// the tables of regions, so peers see it as a region; only its owner knows the difference.
// Type 1 is bound by ibv_bind_mw, and open to all QPs of its domain. Type 2 is bound by a request
// that names its key, is open to the QP that it was bound on alone, and closed by a request of
// that QP or of its peer (SEND with invalidate).
#pragma once

#include <infiniband/verbs.h>

#include <cstdint>

namespace penstock::nic::shm {

struct memory_region;
struct queue_pair;
struct send_work;

struct memory_window : ibv_mw {
  memory_region* region = nullptr;  ///< that it is bound to, or null; under context::windows
};

/// What a request to bind says, in the fields of a send_work.
struct window_request {
  memory_window* window;
  memory_region* region;
  std::uint64_t address, bytes;
  std::uint32_t key, access;
};
void store_window_request(send_work& w, const ibv_send_wr& wr) noexcept;
window_request window_request_of(const send_work& w) noexcept;

/// Carries out a request to bind, under `sending`. IBV_WC_SUCCESS or IBV_WC_MW_BIND_ERR.
ibv_wc_status bind_window(queue_pair& qp, const send_work& w) noexcept;
/// Closes a window of type 2 that is bound on this QP. When this returns, no peer touches its
/// memory. Under `sending`. IBV_WC_SUCCESS or IBV_WC_MW_BIND_ERR.
ibv_wc_status close_window(queue_pair& qp, std::uint32_t rkey) noexcept;
/// The same on behalf of the peer, whose accesses are over. False: there is no such window.
bool close_window_for_peer(queue_pair& qp, std::uint32_t rkey) noexcept;

ibv_mw* alloc_mw(ibv_pd*, ibv_mw_type);
int dealloc_mw(ibv_mw*) noexcept;
/// Binds a window of type 1. Its former binding is closed at once; with 0 bytes it gets no new one.
int bind_mw(ibv_qp*, ibv_mw*, ibv_mw_bind*) noexcept;

}  // namespace penstock::nic::shm
