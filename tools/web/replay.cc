#include <charconv>
#include <cstdint>
#include <fstream>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "tools/web/source.h"

namespace stria::web {
namespace {

constexpr double kMaxAgeS = 1e6;
constexpr int kMaxDepth = 64;  // of lists and objects in each other

// A byte that is not UTF-8 is \udcXX in JSON of Stria (JsonQuoted), which the library's parser does not take. While it parses,
// U+10FFXX stands for the byte XX.
constexpr std::string_view kStandsFor = "\xf4\x8f";  // the first bytes of that in UTF-8

// nullopt if lists and objects are too deep in each other.
std::optional<std::string> WithStandIns(std::string_view text) {
  std::string out;
  int depth = 0;
  bool quoted = false, after_high = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (!quoted || c != '\\' || i + 1 == text.size()) {
      if (c == '"') quoted = !quoted;
      else if (!quoted) depth += (c == '[' || c == '{') - (c == ']' || c == '}');
      if (depth > kMaxDepth) return std::nullopt;
      after_high = false;
      out += c;
      continue;
    }
    const std::string_view digits = text.substr(i + 2, 4);
    uint32_t code = 0;
    const auto [end, failed] = std::from_chars(digits.data(), digits.data() + digits.size(), code, 16);
    const bool unicode = text[i + 1] == 'u' && digits.size() == 4 && failed == std::errc() && end == digits.data() + 4;
    if (unicode && code >= 0xdc80 && code <= 0xdcff && !after_high) {
      out += "\\udbff\\udf";
      out += digits.substr(2);
    } else {
      out += text.substr(i, unicode ? 6 : 2);
    }
    after_high = unicode && code >= 0xd800 && code < 0xdc00;
    i += unicode ? 5 : 1;
  }
  return out;
}

void TakeStandInsBack(std::string* text) {
  for (size_t at = 0; (at = text->find(kStandsFor, at)) != std::string::npos; ++at) {
    if (at + 4 > text->size()) return;
    const auto third = static_cast<uint8_t>((*text)[at + 2]), fourth = static_cast<uint8_t>((*text)[at + 3]);
    if (third == 0xbe || third == 0xbf) text->replace(at, 4, 1, static_cast<char>(third == 0xbe ? fourth : fourth + 0x40));
  }
}

void TakeStandInsBack(Json* j) {
  if (j->is_string()) return TakeStandInsBack(&j->get_ref<std::string&>());
  if (j->is_structured()) {
    for (Json& within : *j) TakeStandInsBack(&within);
  }
}

// Of a member that need not be there.
Result<double> NumberOf(const Json& frame, const char* key, double fallback, double max, const Error& wrong) {
  const auto found = frame.find(key);
  if (found == frame.end()) return fallback;
  if (!found->is_number()) return wrong;
  const double value = found->get<double>();
  if (!(value >= 0) || value > max) return wrong;
  return value;
}

Result<ReplayFrame> ParseFrame(const Json& frame, const std::string& where) {
  const Error wrong(FsError::kInval, where + " is not a frame: {\"age_s\": SECONDS, \"status\": {..}} or {\"age_s\": SECONDS, \"error\": \"..\"}");
  if (!frame.is_object()) return wrong;
  ASSIGN_OR_RETURN(const double age_s, NumberOf(frame, "age_s", 0, kMaxAgeS, wrong));
  ASSIGN_OR_RETURN(const double answer_ms, NumberOf(frame, "answer_ms", -1, kMaxAgeS, wrong));
  const auto age_ms = static_cast<int64_t>(age_s * 1000);
  const auto status = frame.find("status"), error = frame.find("error");
  if (status != frame.end() && error == frame.end() && status->is_object()) return ReplayFrame{age_ms, *status, answer_ms};
  if (error == frame.end() || status != frame.end() || !error->is_string()) return wrong;
  return ReplayFrame{age_ms, Error(FsError::kUnavailable, error->get<std::string>()), answer_ms};
}

}  // namespace

Result<Replay> ParseReplay(std::string_view text, const std::string& name) {
  const std::optional<std::string> stand_ins = WithStandIns(text);
  Json all = stand_ins ? Json::parse(*stand_ins, nullptr, false) : Json();
  TakeStandInsBack(&all);
  const Error wrong(FsError::kInval, name + " is not a recording: a JSON object with a list of \"frames\" (docs/web.md)");
  if (!all.is_object() || !all.contains("frames") || !all["frames"].is_array() || all["frames"].empty()) return wrong;
  Replay replay;
  for (const Json& frame : all["frames"]) {
    ASSIGN_OR_RETURN(ReplayFrame parsed, ParseFrame(frame, name + ": frame " + std::to_string(replay.frames.size() + 1)));
    if (!replay.frames.empty() && parsed.age_ms > replay.frames.back().age_ms) {
      return Error(FsError::kInval, name + ": frame " + std::to_string(replay.frames.size() + 1) + " is older than the one before it");
    }
    replay.frames.push_back(std::move(parsed));
  }
  if (all.contains("events")) {
    if (!all["events"].is_array()) return wrong;
    replay.events = all["events"];
  }
  return replay;
}

Result<Replay> LoadReplay(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) return Error(FsError::kNoEnt, "cannot read " + path);
  const std::string text{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
  return ParseReplay(text, path);
}

void TakeReplay(const Replay& replay, int64_t now_ms, Board* board) {
  for (const ReplayFrame& f : replay.frames) board->Take(f.status, now_ms - f.age_ms, f.answer_ms);
  board->TakeEvents(replay.events);
}

}  // namespace stria::web
