// Messages whose payload is written in place: requests (message/draft.hpp) and the answers of
// handlers (reply_place). Each path has its own reserve() and cancel(), which these call. Any
// threads; nothing here waits but commit().
#pragma once

#include <cstddef>

#include "lib/conduit/message/draft.hpp"
#include "lib/conduit/ways/large_mediums.hpp"

namespace penstock::conduit::PENSTOCK_ABI {

class drafts {
 public:
  drafts(engine& e, core& c, ways& w, large_mediums& l) noexcept
      : engine_(e), core_(c), ways_(w), large_(l) {}
  drafts(const drafts&) = delete;
  drafts& operator=(const drafts&) = delete;

  /// Makes a draft for m's kind, number of words and destination; null: `why` has the reason.
  draft* reserve(rank_id to, const outgoing& m, std::size_t least, std::size_t most,
                 status& why) noexcept;
  /// Sends d as m, by the engine's request() or, without wait, by its try_request(); ok ends d.
  status commit(draft& d, outgoing m, bool wait) noexcept;
  void cancel(draft& d) noexcept;  ///< ends d
  /// A place for the payload of an answer to t (reply_place::find), or none.
  void find_place(token_state& t, const outgoing& m, reply_place& at, std::size_t most) noexcept;
  void give_place(reply_place& at) noexcept { large_.end(at); }  ///< of a large one, not taken

 private:
  engine& engine_;
  core& core_;
  ways& ways_;
  large_mediums& large_;
};

}  // namespace penstock::conduit::PENSTOCK_ABI
