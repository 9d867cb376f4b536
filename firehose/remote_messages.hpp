// The control messages of remote.hpp as they travel. Internal to this folder; the receiving side
// checks every field.
#pragma once

#include <cstdint>

#include "firehose/remote.hpp"

namespace penstock::firehose {

enum class remote_kind : std::uint32_t { ask = 1, granted, refused, give_back, revoke };

struct remote_firehoses::message {
  remote_kind kind;
  std::uint32_t rkey;        // granted
  std::uint64_t id;          // the requester's name for the region: serial << 20 | number
  std::uint64_t start, end;  // ask: pages wanted; granted: pages given
  std::uint64_t exact_end;   // ask: end of the pages that are needed; more, up to `end`, is welcome
  std::uint64_t give_back;   // ask: a region to return first, or 0
  std::uint32_t writable;    // ask: wanted; granted: given
  std::uint32_t reason;      // refused: 1 for ever, 0 for now
};

struct remote_firehoses::parcel {
  unsigned peer;
  message m;
};

}  // namespace penstock::firehose
