// Translates mpirun's spellings of penrun's options, and refuses options that neither of the two
// has.
#pragma once

#include <string>
#include <vector>

#include "lib/base/result.hpp"

namespace penrun {

/// The words of a command line (without the program's own name), with mpirun's common spellings
/// replaced by ours, up to the program to start, which gets "--" before it. Fails, naming the word,
/// if an option is neither mpirun's nor ours.
penstock::result<std::vector<std::string>> in_our_words(const std::vector<std::string>& words);

}  // namespace penrun
