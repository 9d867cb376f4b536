// The table of documented differences, and the row of the device in use.
#include "test/conformance/differences.hpp"

#include "test/conformance/rig.hpp"

namespace penstock::conformance {
namespace {

constexpr differences specification{
    .name = "the specification",
};

constexpr differences shared_memory = [] {
  differences d = specification;
  d.name = "the specification, with shm0's differences";
  d.receives_overrun = false;
  d.death_is_noticed = true;
  return d;
}();

constexpr differences over_tcp = [] {
  differences d = specification;
  d.name = "the specification, with tcp0's differences";
  d.death_is_noticed = true;
  return d;
}();

constexpr differences soft_roce = [] {
  differences d = specification;
  d.name = "the specification, with soft-RoCE's differences";
  d.short_receive = IBV_WC_LOC_QP_OP_ERR;
  d.short_receive_sender = IBV_WC_REM_OP_ERR;
  d.bad_lkey = IBV_WC_LOC_QP_OP_ERR;
  d.bad_receive_memory = IBV_WC_LOC_QP_OP_ERR;
  d.late_receive_flushed = false;
  d.last_wqe_event = false;
  d.breach_event = -1;
  d.long_datagram = IBV_WC_SUCCESS;
  return d;
}();

const differences* chosen = &specification;

}  // namespace

std::string learn_device() {
  const node n;
  chosen = n.dev.shared_memory                    ? &shared_memory
           : n.dev.name.compare(0, 3, "rxe") == 0 ? &soft_roce
           : n.dev.name == "tcp0"                 ? &over_tcp
                                                  : &specification;
  // Every later opening takes the same device, whatever "auto" would find then.
  set_device_name(n.dev.name);
  return n.dev.reason;
}

const differences& here() { return *chosen; }

}  // namespace penstock::conformance
