// Each process sends the largest Medium, whose size the library tells at run time, to its
// neighbour.
#include <algorithm>
#include <cstdio>
#include <penstock/penstock.hpp>
#include <vector>

struct mailbox {
  std::size_t bytes = 0;
  bool right = false;
  void on_parcel(penstock::token&, std::span<std::byte> payload, unsigned value) {
    bytes = payload.size();
    right = std::ranges::all_of(payload, [value](std::byte b) { return b == std::byte(value); });
  }
};

int main() {
  auto job = penstock::world::join();
  if (!job) return std::fprintf(stderr, "%s\n", job.error().message().c_str()), 1;
  auto ep = penstock::endpoint::open(*job);
  if (!ep) return std::fprintf(stderr, "%s\n", ep.error().message().c_str()), 1;
  mailbox box;
  const auto parcel = ep->add<&mailbox::on_parcel>(&box);
  if (const auto started = ep->start(); !started)
    return std::fprintf(stderr, "%s\n", started.error().message().c_str()), 1;
  const auto n = ep->size();
  const std::vector<std::byte> payload(ep->max_medium(), std::byte(1 + ep->rank()));
  if (penstock::is_failure(
          ep->request_medium((ep->rank() + 1) % n, parcel, payload, 1 + ep->rank())))
    return 2;
  if (penstock::is_failure(ep->wait_until([&box] { return box.bytes != 0; }))) return 3;
  if (penstock::is_failure(ep->barrier())) return 4;
  if (!box.right || box.bytes != payload.size()) return 5;
  std::printf("greeted\na Medium of %zu\n", box.bytes);
  return 0;
}
