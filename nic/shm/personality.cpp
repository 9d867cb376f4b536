// The personalities and limits that exist, and their parsing.
#include "nic/shm/personality.hpp"

#include <algorithm>

#include "nic/shm/words.hpp"

namespace penstock::nic::shm {
namespace {

struct limit_row {
  const char* name;
  std::uint32_t device_limits::*member;
  std::uint32_t least;
};

constexpr device_limits full_limits;

constexpr limit_row limit_rows[] = {
    {"qp", &device_limits::qp, 1},   {"qp_wr", &device_limits::qp_wr, 1},
    {"cq", &device_limits::cq, 1},   {"cqe", &device_limits::cqe, 1},
    {"sge", &device_limits::sge, 1}, {"inline", &device_limits::inline_bytes, 0},
    {"srq", &device_limits::srq, 0}, {"srq_wr", &device_limits::srq_wr, 0},
    {"mr", &device_limits::mr, 1},   {"reads", &device_limits::reads, 0},
};

struct number_row {
  const char* name;
  std::uint32_t personality::*member;
  std::uint32_t most;
};

constexpr number_row number_rows[] = {
    {"part", &personality::part, UINT32_MAX},
    {"receive_wait_ms", &personality::receive_wait_ms, 60'000},
};

struct choice_row {
  const char *name, *value;
  void (*put_on)(personality&);
};

constexpr choice_row choice_rows[] = {
    {"link", "ib", [](personality& p) { p.has_lids = true; }},
    {"link", "ethernet", [](personality& p) { p.has_lids = false; }},
    {"atomic", "hca", [](personality& p) { p.adapter_atomics = true; }},
    {"atomic", "glob", [](personality& p) { p.adapter_atomics = false; }},
    {"armed", "left", [](personality& p) { p.armed = arming::left; }},
    {"armed", "held", [](personality& p) { p.armed = arming::held; }},
    {"armed", "later", [](personality& p) { p.armed = arming::later; }},
};

struct preset {
  const char* name;
  void (*put_on)(personality&);
};

template <std::uint32_t Entries>
void short_queues(personality& p) {
  p.limits.qp_wr = p.limits.srq_wr = p.limits.cqe = Entries;
}

constexpr preset presets[] = {
    {"plain", [](personality& p) { p = {}; }},
    {"small",
     [](personality& p) {
       p.limits = full_limits;
       p.limits.inline_bytes = 0;
       p.limits.sge = 1;
       p.limits.srq_wr = 16;
       p.limits.cqe = 32;
       p.limits.qp_wr = 16;
       p.limits.qp = 64;
     }},
    {"entries_16383", short_queues<16383>},
    {"entries_32767", short_queues<32767>},
    {"rxe",
     [](personality& p) {
       p.limits.inline_bytes = 512;
       p.limits.cqe = 32767;
     }},
    {"no_inline", [](personality& p) { p.limits.inline_bytes = 0; }},
    {"one_sge", [](personality& p) { p.limits.sge = 1; }},
    {"no_srq", [](personality& p) { p.limits.srq = p.limits.srq_wr = 0; }},
    {"no_resize", [](personality& p) { p.resizes = false; }},
    {"overrun", [](personality& p) { p.overruns = true; }},
};

std::string choices() {
  std::string all;
  for (const choice_row& r : choice_rows) all += std::string(", ") + r.name + "=" + r.value;
  return all;
}

failure no_such_personality(std::string_view name) {
  return {"PENSTOCK_SHM_PERSONALITY: there is no \"" + std::string(name) + "\"", 0,
          "there are " + names_of(presets) + choices() + ", " + names_of(number_rows) +
              " as in part=4115, and the limits " + names_of(limit_rows) + " as in qp=64"};
}

/// The value of a word, if it is a number within these bounds.
result<std::uint32_t> number_of(const word& w, std::uint32_t least, std::uint32_t most) {
  std::uint32_t n = 0;
  std::string_view digits = w.value;
  if (take_number(digits, n) && digits.empty() && n >= least && n <= most) return n;
  return failure{"PENSTOCK_SHM_PERSONALITY: " + std::string(w.name) + "=" + std::string(w.value) +
                     " is not a number from " + std::to_string(least) + " to " +
                     std::to_string(most),
                 0, ""};
}

}  // namespace

result<personality> parse_personality(std::string_view text) {
  personality p;
  for (std::string_view rest = text; !rest.empty();) {
    const word w = next_word(rest);
    if (!w.has_value) {
      const auto* at = std::ranges::find(presets, w.name, &preset::name);
      if (at == std::end(presets)) return no_such_personality(w.name);
      at->put_on(p);
      continue;
    }
    const auto* choice = std::ranges::find_if(
        choice_rows, [&](const choice_row& r) { return r.name == w.name && r.value == w.value; });
    if (choice != std::end(choice_rows)) {
      choice->put_on(p);
      continue;
    }
    const auto* at = std::ranges::find(limit_rows, w.name, &limit_row::name);
    const auto* number = std::ranges::find(number_rows, w.name, &number_row::name);
    const bool limit = at != std::end(limit_rows);
    if (!limit && number == std::end(number_rows)) return no_such_personality(w.name);
    const result<std::uint32_t> n =
        limit ? number_of(w, at->least, full_limits.*at->member) : number_of(w, 0, number->most);
    if (!n) return n.error();
    (limit ? p.limits.*at->member : p.*number->member) = *n;
  }
  if (text != "plain") p.text = text;
  return p;
}

}  // namespace penstock::nic::shm
