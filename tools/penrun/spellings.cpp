// See spellings.hpp.
#include "tools/penrun/spellings.hpp"

#include <algorithm>
#include <iterator>
#include <string_view>
#include <vector>

#include "lib/base/nearest.hpp"

namespace penrun {
namespace {

struct spelling {
  std::string_view theirs;
  std::string_view ours;  ///< empty: penrun does that anyway
  bool has_value;
};
constexpr spelling spellings[] = {
    {"-n", "-n", true},
    {"--n", "-n", true},
    {"-np", "-n", true},
    {"--np", "-n", true},
    {"-c", "-n", true},
    {"-x", "-x", true},
    {"-H", "--host", true},
    {"-host", "--host", true},
    {"--host", "--host", true},
    {"-hostfile", "--hostfile", true},
    {"--hostfile", "--hostfile", true},
    {"-machinefile", "--hostfile", true},
    {"--machinefile", "--hostfile", true},
    {"--rsh", "--rsh", true},
    {"-wd", "--wdir", true},
    {"--wd", "--wdir", true},
    {"-wdir", "--wdir", true},
    {"--wdir", "--wdir", true},
    {"--bind", "--bind-to", true},
    {"-bind-to", "--bind-to", true},
    {"--bind-to", "--bind-to", true},
    {"-timeout", "--timeout", true},
    {"--timeout", "--timeout", true},
    {"--grace", "--grace", true},
    {"-l", "-l", false},
    {"--label", "-l", false},
    {"-tag-output", "-l", false},
    {"--tag-output", "-l", false},
    {"-q", "-q", false},
    {"-quiet", "-q", false},
    {"--quiet", "-q", false},
    {"-h", "--help", false},
    {"--help", "--help", false},
    {"-V", "--version", false},
    {"--version", "--version", false},
    {"-oversubscribe", "", false},
    {"--oversubscribe", "", false},
    {"-allow-run-as-root", "", false},
    {"--allow-run-as-root", "", false},
};

const spelling* find(std::string_view word) {
  const auto* const it = std::find_if(std::begin(spellings), std::end(spellings),
                                      [word](const spelling& s) { return s.theirs == word; });
  return it == std::end(spellings) ? nullptr : it;
}

penstock::failure unknown(const std::string& word) {
  std::vector<std::string_view> known;
  for (const spelling& s : spellings) known.push_back(s.theirs);
  const std::string_view meant = penstock::nearest_option(word, known);
  return {
      "there is no option " + word, 0,
      (meant.empty() ? std::string() : "did you mean " + std::string(meant) + "? ") +
          "penrun --help lists those there are; what is meant for the program goes behind it, and "
          "behind -- if the program's name begins with -"};
}

}  // namespace

penstock::result<std::vector<std::string>> in_our_words(const std::vector<std::string>& words) {
  std::vector<std::string> out;
  std::size_t at = 0;
  for (; at < words.size(); ++at) {
    const std::string& word = words[at];
    if (word.size() < 2 || word[0] != '-' || word == "--") break;
    if (const spelling* s = find(word)) {
      if (!s->ours.empty()) out.emplace_back(s->ours);
      if (!s->has_value || ++at == words.size()) continue;
      out.push_back(words[at]);
      continue;
    }
    const auto equals = word.find('=');
    if (const spelling* s = find(word.substr(0, equals)); s != nullptr && equals != word.npos) {
      if (!s->has_value || s->ours.empty()) return unknown(word);
      out.emplace_back(s->ours);
      out.push_back(word.substr(equals + 1));
      continue;
    }
    // -n4 and -xA=1, and flags together, as -lq.
    const std::string_view rest = std::string_view(word).substr(2);
    const auto all_of = [&](std::string_view letters) {
      return rest.find_first_not_of(letters) == rest.npos;
    };
    if ((word[1] == 'n' && all_of("0123456789")) || (word[1] == 'x' && equals != word.npos)) {
      out.push_back(word.substr(0, 2));
      out.emplace_back(rest);
    } else if ((word[1] == 'l' || word[1] == 'q') && all_of("lq")) {
      out.push_back(word);
    } else {
      return unknown(word);
    }
  }
  const bool all_is_the_programs = at < words.size() && words[at] == "--";
  if (all_is_the_programs) ++at;
  // mpirun would start a second program.
  for (std::size_t i = at + 1; i + 1 < words.size() && !all_is_the_programs; ++i)
    if (const spelling* s = words[i] == ":" ? find(words[i + 1]) : nullptr;
        s != nullptr && s->ours == "-n")
      return penstock::failure{
          "a job is of one program, and : " + words[i + 1] + " begins a second", 0,
          "if these are arguments, put -- before the program"};
  if (at < words.size()) out.emplace_back("--");
  out.insert(out.end(), words.begin() + static_cast<std::ptrdiff_t>(std::min(at, words.size())),
             words.end());
  return out;
}

}  // namespace penrun
