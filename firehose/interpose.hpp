// Offers the interposing of libc's mapping calls (interpose.cpp) to pools made afterwards. It is a
// call and a library of its own, so that only programs that want their libc patched contain it.
#pragma once

namespace penstock::firehose {

/// Call before the first pool::create(). Nothing is patched until a pool asks. Any number of times.
void offer_interposing() noexcept;

}  // namespace penstock::firehose
