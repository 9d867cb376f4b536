// The bodies of rpc_calls.hpp, which need the rpc. rpc.hpp includes it.
#pragma once

#include <utility>
#include <vector>

#include "penstock/rpc.hpp"

namespace penstock::PENSTOCK_ABI {

inline rpc_call::~rpc_call() {
  if (of_ == nullptr) return;
  of_->cancel(*this);
  of_->release(*this);
}

inline status rpc_request::answer(rpc_value v, std::uint32_t code) {
  if (!std::exchange(mine_, false)) return status::replied_twice;
  std::vector<std::byte> gathered;
  return of_.respond(t_, to_, status::ok, v.in_a_row(gathered), code, false);
}
inline rpc_responder rpc_request::later() {
  rpc_responder r;
  if (!std::exchange(mine_, false)) return r;
  if (!of_.may_keep()) {
    (void)of_.respond(t_, to_, status::no_space, {}, 0, false);
    return r;
  }
  r.of_ = &of_, r.to_ = to_;
  if (std::exchange(in_block_, false))
    r.block_ = body_;
  else
    r.body_.assign(body_.begin(), body_.end());
  return r;
}
inline status rpc_request::forward(rank_id to, rpc_method m) {
  if (!std::exchange(mine_, false)) return status::replied_twice;
  if (of_.may_keep()) return of_.pass_on(t_, to, m, to_, body_);
  (void)of_.respond(t_, to_, status::no_space, {}, 0, false);
  return status::no_space;
}

inline status rpc_responder::answer(rpc_value v, std::uint32_t code) {
  if (of_ == nullptr) return status::replied_twice;
  std::vector<std::byte> gathered;
  rpc& of = *std::exchange(of_, nullptr);
  const status s = of.respond(nullptr, to_, status::ok, v.in_a_row(gathered), code, true);
  of.give_block(block_);
  return s;
}
inline status rpc_responder::forward(rank_id to, rpc_method m) {
  if (of_ == nullptr) return status::replied_twice;
  rpc& of = *std::exchange(of_, nullptr);
  const status s = of.pass_on(nullptr, to, m, to_, body());
  of.give_block(block_);
  return s;
}
inline rpc_responder::~rpc_responder() {
  if (of_ == nullptr) return;
  (void)of_->respond(nullptr, to_, status::shut_down, {}, 0, true);
  of_->give_block(block_);
}

}  // namespace penstock::PENSTOCK_ABI
