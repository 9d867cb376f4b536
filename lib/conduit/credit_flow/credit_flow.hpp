// The engine's side of the credit system: credit/ decides, and the code here puts the decisions on
// messages and takes them off again. Both paths and the engine use it; credit_places.hpp draws
// where credits can lie.
#pragma once

#include <optional>
#include <string>
#include <utility>

#include "lib/conduit/message/wire.hpp"
#include "lib/conduit/peer/core.hpp"

namespace penstock::conduit::PENSTOCK_ABI {

/// The settings that concern credits, as credit/ takes them, where the device has that room.
credit::overrides credit_settings(const settings& s, std::uint32_t domains, credit::room room = {});

/// A sentence that says what that room leaves of the table.
std::string shorter_table(const settings& s, std::uint32_t ranks, std::uint32_t domains,
                          credit::room room);

/// The right of a caller that may be inside reply_in of the peer whose message it handles.
using reply_right = std::optional<inside<end_of::reply_in>>;

class credit_flow {
 public:
  explicit credit_flow(core& c) noexcept : core_(c) {}
  credit_flow(const credit_flow&) = delete;
  credit_flow& operator=(const credit_flow&) = delete;

  // The borrower.
  [[nodiscard]] status take_credits(inside<end_of::request_out> in, peer& p, const outgoing& m,
                                    std::uint32_t cost, std::uint32_t most = ~0u) noexcept;
  /// What a request that is short of credits does: it waits, and credits alone can help (blocked);
  /// it waits for the one that its offer takes; or it was offered, and waits for nothing.
  enum class lack : std::uint8_t { blocked, awaits_offer, offered };
  void stall(peer& p, std::uint32_t cost, credit::stall& s, lack how = lack::blocked) noexcept;
  void ask_early(peer& p, std::uint32_t cost) noexcept;
  static std::uint8_t request_credit_byte(inside<end_of::request_out>, peer& p,
                                          std::uint32_t cost) noexcept;
  void expect_credits(peer& p, std::uint32_t wanted) noexcept;
  void give_back_lease(peer& p) noexcept;
  [[nodiscard]] bool lacks(peer& p, std::uint32_t n) noexcept;
  [[nodiscard]] bool has_credit(peer& p) noexcept;
  void absorb_reply(peer& p, const wire::header& h, std::uint32_t tag, reply_right at) noexcept;
  void tell_returned(inside<end_of::reply_in> in, peer& p) noexcept;
  void note_returned(inside<end_of::reply_in> in, peer& p, std::uint32_t n) noexcept;
  bool try_note_returned(peer& p, std::uint32_t n, std::uint32_t tag) noexcept;
  void collect_returned(peer& p, std::uint32_t tag) noexcept;

  // The lender.
  bool note_request(peer& p, token_state& t) noexcept;
  void check_claim(const peer& p, std::uint32_t cost, std::uint32_t unreturned) noexcept;
  void loans_come_back(std::uint32_t r) noexcept;
  static wire::header reply_header(peer& p, const token_state& t, std::uint32_t returned) noexcept;
  static wire::header credits_header(inside<end_of::request_in> in, peer& p) noexcept;
  void put_credits_off(peer& p) noexcept;
  bool take_put_off(inside<end_of::request_in>, peer& p) noexcept;

  // Both. System messages travel on the reply lanes and cost no credit; at most one of each kind is
  // under way to a peer at a time. One that finds no room in its queue is kept in the peer
  // (deferred), and a later poll sends it.
  bool system_message(peer& p, const wire::header& h, reply_right at) noexcept;
  void follow_intents() noexcept;  ///< sends what the ledgers want sent
  void send_deferred() noexcept;

  // report/
  /// Writes the files of CREDIT_STATS, after leases were given back.
  void write_statistics() noexcept;
  /// The same, but leases are not given back first; any thread may call it.
  void write_files() const noexcept;
  /// Credits lent by this process on demand, and given back to it; any thread.
  [[nodiscard]] std::uint64_t lent() const noexcept {
    return credits_lent_.load(std::memory_order_relaxed);  // relaxed: a figure for reports
  }
  [[nodiscard]] std::uint64_t revoked() const noexcept {
    return credits_revoked_.load(std::memory_order_relaxed);  // relaxed: as above
  }

 private:
  void note_lowered(inside<end_of::request_out>, peer& p) noexcept;
  void places_add_up(inside<end_of::request_out> in, const peer& p) const noexcept;
  void absorb_credits(peer& p, const wire::header& h, std::uint32_t returned, std::uint32_t granted,
                      std::uint32_t tag, reply_right at) noexcept;
  void settle_returned(peer& p, std::uint32_t tag, reply_right at) noexcept;
  bool grant_more(peer& p, token_state& t) noexcept;
  void loan_changed(peer& p, std::uint32_t lent, std::uint32_t revoked) noexcept;
  void send_grants(domain& d) noexcept;
  // To be called after the ledger was told.
  void say_intents() noexcept;
  void send_system(peer& p, wire::system_op op, std::uint32_t count, bool epoch,
                   bool urgent) noexcept;
  bool say(peer& p, const wire::header& h) noexcept;

  core& core_;
  std::atomic<std::uint64_t> credits_lent_{0}, credits_revoked_{0};
};

}  // namespace penstock::conduit::PENSTOCK_ABI
