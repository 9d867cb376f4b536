// penstock/counters.h: snapshots of the counters by name, for programs in C. This code only
// translates calls; the names are those of the tables in penstock/counters.hpp.
#include <cstring>
#include <new>
#include <string>
#include <vector>

#include "lib/base/forked.hpp"
#include "lib/conduit/engine.hpp"
#include "lib/conduit/report/open_engines.hpp"
#include "lib/conduit/report/reporter.hpp"
#include "lib/conduit/report/text.hpp"
#include "penstock/counters.h"

struct penstock_counters {
  penstock::conduit::report::identity who;
  penstock::endpoint_counters counts;
  std::string json, prometheus;  // made when they are first asked for
};

namespace {

using namespace penstock;

// A counter of a peer: one of a direction's messages, or its own.
struct peer_row {
  std::string name;
  const char* help;
  message_counters peer_counters::*direction;  // null: own
  std::uint64_t message_counters::*message;
  std::uint64_t peer_counters::*own;
};

const std::vector<peer_row>& peer_rows() {
  static const auto* const rows = [] {
    auto* const all = new std::vector<peer_row>;
    for (const auto& d : direction_rows)
      for (const auto& row : message_counter_rows)
        all->push_back({std::string(d.name) + "." + row.name, row.help, d.field, row.field, {}});
    for (const auto& row : peer_counter_rows)
      all->push_back({row.name, row.help, nullptr, nullptr, row.field});
    return all;
  }();
  return *rows;
}

const peer_counters* find(const penstock_counters* c, unsigned peer) {
  return peer < c->counts.peers.size() ? &c->counts.peers[peer] : nullptr;
}

}  // namespace

extern "C" {

penstock_counters* penstock_counters_take(unsigned endpoint) {
  if (is_forked()) return nullptr;
  try {
    auto c = std::make_unique<penstock_counters>();
    const bool found = conduit::open_engine::with(endpoint, [&](const conduit::engine& e) {
      c->who = conduit::reporter::identify(e);
      c->counts = e.counters();
    });
    return found ? c.release() : nullptr;
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}

void penstock_counters_free(penstock_counters* c) { delete c; }

int penstock_counters_get(const penstock_counters* c, const char* name, uint64_t* value) {
  for (const auto& row : endpoint_counter_rows)
    if (std::strcmp(row.name, name) == 0) {
      *value = c->counts.*row.field;
      return 0;
    }
  return -1;
}

unsigned penstock_counters_peers(const penstock_counters* c) {
  return static_cast<unsigned>(c->counts.peers.size());
}
uint32_t penstock_counters_rank(const penstock_counters* c, unsigned peer) {
  const peer_counters* const p = find(c, peer);
  return p == nullptr ? ~std::uint32_t{0} : p->rank;
}
const char* penstock_counters_path(const penstock_counters* c, unsigned peer) {
  const peer_counters* const p = find(c, peer);
  return p == nullptr ? "" : p->path;
}
const char* penstock_counters_waits_for(const penstock_counters* c, unsigned peer) {
  const peer_counters* const p = find(c, peer);
  return p == nullptr ? "" : p->waits_for;
}
const char* penstock_counters_waits_handler(const penstock_counters* c, unsigned peer) {
  const peer_counters* const p = find(c, peer);
  return p == nullptr ? "" : p->waits_handler.c_str();
}

int penstock_counters_get_peer(const penstock_counters* c, unsigned peer, const char* name,
                               uint64_t* value) {
  const peer_counters* const p = find(c, peer);
  if (p == nullptr) return -1;
  for (const peer_row& row : peer_rows())
    if (row.name == name) {
      *value = row.direction != nullptr ? p->*row.direction.*row.message : p->*row.own;
      return 0;
    }
  return -1;
}

const char* penstock_counter_name(unsigned i) {
  return i < std::size(endpoint_counter_rows) ? endpoint_counter_rows[i].name : nullptr;
}
const char* penstock_counter_help(unsigned i) {
  return i < std::size(endpoint_counter_rows) ? endpoint_counter_rows[i].help : nullptr;
}
const char* penstock_peer_counter_name(unsigned i) {
  return i < peer_rows().size() ? peer_rows()[i].name.c_str() : nullptr;
}
const char* penstock_peer_counter_help(unsigned i) {
  return i < peer_rows().size() ? peer_rows()[i].help : nullptr;
}

const char* penstock_counters_json(penstock_counters* c) {
  if (c->json.empty()) c->json = conduit::report::json(c->who, c->counts);
  return c->json.c_str();
}
const char* penstock_counters_prometheus(penstock_counters* c) {
  if (c->prometheus.empty()) c->prometheus = conduit::report::prometheus(c->who, c->counts);
  return c->prometheus.c_str();
}

}  // extern "C"
