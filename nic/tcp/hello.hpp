// How two processes greet each other on a new connection: hello, challenge, proof. Each side puts a
// new random number in, and hashes both with the secret; so what was recorded of another greeting
// proves nothing. The one that listens shows first that it has the secret.
#pragma once

#include <cstdint>
#include <type_traits>

#include "nic/tcp/secret.hpp"

namespace penstock::nic::tcp {

inline constexpr std::uint64_t hello_magic = 0x3170637473706e65;
inline constexpr std::uint32_t protocol_version = 1;

struct hello {
  std::uint64_t magic = hello_magic;
  std::uint32_t version = protocol_version;
  std::uint32_t from_ip = 0, to_ip = 0;
  std::uint16_t from_port = 0, to_port = 0;
  std::uint64_t instance = 0;  ///< of the process: a random number
  std::uint64_t number[2] = {};
};
struct challenge {
  std::uint64_t instance = 0;
  std::uint64_t number[2] = {};
  proof shown;  ///< of the one that listens
};
static_assert(sizeof(hello) == 48 && sizeof(challenge) == 40);
// Nothing that lay in memory before goes out between their fields.
static_assert(std::has_unique_object_representations_v<hello> &&
              std::has_unique_object_representations_v<challenge>);

/// The proof of one side: 1 listens, 2 has connected.
inline proof prove(const secret& key, std::uint64_t side, const hello& h,
                   const challenge& c) noexcept {
  struct {
    hello first;
    std::uint64_t instance, number[2];
  } all{h, c.instance, {c.number[0], c.number[1]}};
  return proof::of(key, side, &all, sizeof all);
}

}  // namespace penstock::nic::tcp
