// The calls that penrun cannot do without and whose refusal would be a hang later: each is made
// once before anything is started.
#pragma once

namespace penrun {

/// The kernel's name of the first such call that a sandbox refuses, errno with it; null: none.
const char* refused_call();

}  // namespace penrun
