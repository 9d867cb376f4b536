#include "lib/gasnet/coll/call_word.hpp"

#include <algorithm>

#include "lib/gasnet/coll/operation.hpp"

namespace penstock::gasnet::PENSTOCK_ABI::coll {
namespace {

constexpr unsigned bytes_bits = 32, root_bits = 18, code_bits = 8, sync_bits = 2;
constexpr unsigned root_shift = bytes_bits, code_shift = root_shift + root_bits,
                   sync_shift = code_shift + code_bits, kind_shift = sync_shift + sync_bits;

constexpr std::uint64_t field(call_word w, unsigned shift, unsigned bits) noexcept {
  return w >> shift & ((std::uint64_t{1} << bits) - 1);
}
constexpr bool has_root(kind k) noexcept {
  return k == kind::broadcast || k == kind::scatter || k == kind::gather || k == kind::reduce;
}

std::string name_of_code(unsigned code) {
  if (code >= 128) return "function " + std::to_string(code - 128);
  constexpr const char* types[ex_types] = {"I32", "U32", "I64", "U64", "FLT", "DBL", "USER"};
  constexpr const char* operations[ex_operations] = {"AND",  "OR",  "XOR", "ADD",  "SUB",
                                                     "MULT", "MIN", "MAX", "USER", "USER_NC"};
  const unsigned at = code - 1;
  return std::string(operations[at % ex_operations]) + " on " +
         types[std::min(at / ex_operations, ex_types - 1)];
}

}  // namespace

call_word word_of(const request& r) noexcept {
  constexpr std::uint64_t most = (std::uint64_t{1} << bytes_bits) - 1;
  const std::uint64_t root = has_root(r.what) ? r.root & ((1u << root_bits) - 1) : 0;
  return static_cast<std::uint64_t>(r.what) << kind_shift |
         std::uint64_t{r.sync & ((1u << sync_bits) - 1)} << sync_shift |
         std::uint64_t{r.how != nullptr ? r.how->code : std::uint8_t{0}} << code_shift |
         root << root_shift | std::min<std::uint64_t>(r.bytes, most);
}

std::string describe(call_word w) {
  const kind k = static_cast<kind>(w >> kind_shift);
  std::string text = name_of(k);
  if (k != kind::barrier) text += " of " + std::to_string(field(w, 0, bytes_bits)) + " bytes";
  if (has_root(k)) text += " with root " + std::to_string(field(w, root_shift, root_bits));
  if (const auto code = static_cast<unsigned>(field(w, code_shift, code_bits)); code != 0)
    text += " (" + name_of_code(code) + ")";
  const auto s = field(w, sync_shift, sync_bits);
  if ((s & in_all) != 0) text += ", in after all";
  if ((s & out_all) != 0) text += ", out after all";
  return text;
}

}  // namespace penstock::gasnet::PENSTOCK_ABI::coll
