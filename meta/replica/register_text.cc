#include "meta/replica/register_text.h"

#include <cstdint>
#include <utility>

#include <nlohmann/json.hpp>

#include "api/coordinator.h"

namespace stria {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view kMacField = ",\"mac\":\"";
constexpr std::string_view kEnd = "\"}";
constexpr size_t kHexTag = 2 * std::tuple_size_v<PurposeTag>;

std::string Hex(const PurposeTag& tag) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string out;
  for (const uint8_t b : tag) {
    out.push_back(kDigits[b >> 4]);
    out.push_back(kDigits[b & 15]);
  }
  return out;
}

int Digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

// "" if it is none.
std::string FromHex(std::string_view hex) {
  std::string out;
  for (size_t i = 0; i + 1 < hex.size(); i += 2) {
    const int high = Digit(hex[i]), low = Digit(hex[i + 1]);
    if (high < 0 || low < 0) return "";
    out.push_back(static_cast<char>(high << 4 | low));
  }
  return out;
}

// Fields of an object; remembers whether all that was asked for is there and of its type.
class Fields {
 public:
  Fields(const Json* object, bool* good) : object_(object), good_(good) {
    if (!object->is_object()) *good_ = false;
  }
  const Json* Find(const char* name) const {
    if (object_->is_object()) {
      if (const auto it = object_->find(name); it != object_->end()) return &*it;
    }
    *good_ = false;
    return nullptr;
  }
  uint64_t Number(const char* name) const { return AsNumber(Find(name)); }
  std::string Text(const char* name) const { return AsText(Find(name)); }
  Uuid Id(const char* name) const {
    Uuid out;
    if (!Uuid::Parse(Text(name), &out)) *good_ = false;
    return out;
  }
  uint32_t Number32(const char* name) const {
    const uint64_t n = Number(name);
    if (n > UINT32_MAX) *good_ = false;
    return static_cast<uint32_t>(n);
  }
  std::string AsText(const Json* j) const {
    if (j != nullptr && j->is_string()) return j->get<std::string>();
    *good_ = false;
    return "";
  }

 private:
  uint64_t AsNumber(const Json* j) const {
    if (j != nullptr && j->is_number_unsigned()) return j->get<uint64_t>();
    *good_ = false;
    return 0;
  }
  const Json* object_;
  bool* good_;
};

Error Wrong(FsError code, std::string why) {
  return Error(code, "what the coordinator has of the metadata servers is not taken: " + std::move(why));
}

}  // namespace

std::string RegisterKey(const Uuid& cluster) { return "/stria/" + cluster.ToString() + "/meta"; }

std::string EncodeRegister(const Register& r, const PurposeMac& mac) {
  Json j;
  j["format"] = kRegisterFormat;
  j["version"] = r.version;
  j["nonce"] = r.nonce.ToString();
  j["incarnation"] = r.incarnation;
  j["term"] = r.term;
  j["primary"] = r.primary;
  j["in_sync"] = Json::array();
  for (const std::string& name : r.in_sync) j["in_sync"].push_back(name);
  j["min_in_sync"] = r.min_in_sync;
  j["handed"] = nullptr;
  if (r.handed) j["handed"] = {{"member", r.handed->member}, {"term", r.handed->term}};
  j["members"] = Json::object();
  for (const auto& [name, m] : r.members) {
    j["members"][name] = {{"uuid", m.uuid.ToString()}, {"address", m.address}, {"release", m.release}, {"features", m.features}};
  }
  std::string text = j.dump(-1, ' ', true, Json::error_handler_t::replace);
  text.pop_back();  // the brace, which comes after the MAC
  const std::string tag = Hex(mac.Of(text));
  return text.append(kMacField).append(tag).append(kEnd);
}

Result<Register> DecodeRegister(std::string_view text, const PurposeMac& mac) {
  const size_t tail = kMacField.size() + kHexTag + kEnd.size();
  if (text.size() > kMaxCoordinatorValueBytes || text.size() <= tail) return Wrong(FsError::kBadToken, "it is no register of this cluster");
  const std::string_view body = text.substr(0, text.size() - tail);
  const std::string_view rest = text.substr(body.size());
  if (!rest.starts_with(kMacField) || !rest.ends_with(kEnd) || !mac.Is(body, FromHex(rest.substr(kMacField.size(), kHexTag)))) {
    return Wrong(FsError::kBadToken, "it was not written with this cluster's key");
  }
  // From here on it is what a member wrote.
  const Json j = Json::parse(std::string(body) + "}", nullptr, false);
  if (j.is_discarded()) return Wrong(FsError::kCorrupt, "it is no JSON");
  bool good = true;
  const Fields top(&j, &good);
  const uint64_t format = top.Number("format");
  if (good && format > kRegisterFormat) {
    return Wrong(FsError::kVersion, "its format " + std::to_string(format) + " is of a later release; update this one");
  }
  Register r;
  r.version = top.Number("version");
  r.nonce = top.Id("nonce");
  r.incarnation = top.Number("incarnation");
  r.term = top.Number("term");
  r.primary = top.Text("primary");
  r.min_in_sync = top.Number32("min_in_sync");
  if (const Json* set = top.Find("in_sync"); set != nullptr && set->is_array()) {
    for (const Json& name : *set) r.in_sync.insert(top.AsText(&name));
  } else {
    good = false;
  }
  if (const Json* handed = top.Find("handed"); handed != nullptr && !handed->is_null()) {
    const Fields f(handed, &good);
    r.handed = MetaLife{f.Text("member"), f.Number("term")};
  }
  if (const Json* members = top.Find("members"); members != nullptr && members->is_object()) {
    for (const auto& [name, value] : members->items()) {
      const Fields f(&value, &good);
      r.members[name] = {f.Id("uuid"), f.Text("address"), f.Text("release"), f.Number32("features")};
    }
  } else {
    good = false;
  }
  if (!good) return Wrong(FsError::kCorrupt, "a field is missing, or of another type");
  RETURN_IF_ERROR(CheckRegister(r));
  return r;
}

}  // namespace stria
