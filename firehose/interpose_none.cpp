// Where libc cannot be interposed (processors other than x86-64): pools rely on the kernel's
// events.
#include "firehose/interpose.hpp"

namespace penstock::firehose {
void offer_interposing() noexcept {}
}  // namespace penstock::firehose
