#include "bindings/cli/published/row.h"

#include "bindings/cli/client.h"
#include "bindings/cli/quantity.h"

namespace hawser::cli::published {

using nlohmann::ordered_json;

Row::Row(const ordered_json& table, const ordered_json& row)
    : table_(table.value("name", "")),
      name_(row.value("name", "")),
      flops_(table.value("flops", ordered_json::object())),
      row_(table.value("all_rows", ordered_json::object())) {
  if (row.contains("variant")) {
    const auto variants = table.value("variants", ordered_json::object());
    const std::string variant = row["variant"].dump();
    if (!row["variant"].is_string() || !variants.contains(row["variant"].get<std::string>()))
      fail("/variant is " + variant + ", which the table does not have");
    row_.merge_patch(variants[row["variant"].get<std::string>()]);
  }
  row_.merge_patch(row);
  const std::string use = field("use").dump();
  if (use == "\"fit\"")
    use_ = Use::kFit;
  else if (use == "\"held back\"")
    use_ = Use::kHeldBack;
  else if (use != "\"not enough stated\"")
    fail("/use is " + use + R"(; use "fit", "held back" or "not enough stated")");
  if (use_ != Use::kNotEnough) check_degrees();
  reported();
}

void Row::fail(const std::string& message) const { refuse(table_ + ", row \"" + name_ + "\": " + message); }

const ordered_json& Row::field(const char* key) const {
  const auto found = row_.find(key);
  if (found == row_.end()) fail("/" + std::string(key) + " is missing");
  return *found;
}

int64_t Row::integer(const char* key) const {
  const ordered_json& value = field(key);
  constexpr int64_t kMost = int64_t{1} << 30;
  if (!value.is_number_integer() || value.get<int64_t>() < 1 || value.get<int64_t>() > kMost)
    fail("/" + std::string(key) + " is " + value.dump() + "; write an integer from 1 to 2^30");
  return value.get<int64_t>();
}

void Row::check_degrees() const {
  const auto n = [&](const char* key) { return static_cast<long long>(integer(key)); };
  const long long ranks = n("tp") * n("cp") * n("pp") * n("dp");
  if (ranks != n("gpus"))
    fail(format_text("tp %lld x cp %lld x pp %lld x dp %lld are %lld ranks, not %lld GPUs", n("tp"), n("cp"),
                     n("pp"), n("dp"), ranks, n("gpus")));
  if (n("batch") % (n("dp") * n("micro_batch")) != 0)
    fail(format_text("dp %lld x micro_batch %lld does not divide batch %lld", n("dp"), n("micro_batch"),
                     n("batch")));
  const long long missing = row_.value("fewer_at_both_ends", false) ? 2 : 0;
  if ((n("layers") + missing) % (n("pp") * n("chunks")) != 0)
    fail(format_text("pp %lld x chunks %lld does not divide %lld layers", n("pp"), n("chunks"),
                     n("layers") + missing));
}

ordered_json Row::layers() const {
  const int64_t chunks = integer("pp") * integer("chunks");
  const bool fewer = row_.value("fewer_at_both_ends", false);
  const int64_t each = (integer("layers") + (fewer ? 2 : 0)) / chunks;
  ordered_json layers(static_cast<size_t>(chunks), each);
  if (fewer) layers.front() = layers.back() = each - 1;
  return layers;
}

ordered_json Row::config() const {
  ordered_json config = {
      {"device", "cuda"},
      {"precision", "bf16"},
      {"model",
       {{"layers", integer("layers")},
        {"width", integer("width")},
        {"heads", integer("heads")},
        {"vocab_size", integer("vocabulary")},
        {"context", integer("sequence")}}},
      {"mesh",
       {{"tp", integer("tp")}, {"cp", integer("cp")}, {"pp", integer("pp")}, {"dp_shard", integer("dp")}}},
      {"batch",
       {{"micro_batch", integer("micro_batch")},
        {"grad_accum_steps", integer("batch") / (integer("dp") * integer("micro_batch"))},
        {"sequence", integer("sequence")}}}};
  if (integer("pp") > 1)
    config["pipeline"] = {{"schedule", integer("chunks") > 1 ? "interleaved" : "1f1b"},
                          {"chunks", integer("chunks")},
                          {"layers", layers()}};
  config.merge_patch(row_.value("config", ordered_json::object()));
  return config;
}

ordered_json Row::stack_changes() const { return row_.value("stack", ordered_json::object()); }

double Row::reported() const {
  const char* const key = is_in_seconds() ? "seconds" : "tflops";
  const ordered_json value = field("reported").value(key, ordered_json());
  if (!value.is_number() || value.get<double>() <= 0)
    fail("/reported/" + std::string(key) + " is " + value.dump() + ", not a number above 0");
  return value.get<double>();
}

double Row::tokens() const {
  return static_cast<double>(integer("batch")) * static_cast<double>(integer("sequence"));
}

double Row::in_unit(double seconds, double parameters) const {
  if (is_in_seconds()) return seconds;
  const auto of = [&](const char* key) { return flops_.value(key, 0.0); };
  const auto width = static_cast<double>(integer("width")), layers = static_cast<double>(integer("layers"));
  const double layer =
      width * (of("layer") * width + of("attention") * static_cast<double>(integer("sequence")));
  const double token = of("parameters") * parameters + layers * layer +
                       of("head") * width * static_cast<double>(integer("vocabulary"));
  return token * tokens() / seconds / static_cast<double>(gpus()) / 1e12;
}

}  // namespace hawser::cli::published
