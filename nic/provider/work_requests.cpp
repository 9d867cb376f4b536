// The extended way to post (ibv_wr_start … ibv_wr_complete): requests are collected, with their
// scatter lists and inline bytes, and posted together.
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <new>
#include <vector>

#include "nic/provider/operations.hpp"
#include "nic/shm/boundary.hpp"
#include "nic/shm/qp.hpp"
#include "nic/shm/xrc.hpp"

namespace penstock::nic::provider {
namespace {

using shm::enter, shm::queue_pair;

/// The requests between wr_start and wr_complete. Their pieces are kept by index until all are
/// there, since a vector that grows moves.
struct batch {
  struct piece {
    std::size_t begin = 0, count = 0;  ///< in lists
    std::size_t bytes = 0;             ///< where the inline bytes begin
  };
  static constexpr std::size_t usual = 64;  ///< requests for which there is room at first
  shm::spin_lock busy;                      ///< from wr_start to wr_complete or wr_abort
  std::vector<ibv_send_wr> requests;
  std::vector<piece> pieces;
  std::vector<ibv_sge> lists;
  std::vector<std::byte> bytes;
  int error = 0;

  void clear() noexcept {
    requests.clear();
    pieces.clear();
    lists.clear();
    bytes.clear();
    error = 0;
  }
};

batch& of(ibv_qp_ex* qp) noexcept {
  return *static_cast<batch*>(shm::of(&qp->qp_base).collected.get());
}

/// wr_complete reports it when memory runs out here.
template <class Do>
void collect(ibv_qp_ex* qp, Do todo) noexcept {
  batch& b = of(qp);
  try {
    todo(b);
  } catch (const std::bad_alloc&) {
    b.error = ENOMEM;
  }
}

void begin(ibv_qp_ex* qp, ibv_wr_opcode opcode, std::uint32_t imm = 0, std::uint64_t address = 0,
           std::uint32_t rkey = 0) noexcept {
  collect(qp, [&](batch& b) {
    b.pieces.push_back({b.lists.size(), 0, b.bytes.size()});
    ibv_send_wr& wr = b.requests.emplace_back();
    wr.wr_id = qp->wr_id;
    wr.opcode = opcode;
    wr.send_flags = qp->wr_flags & ~static_cast<unsigned>(IBV_SEND_INLINE);
    wr.imm_data = imm;
    wr.wr.rdma.remote_addr = address;
    wr.wr.rdma.rkey = rkey;
  });
}

void begin_atomic(ibv_qp_ex* qp, ibv_wr_opcode opcode, std::uint32_t rkey, std::uint64_t address,
                  std::uint64_t operand, std::uint64_t swap) noexcept {
  begin(qp, opcode);
  collect(qp, [&](batch& b) {
    if (b.requests.empty()) return;
    auto& a = b.requests.back().wr.atomic;
    a.remote_addr = address;
    a.compare_add = operand;
    a.swap = swap;
    a.rkey = rkey;
  });
}

void set_sges(ibv_qp_ex* qp, std::size_t n, const ibv_sge* list) noexcept {
  collect(qp, [&](batch& b) {
    if (b.requests.empty()) return void(b.error = EINVAL);
    b.lists.insert(b.lists.end(), list, list + n);
    b.pieces.back().count = n;
  });
}

void set_inline(ibv_qp_ex* qp, std::size_t n, const ibv_data_buf* parts) noexcept {
  collect(qp, [&](batch& b) {
    if (b.requests.empty()) return void(b.error = EINVAL);
    for (std::size_t i = 0; i < n; ++i) {
      const auto* from = static_cast<const std::byte*>(parts[i].addr);
      b.bytes.insert(b.bytes.end(), from, from + parts[i].length);
    }
    const std::size_t begun = b.pieces.back().bytes;
    b.lists.push_back({0, static_cast<std::uint32_t>(b.bytes.size() - begun), 0});
    b.pieces.back().count = 1;
    b.requests.back().send_flags |= IBV_SEND_INLINE;
  });
}

void start(ibv_qp_ex* qp) noexcept {
  batch& b = of(qp);
  b.busy.lock();
  b.clear();
}

int complete(ibv_qp_ex* qp) noexcept {
  batch& b = of(qp);
  int e = b.error;
  const std::size_t n = b.requests.size();
  for (std::size_t i = 0; i < n && e == 0; ++i) {
    ibv_send_wr& wr = b.requests[i];
    const batch::piece& p = b.pieces[i];
    wr.next = i + 1 < n ? &b.requests[i + 1] : nullptr;
    wr.sg_list = b.lists.data() + p.begin;
    wr.num_sge = static_cast<int>(p.count);
    if ((wr.send_flags & IBV_SEND_INLINE) != 0)
      wr.sg_list[0].addr = reinterpret_cast<std::uint64_t>(b.bytes.data() + p.bytes);
  }
  if (e == 0 && n != 0) e = shm::post_together(shm::of(&qp->qp_base), b.requests.data(), n);
  b.busy.unlock();
  return e;
}

void fill(ibv_qp_ex& qp, std::uint64_t wanted) noexcept {
  enter(qp.wr_start, start);
  enter(qp.wr_complete, complete);
  enter(qp.wr_abort, [](ibv_qp_ex* q) noexcept { of(q).busy.unlock(); });
  enter(qp.wr_set_sge,
        [](ibv_qp_ex* q, std::uint32_t lkey, std::uint64_t addr, std::uint32_t length) noexcept {
          collect(q, [&](batch& b) {
            if (b.requests.empty()) return void(b.error = EINVAL);
            b.lists.push_back({addr, length, lkey});
            b.pieces.back().count = 1;
          });
        });
  enter(qp.wr_set_sge_list, set_sges);
  enter(qp.wr_set_inline_data, [](ibv_qp_ex* q, void* addr, std::size_t length) noexcept {
    const ibv_data_buf one{addr, length};
    set_inline(q, 1, &one);
  });
  enter(qp.wr_set_inline_data_list, set_inline);
  enter(qp.wr_set_ud_addr,
        [](ibv_qp_ex* q, ibv_ah* ah, std::uint32_t qpn, std::uint32_t qkey) noexcept {
          collect(q, [&](batch& b) {
            if (b.requests.empty()) return void(b.error = EINVAL);
            auto& ud = b.requests.back().wr.ud;
            ud.ah = ah;
            ud.remote_qpn = qpn;
            ud.remote_qkey = qkey;
          });
        });
  enter(qp.wr_set_xrc_srqn, [](ibv_qp_ex* q, std::uint32_t number) noexcept {
    collect(q, [&](batch& b) {
      if (b.requests.empty()) return void(b.error = EINVAL);
      b.requests.back().qp_type.xrc.remote_srqn = number;
    });
  });
  if ((wanted & IBV_QP_EX_WITH_SEND) != 0)
    enter(qp.wr_send, [](ibv_qp_ex* q) noexcept { begin(q, IBV_WR_SEND); });
  if ((wanted & IBV_QP_EX_WITH_SEND_WITH_IMM) != 0)
    enter(qp.wr_send_imm,
          [](ibv_qp_ex* q, std::uint32_t imm) noexcept { begin(q, IBV_WR_SEND_WITH_IMM, imm); });
  if ((wanted & IBV_QP_EX_WITH_SEND_WITH_INV) != 0)
    enter(qp.wr_send_inv,
          [](ibv_qp_ex* q, std::uint32_t rkey) noexcept { begin(q, IBV_WR_SEND_WITH_INV, rkey); });
  if ((wanted & IBV_QP_EX_WITH_LOCAL_INV) != 0)
    enter(qp.wr_local_inv,
          [](ibv_qp_ex* q, std::uint32_t rkey) noexcept { begin(q, IBV_WR_LOCAL_INV, rkey); });
  if ((wanted & IBV_QP_EX_WITH_BIND_MW) != 0)
    enter(qp.wr_bind_mw,
          [](ibv_qp_ex* q, ibv_mw* mw, std::uint32_t rkey, const ibv_mw_bind_info* to) noexcept {
            begin(q, IBV_WR_BIND_MW);
            collect(q, [&](batch& b) {
              if (!b.requests.empty()) b.requests.back().bind_mw = {mw, rkey, *to};
            });
          });
  if ((wanted & IBV_QP_EX_WITH_RDMA_WRITE) != 0)
    enter(qp.wr_rdma_write, [](ibv_qp_ex* q, std::uint32_t rkey, std::uint64_t address) noexcept {
      begin(q, IBV_WR_RDMA_WRITE, 0, address, rkey);
    });
  if ((wanted & IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM) != 0)
    enter(qp.wr_rdma_write_imm,
          [](ibv_qp_ex* q, std::uint32_t rkey, std::uint64_t address, std::uint32_t imm) noexcept {
            begin(q, IBV_WR_RDMA_WRITE_WITH_IMM, imm, address, rkey);
          });
  if ((wanted & IBV_QP_EX_WITH_RDMA_READ) != 0)
    enter(qp.wr_rdma_read, [](ibv_qp_ex* q, std::uint32_t rkey, std::uint64_t address) noexcept {
      begin(q, IBV_WR_RDMA_READ, 0, address, rkey);
    });
  if ((wanted & IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP) != 0)
    enter(qp.wr_atomic_cmp_swp, [](ibv_qp_ex* q, std::uint32_t rkey, std::uint64_t address,
                                   std::uint64_t compare, std::uint64_t swap) noexcept {
      begin_atomic(q, IBV_WR_ATOMIC_CMP_AND_SWP, rkey, address, compare, swap);
    });
  if ((wanted & IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD) != 0)
    enter(qp.wr_atomic_fetch_add,
          [](ibv_qp_ex* q, std::uint32_t rkey, std::uint64_t address, std::uint64_t add) noexcept {
            begin_atomic(q, IBV_WR_ATOMIC_FETCH_AND_ADD, rkey, address, add, 0);
          });
}

/// The operations that a QP of this type can do.
std::uint64_t possible(ibv_qp_type type) noexcept {
  constexpr std::uint64_t sends = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM;
  constexpr std::uint64_t writes = IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM;
  constexpr std::uint64_t answered = IBV_QP_EX_WITH_RDMA_READ | IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP |
                                     IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD;
  constexpr std::uint64_t windows = IBV_QP_EX_WITH_BIND_MW | IBV_QP_EX_WITH_LOCAL_INV;
  if (type == IBV_QPT_UD) return sends;
  if (type == IBV_QPT_UC) return sends | writes | windows;
  return sends | writes | windows | answered | IBV_QP_EX_WITH_SEND_WITH_INV;
}

/// libibverbs reads the mask behind its own ibv_qp_ex. Since 44 that has got one more function,
/// under the same private ABI number, and the mask is 8 bytes further on. It is put into both
/// places: at the further one older releases have a pointer, which they use only if the mask says
/// so.
void tell_work_requests(queue_pair& qp) noexcept {
  qp.exposed_mask = abi::qp_has_work_requests;
  qp.exposed_xrcd = reinterpret_cast<void*>(std::uintptr_t{abi::qp_has_work_requests});
}

}  // namespace

ibv_qp* create_qp_ex(ibv_context* context, ibv_qp_init_attr_ex* init) {
  if (init->qp_type == IBV_QPT_XRC_RECV) {
    if (init->comp_mask != IBV_QP_INIT_ATTR_XRCD) return errno = EINVAL, nullptr;
    return shm::create_xrc_receiver(context, reinterpret_cast<ibv_qp_init_attr*>(init),
                                    shm::of(init->xrcd));
  }
  constexpr std::uint32_t known =
      IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS | IBV_QP_INIT_ATTR_CREATE_FLAGS;
  if ((init->comp_mask & IBV_QP_INIT_ATTR_PD) == 0) return errno = EINVAL, nullptr;
  if ((init->comp_mask & ~known) != 0) return errno = EOPNOTSUPP, nullptr;
  // A program may say that it wants none of the flags; the device has none of them.
  if ((init->comp_mask & IBV_QP_INIT_ATTR_CREATE_FLAGS) != 0 && init->create_flags != 0)
    return errno = EOPNOTSUPP, nullptr;
  const bool collects = (init->comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS) != 0;
  const std::uint64_t wanted = collects ? init->send_ops_flags : 0;
  if ((wanted & ~possible(init->qp_type)) != 0) return errno = EOPNOTSUPP, nullptr;
  std::shared_ptr<batch> collected;
  if (collects) {
    auto b = std::make_shared<batch>();
    b->requests.reserve(batch::usual);
    b->pieces.reserve(batch::usual);
    b->lists.reserve(batch::usual);
    collected = std::move(b);
  }
  // The classic attributes are the first part of the extended ones.
  auto* classic = reinterpret_cast<ibv_qp_init_attr*>(init);
  ibv_qp* qp = shm::create_qp(init->pd, classic);
  if (qp == nullptr || !collects) return qp;
  auto& extended = *reinterpret_cast<ibv_qp_ex*>(qp);
  shm::of(qp).collected = std::move(collected);
  tell_work_requests(shm::of(qp));
  fill(extended, wanted);
  return qp;
}

}  // namespace penstock::nic::provider
