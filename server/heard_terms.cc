#include "server/heard_terms.h"

#include <algorithm>
#include <utility>

#include "common/sabotage.h"

namespace stria {

std::string HeardTerms::NameOf(const Peer* by) {
  return by == nullptr ? "" : std::string(by->key_hash.begin(), by->key_hash.end());
}

void HeardTerms::Settle() {
  std::erase_if(claims_, [this](const Asked& c) { return c.said.term <= known_.term; });
}

bool HeardTerms::IsClaimed(const SaidTerm& said) const {
  return std::ranges::any_of(claims_, [&](const Asked& c) { return c.said == said; });
}

void HeardTerms::Load(const Kept& kept) {
  for (const SaidTerm& said : {kept.known, kept.claimed}) {
    if (said.proof != 0 && !IsClaimed(said)) claims_.push_back({said, ""});
  }
  Settle();
}

HeardTerms::Kept HeardTerms::ToKeep() const {
  Kept out{known_, {}};
  for (const Asked& c : claims_) {
    if (c.said.term > out.claimed.term) out.claimed = c.said;
  }
  return out;
}

uint64_t HeardTerms::Highest() const { return std::max(known_.term, ToKeep().claimed.term); }

void HeardTerms::Learn(const SaidTerm& said) {
  const bool newer = said.term > known_.term;
  const bool proved = said.term == known_.term && known_.proof == 0;
  if (!newer && !proved) return;
  known_ = said;
  // Who was wrong may have been told by a server that did not know its keys.
  if (newer) liars_.clear();
  Settle();
}

bool HeardTerms::Claim(const Peer* by, const SaidTerm& said) {
  if (said.term <= known_.term || said.proof == 0 || Sabotaged(Sabotage::kIgnoreTerms)) return true;
  const std::string name = NameOf(by);
  if (liars_.contains(name)) return true;
  const auto before = std::ranges::find_if(claims_, [&](const Asked& c) { return c.by == name; });
  if (before != claims_.end() && said.term <= before->said.term) return true;
  if (IsClaimed(said)) {
    if (before != claims_.end()) claims_.erase(before);  // it has heard of a later life since
    return true;
  }
  if (before != claims_.end()) {
    before->said = said;
  } else {
    if (claims_.size() >= kMaxTermClaims) return false;
    claims_.push_back({said, name});
  }
  on_claim_();
  return true;
}

HeardTerms::Asked HeardTerms::ToAsk() const {
  const auto highest = std::ranges::max_element(claims_, {}, [](const Asked& c) { return c.said.term; });
  return highest == claims_.end() ? Asked{known_, ""} : *highest;
}

Error HeardTerms::Answered(const Asked& asked, uint64_t term) {
  if (Sabotaged(Sabotage::kIgnoreTerms)) return Error();
  if (term != 0 && term < known_.term) {
    return Error(FsError::kNotLeader, "an old copy of the metadata is served there (life " + std::to_string(term) +
                                          " of its server): life " + std::to_string(known_.term) + " has been heard of");
  }
  if (term != 0) {
    if (asked.said.term > term) {
      std::erase_if(claims_, [&](const Asked& c) { return c.said == asked.said || (!asked.by.empty() && c.by == asked.by); });
      if (liars_.size() >= kMaxTermLiars) liars_.clear();
      if (!asked.by.empty()) liars_.insert(asked.by);
    }
    std::erase_if(claims_, [&](const Asked& c) { return c.said.term <= term; });
  }
  for (const Asked& c : claims_) {
    if (c.said == asked.said) continue;
    return Error(FsError::kRetryLater, "the metadata server has not been asked about life " + std::to_string(c.said.term) +
                                           " yet, which others have heard of");
  }
  return Error();
}

}  // namespace stria
