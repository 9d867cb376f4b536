// Reading PENSTOCK_SHM_FAULT.
#include "nic/shm/fault_plan.hpp"

#include <infiniband/verbs.h>

#include <algorithm>
#include <cerrno>

#include "nic/shm/words.hpp"

namespace penstock::nic::shm {
namespace {

struct named_code {
  const char* name;
  int value;
};

constexpr named_code errnos[] = {
    {"EPERM", EPERM},   {"EINTR", EINTR},           {"EIO", EIO},
    {"EAGAIN", EAGAIN}, {"ENOMEM", ENOMEM},         {"EACCES", EACCES},
    {"EFAULT", EFAULT}, {"EBUSY", EBUSY},           {"ENODEV", ENODEV},
    {"EINVAL", EINVAL}, {"EMFILE", EMFILE},         {"ENOSPC", ENOSPC},
    {"ENOSYS", ENOSYS}, {"EOPNOTSUPP", EOPNOTSUPP}, {"ETIMEDOUT", ETIMEDOUT},
};

constexpr named_code statuses[] = {
    {"LOC_LEN_ERR", IBV_WC_LOC_LEN_ERR},
    {"LOC_QP_OP_ERR", IBV_WC_LOC_QP_OP_ERR},
    {"LOC_PROT_ERR", IBV_WC_LOC_PROT_ERR},
    {"WR_FLUSH_ERR", IBV_WC_WR_FLUSH_ERR},
    {"BAD_RESP_ERR", IBV_WC_BAD_RESP_ERR},
    {"LOC_ACCESS_ERR", IBV_WC_LOC_ACCESS_ERR},
    {"REM_INV_REQ_ERR", IBV_WC_REM_INV_REQ_ERR},
    {"REM_ACCESS_ERR", IBV_WC_REM_ACCESS_ERR},
    {"REM_OP_ERR", IBV_WC_REM_OP_ERR},
    {"RETRY_EXC_ERR", IBV_WC_RETRY_EXC_ERR},
    {"RNR_RETRY_EXC_ERR", IBV_WC_RNR_RETRY_EXC_ERR},
    {"REM_ABORT_ERR", IBV_WC_REM_ABORT_ERR},
    {"FATAL_ERR", IBV_WC_FATAL_ERR},
    {"RESP_TIMEOUT_ERR", IBV_WC_RESP_TIMEOUT_ERR},
    {"GENERAL_ERR", IBV_WC_GENERAL_ERR},
};

// In the order of `verb`.
constexpr const char* verb_names[] = {
    "alloc_pd",  "reg_mr",    "create_comp_channel", "create_cq",    "create_srq",
    "create_qp", "create_ah", "modify_qp",           "query_device", "query_port",
    "post_send", "post_recv", "post_srq_recv",       "poll_cq",      "req_notify_cq"};
static_assert(std::size(verb_names) == static_cast<std::size_t>(verb::count));

/// "K:CODE".
template <class Codes>
std::string read_value(std::string_view v, fault_plan::nth& to, const Codes& codes) {
  std::string_view number = cut(v, ':');
  const auto* at = std::ranges::find(codes, v, &named_code::name);
  if (!take_number(number, to.k) || !number.empty() || to.k == 0 || at == std::end(codes))
    return "is not COUNT:CODE with a code of " + names_of(codes);
  to.code = at->value;
  return {};
}

/// A number and a unit, in nanoseconds.
bool take_time(std::string_view v, std::uint64_t& ns) {
  struct unit {
    const char* name;
    double ns;
  };
  constexpr unit units[] = {{"ns", 1}, {"us", 1e3}, {"ms", 1e6}, {"s", 1e9}};
  double n = 0;
  if (!take_number(v, n) || n < 0 || n > 1e9) return false;
  const auto* at = std::ranges::find(units, v, &unit::name);
  if (at == std::end(units)) return false;
  ns = static_cast<std::uint64_t>(n * at->ns);
  return true;
}

std::string read_value(std::string_view v, std::uint64_t& ns) {
  return take_time(v, ns) ? "" : "is not a time as in 5us (ns, us, ms, s)";
}

/// A number of sends, or a time.
std::string read_value(std::string_view v, fault_plan::moment& to) {
  std::string_view number = v;
  to = {};
  if (take_number(number, to.sends) && number.empty() && to.sends != 0) return {};
  to = {};
  if (take_time(v, to.ns) && to.ns != 0) return {};
  return "is neither a count of sends nor a time as in 200ms";
}

std::string read_share(std::string_view v, double& to) {
  double n = 0;
  if (!take_number(v, n) || v != "%" || n < 0 || n > 100) return "is not a share as in 5%";
  to = n / 100;
  return {};
}

std::string read_rate(std::string_view v, double& ns_per_byte) {
  double gbit = 0;
  if (!take_number(v, gbit) || v != "Gbit" || gbit < 1e-6) return "is not a rate as in 100Gbit";
  ns_per_byte = 8 / gbit;
  return {};
}

struct fault_row {
  const char* name;
  std::string (*take)(fault_plan&, std::string_view);
};

constexpr fault_row fault_rows[] = {
    {"send", [](fault_plan& p, std::string_view v) { return read_value(v, p.send, statuses); }},
    {"receive",
     [](fault_plan& p, std::string_view v) { return read_value(v, p.receive, statuses); }},
    {"gone", [](fault_plan& p, std::string_view v) { return read_value(v, p.gone); }},
    {"port_down",
     [](fault_plan& p, std::string_view v) {
       const std::string problem = read_value(cut(v, ':'), p.port_down);
       return !problem.empty() || v.empty() ? problem : read_value(v, p.port_down_ns);
     }},
    {"lost", [](fault_plan& p, std::string_view v) { return read_share(v, p.lost); }},
    {"doubled", [](fault_plan& p, std::string_view v) { return read_share(v, p.doubled); }},
    {"overtaken", [](fault_plan& p, std::string_view v) { return read_share(v, p.overtaken); }},
    {"rnr", [](fault_plan& p, std::string_view v) { return read_value(v, p.rnr_ns); }},
    {"delay", [](fault_plan& p, std::string_view v) { return read_value(v, p.delay_ns); }},
    {"rate", [](fault_plan& p, std::string_view v) { return read_rate(v, p.ns_per_byte); }},
    {"seed",
     [](fault_plan& p, std::string_view v) {
       return std::string(take_number(v, p.seed) && v.empty() ? "" : "is not a number");
     }},
};

failure about(const word& w, const std::string& problem, std::string hint = {}) {
  return {"PENSTOCK_SHM_FAULT: " + std::string(w.name) + (w.has_value ? "=" : "") +
              std::string(w.value) + " " + problem,
          0, std::move(hint)};
}

}  // namespace

result<fault_plan> parse_faults(std::string_view text) {
  fault_plan p;
  if (text == "none") return p;
  for (std::string_view rest = text; !rest.empty();) {
    const word w = next_word(rest);
    if (w.name == "any_order" && !w.has_value) {
      p.any_order = true;
      continue;
    }
    std::string problem;
    const auto* const call = std::ranges::find(verb_names, w.name);
    const auto* const at = std::ranges::find(fault_rows, w.name, &fault_row::name);
    if (call != std::end(verb_names))
      problem = read_value(w.value, p.calls[static_cast<std::size_t>(call - verb_names)], errnos);
    else if (at != std::end(fault_rows))
      problem = at->take(p, w.value);
    else {
      std::string all = "there are any_order, " + names_of(fault_rows) + ", and the calls";
      for (const char* v : verb_names) all += std::string(v == verb_names[0] ? " " : ", ") + v;
      return about(w, "is none of the faults", all + " as in reg_mr=3:ENOMEM");
    }
    if (!problem.empty()) return about(w, problem);
  }
  p.text = text;
  return p;
}

}  // namespace penstock::nic::shm
