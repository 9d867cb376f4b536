#include "nic/shm/traits.hpp"

#include <algorithm>
#include <string>

#include "nic/shm/identity.hpp"
#include "nic/shm/words.hpp"

namespace penstock::nic::shm {
namespace {

// Width 1 is one lane, 2 four of them; the speeds are a lane's.
constexpr link_rate rates[] = {
    {10, 2, 1, "10 Gb/sec (4X SDR)"},    {20, 2, 2, "20 Gb/sec (4X DDR)"},
    {25, 1, 32, "25 Gb/sec (1X EDR)"},   {40, 2, 4, "40 Gb/sec (4X QDR)"},
    {50, 1, 64, "50 Gb/sec (1X HDR)"},   {56, 2, 16, "56 Gb/sec (4X FDR)"},
    {100, 2, 32, "100 Gb/sec (4X EDR)"}, {200, 2, 64, "200 Gb/sec (4X HDR)"},
    {400, 2, 128, "400 Gb/sec (4X NDR)"}};

const link_rate* rate_of(std::uint32_t gbit) noexcept {
  const auto* at = std::ranges::find(rates, gbit, &link_rate::gbit);
  return at != std::end(rates) ? at : nullptr;
}

constexpr int most_nodes = 1024;

/// One device's part of the text. False: it is none.
bool read(std::string_view part, device_traits& d) noexcept {
  if (part.empty()) return false;
  while (!part.empty()) {
    std::string_view value = cut(part, ':');
    const std::string_view name = cut(value, '=');
    std::uint32_t n = 0;
    if (!take_number(value, n) || !value.empty()) return false;
    if (name == "numa" && n < most_nodes)
      d.numa_node = static_cast<int>(n);
    else if (name != "rate" || (d.rate = rate_of(n)) == nullptr)
      return false;
  }
  return true;
}

}  // namespace

result<std::vector<device_traits>> parse_devices(std::string_view text) {
  const device_traits usual{-1, rate_of(100)};
  std::uint32_t count = 1;
  std::string_view rest = text;
  if (text.empty() ||
      (take_number(rest, count) && rest.empty() && count >= 1 && count <= most_devices))
    return std::vector<device_traits>(count, usual);
  std::vector<device_traits> all;
  rest = text;
  while (!rest.empty() && !text.ends_with(',') && all.size() < most_devices) {
    all.push_back(usual);
    if (!read(cut(rest, ','), all.back())) break;
    if (rest.empty()) return all;
  }
  std::string gbits;
  for (const link_rate& r : rates) gbits += (gbits.empty() ? "" : ", ") + std::to_string(r.gbit);
  return failure{"the devices \"" + std::string(text) + "\" are neither a number from 1 to " +
                     std::to_string(most_devices) + " nor a list of up to so many",
                 0,
                 "for each device of a list write numa=NODE, rate=GBIT (" + gbits +
                     ") or both, as in numa=0:rate=200,numa=1"};
}

}  // namespace penstock::nic::shm
