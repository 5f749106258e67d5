#include "meta/enrolment/member_authorities.h"

#include <algorithm>

#include "common/printable.h"

namespace stria {
namespace {

constexpr size_t kMaxSaid = 8;  // of each list: nobody has more

bool Has(const std::vector<std::string>& all, const std::string& one) { return std::find(all.begin(), all.end(), one) != all.end(); }

}  // namespace

Result<void> MemberAuthorities::Note(const std::string& name, const Uuid& store, Said said) {
  const std::vector<ListedMember> others = others_();
  std::erase_if(heard_, [&](const auto& h) {
    return std::none_of(others.begin(), others.end(), [&](const ListedMember& m) { return m.name == h.first && m.store == h.second.store; });
  });
  if (std::none_of(others.begin(), others.end(), [&](const ListedMember& m) { return m.name == name && m.store == store; })) {
    return Error::Denial("'" + Printable(name) + "' with that directory is none of the metadata servers, and does not get the cluster's authority");
  }
  for (std::vector<std::string>* list : {&said.holds, &said.believes, &said.serials}) list->resize(std::min(list->size(), kMaxSaid));
  heard_[name] = {store, std::move(said)};
  return Ok();
}

const MemberAuthorities::Said* MemberAuthorities::SaidBy(const ListedMember& member) const {
  const auto it = heard_.find(member.name);
  return it == heard_.end() || it->second.store != member.store ? nullptr : &it->second.said;
}

std::vector<MemberAuthorities::Lack> MemberAuthorities::Lacking(const std::string& authority, Far far) const {
  std::vector<Lack> out;
  for (const ListedMember& m : others_()) {
    const Said* said = SaidBy(m);
    std::string why;
    if (said == nullptr) why = "has not been heard";
    else if (!stria::Has(said->holds, authority)) why = "has not got it";
    else if (far >= Far::kBelieves && !stria::Has(said->believes, authority)) why = "does not believe it yet";
    else if (far >= Far::kProves && said->signed_by != authority) why = "has no certificate of it yet";
    else if (far >= Far::kOnly && said->holds.size() > 1) why = "has the former one still";
    if (!why.empty()) out.push_back({m.name, std::move(why), m.in_sync});
  }
  return out;
}

bool MemberAuthorities::InSyncAre(const std::string& authority, Far far) const {
  const std::vector<Lack> lacking = Lacking(authority, far);
  return std::none_of(lacking.begin(), lacking.end(), [](const Lack& l) { return l.in_sync; });
}

std::string MemberAuthorities::WhoMayUse(const Sha256Hash& key, std::string_view name) const {
  for (const ListedMember& m : others_()) {
    const Said* said = SaidBy(m);
    if (said == nullptr) return "metadata server " + m.name + " has not been heard, so it may be that one's";
    if (said->key == key || m.name == name) return "it is that of the metadata server " + m.name;
  }
  return "";
}

Result<void> MemberAuthorities::CheckListed(const Sha256Hash& key) const {
  std::string unheard;
  for (const ListedMember& m : others_()) {
    const Said* said = SaidBy(m);
    if (said == nullptr) unheard = m.name;
    else if (said->key == key) return Ok();
  }
  if (!unheard.empty()) return Error(FsError::kRetryLater, "the metadata server " + unheard + " has not been heard yet");
  return Error::Denial("it is none of the metadata servers any more ('stria meta status')");
}

bool MemberAuthorities::Has(const Sha256Hash& key, const std::string& serial) const {
  for (const ListedMember& m : others_()) {
    const Said* said = SaidBy(m);
    if (said != nullptr && said->key == key && stria::Has(said->serials, serial)) return true;
  }
  return false;
}

std::string TextOf(const std::vector<MemberAuthorities::Lack>& lacking) {
  std::string out;
  for (const MemberAuthorities::Lack& l : lacking) out += (out.empty() ? "" : ", ") + l.name + " " + l.why;
  return out;
}

}  // namespace stria
