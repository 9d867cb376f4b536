// The rules by which a GID is chosen, and the texts that say so.
#include "nic/choice.hpp"

#include <arpa/inet.h>
#include <infiniband/verbs.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cstring>

namespace penstock::nic {

namespace {

bool is_zero(const ibv_gid& gid) noexcept {
  static constexpr ibv_gid zero{};
  return std::memcmp(gid.raw, zero.raw, sizeof zero.raw) == 0;
}

bool is_link_local(const ibv_gid& gid) noexcept {
  return gid.raw[0] == 0xfe && (gid.raw[1] & 0xc0) == 0x80;
}

int rank_of(const gid_row& r) noexcept {
  if (r.kind != gid_kind::roce_v2) return 0;
  if (is_ipv4_mapped(r.gid)) return 3;
  return is_link_local(r.gid) ? 1 : 2;
}

gid_kind kind_of(std::uint32_t type) noexcept {
  switch (type) {
    case IBV_GID_TYPE_ROCE_V1:
      return gid_kind::roce_v1;
    case IBV_GID_TYPE_ROCE_V2:
      return gid_kind::roce_v2;
    default:
      return gid_kind::ib;
  }
}

}  // namespace

std::string joined(std::initializer_list<std::string_view> parts) {
  std::string s;
  for (const std::string_view part : parts) s += part;
  return s;
}

std::string gid_text(const ibv_gid& gid) {
  char text[INET6_ADDRSTRLEN] = "";
  if (is_ipv4_mapped(gid))
    inet_ntop(AF_INET, gid.raw + 12, text, sizeof text);
  else
    inet_ntop(AF_INET6, gid.raw, text, sizeof text);
  return text;
}

const char* gid_kind_text(gid_kind kind) noexcept {
  switch (kind) {
    case gid_kind::roce_v1:
      return "RoCE v1";
    case gid_kind::roce_v2:
      return "RoCE v2";
    default:
      return "IB";
  }
}

const gid_row* best_gid(std::span<const gid_row> rows) noexcept {
  const gid_row* best = nullptr;
  for (const gid_row& r : rows)
    if (best == nullptr || rank_of(r) > rank_of(*best)) best = &r;
  return best;
}

std::vector<gid_row> read_gids(const calls& verbs, ibv_context* context, std::uint8_t port,
                               int table_length) {
  std::vector<gid_row> rows;
  if (table_length <= 0) return rows;
  if (&verbs == &verbs_calls()) {
    // One call answers the table of all ports, and no other call tells the kinds of its rows.
    ibv_device_attr limits{};
    if (verbs.query_device(context, &limits) != 0) return rows;
    std::vector<ibv_gid_entry> all(static_cast<std::size_t>(table_length) * limits.phys_port_cnt);
    const ssize_t n = ibv_query_gid_table(context, all.data(), all.size(), 0);
    for (ssize_t i = 0; i < n; ++i) {
      const ibv_gid_entry& e = all[static_cast<std::size_t>(i)];
      if (e.port_num == port && e.gid_index <= 255 && !is_zero(e.gid))
        rows.push_back({static_cast<int>(e.gid_index), e.gid, kind_of(e.gid_type)});
    }
    return rows;
  }
  for (int i = 0; i < table_length && i <= 255; ++i) {
    gid_row r{.index = i};
    if (verbs.query_gid(context, port, i, &r.gid) == 0 && !is_zero(r.gid)) rows.push_back(r);
  }
  return rows;
}

bool is_pci_address(std::string_view text) noexcept {
  const std::string_view shape = text.size() == 12 ? "xxxx:xx:xx.x" : "xx:xx.x";
  return text.size() == shape.size() &&
         std::equal(text.begin(), text.end(), shape.begin(), [](char c, char s) {
           return s == 'x' ? std::isxdigit(static_cast<unsigned char>(c)) != 0 : c == s;
         });
}

std::uint32_t spread_label(std::uint32_t seed, std::uint64_t flow) noexcept {
  // The finalizer of MurmurHash3, which turns close numbers into distant ones.
  std::uint64_t h = flow ^ (std::uint64_t{seed} << 44);
  h = (h ^ h >> 33) * 0xff51afd7ed558ccdULL;
  h = (h ^ h >> 33) * 0xc4ceb9fe1a85ec53ULL;
  const auto label = static_cast<std::uint32_t>((h ^ h >> 33) & 0xfffff);
  return label != 0 ? label : 1;
}

const char* unfit(const ibv_device& d) noexcept {
  if (d.transport_type == IBV_TRANSPORT_IWARP) return "iWARP: it has neither datagrams nor atomics";
  if (d.transport_type != IBV_TRANSPORT_IB) return "neither InfiniBand nor RoCE";
  return nullptr;
}

bool split_device_name(const std::string& text, std::string& name, std::uint32_t& port) {
  const std::size_t colon = text.rfind(':');
  name = text.substr(0, colon);
  port = 0;
  if (colon == std::string::npos) return true;
  if (is_pci_address(text)) return name = text, true;
  const char* const first = text.data() + colon + 1;
  const char* const last = text.data() + text.size();
  const auto [end, error] = std::from_chars(first, last, port);
  return error == std::errc{} && end == last && first != last && port >= 1 && port <= 255;
}

}  // namespace penstock::nic
