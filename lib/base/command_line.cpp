// See command_line.hpp.
#include "lib/base/command_line.hpp"

#include <CLI/CLI.hpp>
#include <cstdlib>
#include <string_view>

#include "lib/base/nearest.hpp"
#include "lib/base/no_memory.hpp"
#include "lib/base/sizes.hpp"

namespace penstock {

namespace {

// Before the constructors of other global objects, of which CLI11 brings some.
struct line_without_memory {
  line_without_memory() noexcept { end_by_a_line_without_memory(); }
};
[[gnu::init_priority(101)]] const line_without_memory before_all;

// Which option was meant by a word that is none.
std::string question(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* o : app.get_options())
    for (const std::string& name : o->get_lnames()) names.push_back("--" + name);
  const std::vector<std::string_view> known(names.begin(), names.end());
  for (const std::string& word : app.remaining())
    if (const auto meant = nearest_option(word, known); !meant.empty())
      return "; did you mean " + std::string(meant) + "?";
  return "";
}

}  // namespace

struct command_line::parts {
  CLI::App app;
  std::vector<std::string>* rest = nullptr;
  [[noreturn]] void end(const CLI::Error& e) const { std::exit(app.exit(e) == 0 ? 0 : 2); }
};

command_line::command_line(const std::string& name, const std::string& about)
    : parts_(std::make_unique<parts>()) {
  parts_->app.name(name);
  parts_->app.description(about);
  parts_->app.set_version_flag("--version", name + " (Penstock) " PENSTOCK_VERSION,
                               "Print the name and version of this program and exit");
  parts_->app.failure_message([](const CLI::App* app, const CLI::Error& e) {
    const bool unknown = e.get_exit_code() == static_cast<int>(CLI::ExitCodes::ExtrasError);
    return app->get_name() + ": " + e.what() + (unknown ? question(*app) : "") +
           " (--help says more)\n";
  });
}
command_line::~command_line() = default;

void command_line::footer(const std::string& text) { parts_->app.footer(text); }

void command_line::flag(const std::string& names, bool& to, const std::string& help) {
  parts_->app.add_flag_callback(
      names, [&to] { to = true; }, help);
}

void command_line::option(const std::string& names, const std::string& help, taker take,
                          const option_shape& s) {
  const CLI::callback_t given = [take = std::move(take), names](const CLI::results_t& words) {
    const std::string complaint = take(words.back());
    if (!complaint.empty()) throw CLI::ValidationError(names, complaint);
    return true;
  };
  CLI::Option* o = parts_->app.add_option(names, given, help)->required(s.required);
  o->type_name(s.type)->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  if (!s.initial.empty()) o->default_str(s.initial);
}

void command_line::text(const std::string& names, std::string& to, const std::string& help,
                        const option_shape& s) {
  option(
      names, help, [&to](const std::string& given) { return to = given, std::string(); }, s);
}

void command_line::word(const std::string& names, std::string& to,
                        const std::vector<std::string>& words, const std::string& help) {
  std::vector<std::pair<std::string, std::string>> pairs;
  pairs.reserve(words.size());
  for (const std::string& w : words) pairs.emplace_back(w, w);
  choice(names, to, std::move(pairs), to.empty() ? help : help + " [" + to + "]");
}

void command_line::bytes(const std::string& names, std::uint64_t& to, const std::string& help) {
  option(names, help,
         [&to](const std::string& given) {
           std::string_view rest = given;
           const auto n = take_number(rest);
           const unsigned shift = take_memory_unit(rest).value_or(0);
           if (!n || n->fraction > 0 || !rest.empty() ||
               n->whole > std::numeric_limits<std::uint64_t>::max() >> shift)
             return given + " is not a number of bytes, as in 64, 4K or 1M";
           return to = n->whole << shift, std::string();
         },
         {.type = "BYTES"});
}

void command_line::list(const std::string& names, std::vector<std::string>& to,
                        const std::string& help, const option_shape& s) {
  const CLI::callback_t given = [&to](const CLI::results_t& words) {
    to = words;
    return true;
  };
  CLI::Option* o = parts_->app.add_option(names, given, help)->required(s.required);
  o->type_name(s.type)
      ->expected(1, CLI::detail::expected_max_vector_size)
      ->allow_extra_args(!names.starts_with('-'));
}

void command_line::rest(std::vector<std::string>& to) {
  // The line of usage, which knows nothing of what is left to another program.
  struct with_program : CLI::Formatter {
    std::string make_usage(const CLI::App* app, std::string name) const override {
      std::string text = CLI::Formatter::make_usage(app, std::move(name));
      const std::string options = "[OPTIONS]";
      if (const auto at = text.find(options); at != text.npos)
        text.insert(at + options.size(), " PROGRAM [ARGUMENTS...]");
      return text;
    }
  };
  const auto formatter = std::make_shared<with_program>();
  formatter->column_width(parts_->app.get_formatter()->get_column_width());
  parts_->app.formatter(formatter);
  parts_->app.prefix_command();
  parts_->rest = &to;
}

void command_line::parse(int argc, const char* const* argv) {
  try {
    parts_->app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    parts_->end(e);
  }
  if (parts_->rest == nullptr) return;
  *parts_->rest = parts_->app.remaining();
  if (!parts_->rest->empty() && parts_->rest->front() == "--")
    parts_->rest->erase(parts_->rest->begin());
}

void command_line::refuse(const std::string& where, const std::string& complaint) const {
  parts_->end(CLI::ValidationError(where, complaint));
}

bool command_line::given(const std::string& name) const {
  return parts_->app.get_option(name)->count() != 0;
}

std::string command_line::help() const { return parts_->app.help(); }

std::string command_line::join(const std::vector<std::string>& words) {
  std::string all;
  for (const std::string& w : words) all += (all.empty() ? "" : "|") + w;
  return all;
}

}  // namespace penstock
