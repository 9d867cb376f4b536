#include "nic/shm/names.hpp"

namespace penstock::nic::shm {

const char* wc_status_str(ibv_wc_status status) noexcept {
  switch (status) {
    case IBV_WC_SUCCESS:
      return "success";
    case IBV_WC_LOC_LEN_ERR:
      return "local length error";
    case IBV_WC_LOC_QP_OP_ERR:
      return "local QP operation error";
    case IBV_WC_LOC_PROT_ERR:
      return "local protection error";
    case IBV_WC_WR_FLUSH_ERR:
      return "work request flushed";
    case IBV_WC_LOC_ACCESS_ERR:
      return "local access error";
    case IBV_WC_REM_INV_REQ_ERR:
      return "remote invalid request";
    case IBV_WC_REM_ACCESS_ERR:
      return "remote access error";
    case IBV_WC_REM_OP_ERR:
      return "remote operation error";
    case IBV_WC_RETRY_EXC_ERR:
      return "transport retry counter exceeded";
    case IBV_WC_RNR_RETRY_EXC_ERR:
      return "receiver-not-ready retry counter exceeded";
    case IBV_WC_BAD_RESP_ERR:
      return "bad response";
    case IBV_WC_REM_ABORT_ERR:
      return "remote abort";
    case IBV_WC_RESP_TIMEOUT_ERR:
      return "response timeout";
    case IBV_WC_FATAL_ERR:
      return "fatal error";
    case IBV_WC_GENERAL_ERR:
      return "general error";
    default:
      return "unknown status";
  }
}

const char* event_type_str(ibv_event_type type) noexcept {
  switch (type) {
    case IBV_EVENT_CQ_ERR:
      return "CQ error";
    case IBV_EVENT_QP_FATAL:
      return "QP fatal error";
    case IBV_EVENT_QP_ACCESS_ERR:
      return "QP access error";
    case IBV_EVENT_DEVICE_FATAL:
      return "device fatal error";
    case IBV_EVENT_PORT_ERR:
      return "port error";
    case IBV_EVENT_PORT_ACTIVE:
      return "port active";
    case IBV_EVENT_SQ_DRAINED:
      return "send queue drained";
    case IBV_EVENT_SRQ_ERR:
      return "SRQ error";
    case IBV_EVENT_SRQ_LIMIT_REACHED:
      return "SRQ limit reached";
    case IBV_EVENT_QP_LAST_WQE_REACHED:
      return "last receive of the QP reached";
    default:
      return "unknown event";
  }
}

}  // namespace penstock::nic::shm
