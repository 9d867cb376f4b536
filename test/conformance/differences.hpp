// Known differences between devices, each an expectation that a test checks. The first column is
// the specification and what InfiniBand hardware does; README.md explains every row.
#pragma once

#include <infiniband/verbs.h>

#include <string>

namespace penstock::conformance {

struct differences {
  const char* name;
  ibv_wc_status short_receive = IBV_WC_LOC_LEN_ERR;
  ibv_wc_status short_receive_sender = IBV_WC_REM_INV_REQ_ERR;
  ibv_wc_status bad_lkey = IBV_WC_LOC_PROT_ERR;
  ibv_wc_status bad_receive_memory = IBV_WC_LOC_PROT_ERR;
  ibv_wc_status bad_receive_memory_sender = IBV_WC_REM_OP_ERR;
  bool late_receive_flushed = true;  ///< a receive posted in ERR completes without further ado
  bool receives_overrun = true;      ///< a CQ full of receive completions overruns
  bool last_wqe_event = true;        ///< LAST_WQE_REACHED comes for a queue pair on an SRQ
  bool death_is_noticed = false;     ///< QP_FATAL comes when the peer's process dies
  int breach_event = IBV_EVENT_QP_ACCESS_ERR;        ///< at the target of a wrong rkey; -1: none
  ibv_wc_status long_datagram = IBV_WC_LOC_LEN_ERR;  ///< of a datagram above the MTU
};

/// Opens the device once to see what it is, closes it, and says why it was chosen. Throws when
/// there is none. Before any test runs.
std::string learn_device();
/// The expectations for the device under test.
const differences& here();

}  // namespace penstock::conformance
