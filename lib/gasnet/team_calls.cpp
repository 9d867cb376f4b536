// gasnet_coll.h's teams and the barriers over them. Such a barrier is a reduction of all votes,
// whose result all get.
#include <memory>

#include "lib/base/log.hpp"
#include "lib/gasnet/teams.hpp"

namespace penstock::gasnet::PENSTOCK_ABI {
namespace {

thread_local constinit std::uint32_t image_here = 0;

gasnetc_team& team_of_all() {
  // The object is never destroyed, as other threads may still poll.
  static gasnetc_team* const all = [] {
    auto* const t = new gasnetc_team;
    t->team = &coll::world();
    t->of_images.resize(1);
    return t;
  }();
  return *all;
}

void combine_votes(const coll::reduction&, void* left, void* right, std::size_t) {
  auto& l = *static_cast<conduit::barrier_vote*>(left);
  l = conduit::combine(l, *static_cast<const conduit::barrier_vote*>(right));
}

// The barrier of the team that the call concerns.
team_barrier& barrier_of(gasnet_team_handle_t handle, int flags, const char* call) {
  gasnetc_team& t = team_of(handle, call);
  if ((flags & GASNET_BARRIERFLAG_IMAGES) == 0) return t.of_process;
  return t.of_images[local_image(*t.team, call)];
}

int finish(team_barrier& b, int id, int flags) {
  b.notified = false;
  if (b.all.mismatch || (flags & GASNET_BARRIERFLAG_MISMATCH) != 0)
    return GASNET_ERR_BARRIER_MISMATCH;
  if ((flags & GASNET_BARRIERFLAG_ANONYMOUS) != 0) return GASNET_OK;
  return b.all.named && b.all.value != static_cast<std::uint32_t>(id) ? GASNET_ERR_BARRIER_MISMATCH
                                                                      : GASNET_OK;
}

void must_be_notified(const team_barrier& b, const char* call) {
  if (!b.notified) fatal(1, "%s: without a gasnet_coll_barrier_notify before it", call);
}

bool passed(const team_barrier& b) noexcept {
  // acquire: what the barrier has found (b.all), and what others did before it
  return b.pending.load(std::memory_order_acquire) == 0;
}

}  // namespace

gasnetc_team& team_of(gasnet_team_handle_t handle, const char* call) {
  if (!self.attached) fatal(1, "%s: gasnet_attach has not been called", call);
  if (conduit::running != nullptr) fatal(1, "%s: called from a handler", call);
  return handle == GASNET_TEAM_ALL ? team_of_all() : *handle;
}

std::uint32_t local_image(const coll::team& t, const char* call) {
  const std::uint32_t here = t.images_of(t.rank());
  if (here == 1) return 0;
  if (image_here == 0) fatal(1, "%s: this thread has not called gasnet_coll_init", call);
  return image_here - 1;
}
void set_local_image(std::uint32_t local) noexcept { image_here = local + 1; }

}  // namespace penstock::gasnet::PENSTOCK_ABI

using namespace penstock;
using namespace penstock::gasnet;

extern "C" {

gasnet_team_handle_t GASNETC_(team_split)(gasnet_team_handle_t parent, gasnet_node_t color,
                                          gasnet_node_t relrank) {
  gasnetc_team& from = team_of(parent, "gasnet_coll_team_split");
  auto made = std::make_unique<gasnetc_team>();
  made->team = coll::split(*from.team, true, color, relrank);
  made->of_images.resize(1);
  if (made->team->rank() != relrank)
    fatal(1,
          "gasnet_coll_team_split: rank %u among the %u nodes of color %u: theirs are not 0 to %u",
          relrank, made->team->size(), color, made->team->size() - 1);
  return made.release();
}

gasnet_node_t GASNETC_(team_size)(gasnet_team_handle_t team) {
  return team_of(team, "gasnet_coll_team_size").team->size();
}

gasnet_node_t GASNETC_(team_rank2node)(gasnet_team_handle_t team, int rank) {
  const coll::team& t = *team_of(team, "gasnet_coll_team_rank2node").team;
  if (rank < 0 || static_cast<std::uint32_t>(rank) >= t.size())
    fatal(1, "gasnet_coll_team_rank2node: rank %d of a team of %u", rank, t.size());
  return t.job_rank(static_cast<std::uint32_t>(rank));
}

gasnet_node_t GASNETC_(team_node2rank)(gasnet_team_handle_t team, gasnet_node_t node) {
  const coll::team& t = *team_of(team, "gasnet_coll_team_node2rank").team;
  std::uint32_t r = 0;
  if (!t.find(node, r))
    fatal(1, "gasnet_coll_team_node2rank: node %u is no member of that team of %u", node, t.size());
  return r;
}

void GASNETC_(team_notify)(gasnet_team_handle_t team, int id, int flags) {
  constexpr const char* call = "gasnet_coll_barrier_notify";
  coll::team& t = *team_of(team, call).team;
  team_barrier& b = barrier_of(team, flags, call);
  if (b.notified) fatal(1, "%s: twice, without a gasnet_coll_barrier_wait between", call);
  b.notified = true;
  const bool named = (flags & GASNET_BARRIERFLAG_ANONYMOUS) == 0;
  b.own = {.value = named ? static_cast<std::uint32_t>(id) : 0,
           .named = named,
           .mismatch = (flags & GASNET_BARRIERFLAG_MISMATCH) != 0};
  coll::reduction how;
  how.combine = &combine_votes;
  how.element_bytes = sizeof b.own;
  how.commutative = true;
  const bool images = (flags & GASNET_BARRIERFLAG_IMAGES) != 0;
  coll::call(t, images ? coll::team::by_image : coll::team::by_process,
             images ? local_image(t, call) : 0,
             {coll::kind::reduce_all, 0, &b.all, &b.own, sizeof b.own, coll::own_buffers, &how},
             b.pending);
}

int GASNETC_(team_wait)(gasnet_team_handle_t team, int id, int flags) {
  team_barrier& b = barrier_of(team, flags, "gasnet_coll_barrier_wait");
  must_be_notified(b, "gasnet_coll_barrier_wait");
  coll::wait(b.pending);
  return finish(b, id, flags);
}

int GASNETC_(team_try)(gasnet_team_handle_t team, int id, int flags) {
  team_barrier& b = barrier_of(team, flags, "gasnet_coll_barrier_try");
  must_be_notified(b, "gasnet_coll_barrier_try");
  if (!passed(b)) {
    (void)GASNETC_(poll)();
    if (!passed(b)) return GASNET_ERR_NOT_READY;
  }
  return finish(b, id, flags);
}

int GASNETC_(team_result)(gasnet_team_handle_t team, int* id) {
  const team_barrier& b = barrier_of(team, 0, "gasnet_coll_barrier_result");
  *id = static_cast<int>(b.all.value);
  return b.all.named ? 0 : 1;
}

}  // extern "C"
