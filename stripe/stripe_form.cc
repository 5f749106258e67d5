#include "stripe/stripe_form.h"

#include <algorithm>
#include <map>

#include "stripe/layout.h"
#include "stripe/layout_spec.h"

namespace stria {
namespace {

std::string Count(uint64_t n, std::string_view what) {
  return std::to_string(n) + " " + std::string(what) + (n == 1 ? "" : "s");
}

std::string_view DomainNoun(Domain domain) {
  return domain == Domain::kNode ? "node" : domain == Domain::kChannel ? "channel" : "disk";
}

// "raid5:4+1": without the settings that do not matter here.
std::string ShortName(const Layout& layout) {
  std::string name = LayoutToString(layout);
  return name.substr(0, name.find(','));
}

bool IsConfigured(const TargetView& t) { return t.configured; }
bool CanBeWritten(const TargetView& t) { return t.configured && t.usable_for_new; }
// A disk that is being emptied does not come back, and can be read meanwhile.

uint32_t UsableDisks(const std::vector<uint32_t>& disks_per_domain, uint32_t per_domain) {
  uint32_t sum = 0;
  for (uint32_t n : disks_per_domain) sum += std::min(n, per_domain);
  return sum;
}

// `groups` groups of `width` columns fit if every group finds its domains, each of which takes at most `crowd` columns of a
// group, and all columns find a disk of their own. (Dealing the disks, domain after domain, to the groups in turn shows that
// this is enough.)
bool Fits(const std::vector<uint32_t>& disks_per_domain, uint32_t groups, uint32_t width, uint32_t crowd = 1) {
  return disks_per_domain.size() * crowd >= width && UsableDisks(disks_per_domain, groups * crowd) >= groups * width;
}

// The widest stripe of at most the layout's groups and k; more columns in a group before more groups.
std::optional<StripeForm> Widest(const std::vector<uint32_t>& disks_per_domain, const Layout& layout, uint32_t crowd) {
  StripeForm best;
  for (uint32_t k = layout.k; k >= 1; --k) {
    for (uint32_t groups = layout.groups; groups * k > best.groups * best.k; --groups) {
      if (!Fits(disks_per_domain, groups, k + layout.m, crowd)) continue;
      best.groups = groups;
      best.k = k;
      break;
    }
  }
  if (best.k == 0) return std::nullopt;
  best.m = layout.m;
  while (!Fits(disks_per_domain, best.groups, best.k + best.m, best.crowd)) ++best.crowd;
  return best;
}

std::optional<StripeForm> WithFullParity(const std::vector<uint32_t>& disks_per_domain, const Layout& layout) {
  uint32_t rank = 0;
  for (const uint32_t crowd : {uint32_t{1}, std::max<uint32_t>(layout.m, 1), kMaxColumns}) {
    if (auto form = Widest(disks_per_domain, layout, crowd)) {
      form->rank = rank;
      return form;
    }
    ++rank;
  }
  return std::nullopt;
}

// Advice for too few configured domains: other domains and narrower layouts that would fit.
std::string Alternatives(const ClusterView& view, const Layout& layout, size_t domains) {
  std::string text;
  for (Domain domain : {Domain::kChannel, Domain::kDisk}) {
    if (domain <= layout.domain) continue;
    if (!Fits(DisksPerDomain(view, domain, IsConfigured), layout.groups, layout.k + layout.m)) continue;
    text += ", or use domain=" + std::string(DomainNoun(domain));
    break;
  }
  Layout other = layout;
  if (layout.k == 1 && layout.groups == 1 && domains >= 2) {
    other.m = static_cast<uint8_t>(domains - 1);
  } else if (auto widest = Widest(DisksPerDomain(view, layout.domain, IsConfigured), layout, 1)) {
    other.groups = static_cast<uint8_t>(widest->groups);
    other.k = static_cast<uint8_t>(widest->k);
  } else {
    return text;
  }
  return text + ", or layout " + ShortName(other);
}

Error TooFewConfigured(const ClusterView& view, const Layout& layout, const std::vector<uint32_t>& disks) {
  const uint32_t width = layout.k + layout.m;
  const std::string_view noun = DomainNoun(layout.domain);
  std::string text = "layout " + ShortName(layout) + " with domain " + std::string(noun) + " needs ";
  if (disks.size() < width) {
    const size_t missing = width - disks.size();
    text += Count(width, noun) + " and the cluster has " + std::to_string(disks.size()) + ": add " +
            Count(missing, noun);
  } else {
    const uint32_t usable = UsableDisks(disks, layout.groups);
    text += Count(layout.columns(), "disk") + ", at most " + std::to_string(layout.groups) + " of one " +
            std::string(noun) + ", and the cluster has " + std::to_string(usable) + ": add " +
            Count(layout.columns() - usable, "disk");
  }
  return Error(FsError::kTooFewDomains, text + Alternatives(view, layout, disks.size()));
}

uint32_t LeastDisks(const Layout& layout) { return layout.min_copies > 0 ? layout.min_copies : 1 + layout.m; }

std::string Joining(uint64_t n, std::string_view noun) {
  return n == 1 ? "another " + std::string(noun) + " joins" : std::to_string(n) + " more " + std::string(noun) + "s join";
}

// The disks or nodes that must join for whole stripes; "" if none.
std::string Lacking(const Layout& layout, const std::vector<uint32_t>& disks) {
  const uint32_t width = layout.k + layout.m;
  if (disks.size() < width) return Joining(width - disks.size(), DomainNoun(layout.domain));
  const uint32_t usable = UsableDisks(disks, layout.groups);
  return usable < layout.columns() ? Joining(layout.columns() - usable, "disk") : "";
}

std::string Spelled(const StripeForm& f) {
  const std::string k = std::to_string(f.k), m = std::to_string(f.m);
  if (f.groups > 1) return std::to_string(f.groups) + "x" + k + "+" + m;
  if (f.k == 1 && f.m == 0) return "1 copy";
  if (f.k == 1) return std::to_string(f.m + 1) + " copies";
  return f.m == 0 ? k + " columns" : k + "+" + m;
}

}  // namespace

std::vector<uint32_t> DisksPerDomain(const ClusterView& view, Domain domain, const DiskPredicate& pred) {
  std::vector<DomainKey> keys;
  for (const TargetView& t : view.targets) {
    if (pred(t)) keys.push_back(DomainOf(t, domain));
  }
  std::ranges::sort(keys);
  std::vector<uint32_t> out;
  for (size_t i = 0; i < keys.size(); ++i) {
    if (i == 0 || keys[i] != keys[i - 1]) out.push_back(0);
    ++out.back();
  }
  return out;
}

std::optional<StripeForm> BestForm(const std::vector<uint32_t>& disks_per_domain, const Layout& layout) {
  auto best = WithFullParity(disks_per_domain, layout);
  Layout thin = layout;
  thin.groups = thin.k = 1;
  for (uint32_t lacking = 1; !best && layout.m + 1 >= LeastDisks(layout) + lacking; ++lacking) {
    thin.m = static_cast<uint8_t>(layout.m - lacking);
    best = WithFullParity(disks_per_domain, thin);
    if (best) best->rank += 3 * lacking;
  }
  return best;
}

uint32_t RankOf(const ClusterView& view, const StripeShape& shape, const std::vector<TargetId>& targets,
                const Layout& layout) {
  std::map<std::pair<uint32_t, DomainKey>, uint32_t> columns;
  uint32_t crowd = 1;
  for (uint16_t c = 0; c < targets.size(); ++c) {
    const TargetView* t = view.Find(targets[c]);
    if (t == nullptr) continue;
    crowd = std::max(crowd, ++columns[{GroupOf(shape, ColumnIndex(c)), DomainOf(*t, layout.domain)}]);
  }
  const uint32_t lacking = layout.m > shape.m ? layout.m - shape.m : 0;
  return 3 * lacking + (crowd == 1 ? 0 : crowd <= shape.m ? 1 : 2);
}

Result<void> CheckLayoutFits(const ClusterView& view, const Layout& layout) {
  const std::vector<uint32_t> disks = DisksPerDomain(view, layout.domain, IsConfigured);
  if (Fits(disks, layout.groups, layout.k + layout.m)) return Ok();
  if (layout.min_copies > 0 && Fits(disks, 1, layout.min_copies)) return Ok();  // so little was asked for
  return TooFewConfigured(view, layout, disks);
}

Error AllBeingEmptied(const ClusterView& view) {
  const bool any = std::ranges::any_of(view.targets, [](const TargetView& t) { return t.configured; });
  if (!any || std::ranges::any_of(view.targets, TakesNew)) return Error();
  return Error(FsError::kAllEmptied, "every disk is being emptied, so that nothing can be written: add a node or disk, or stop "
                                     "draining one (stria node undrain NAME)");
}

Error TooFewUp(const ClusterView& view, const Layout& layout) {
  const uint32_t least = LeastDisks(layout);
  const auto up = static_cast<uint64_t>(std::ranges::count_if(view.targets, CanBeWritten));
  const auto all = static_cast<uint64_t>(std::ranges::count_if(view.targets, TakesNew));
  const uint64_t missing = least > up ? least - up : 1;  // those that have just failed the writer are among them
  std::string text = "layout " + RoomName(layout) + " needs " + Count(least, "disk") + " at least, and " +
                     std::to_string(up) + " can be written: ";
  if (all > up) text += "bring back nodes and disks that are down, or ";
  text += "add " + Count(missing, "disk");
  if (layout.m > 0 && layout.min_copies == 0 && up > 0) {
    text += ", or let the layout do with fewer copies for the time being: " + ShortName(layout) + ",min=" +
            std::to_string(std::min<uint64_t>(up, layout.m));
  }
  return Error(FsError::kTooFewDomains, text);
}

Error TooFull(const Layout& layout, size_t with_space, size_t up) {
  return Error(FsError::kNoSpace, "layout " + RoomName(layout) + " needs space on " +
                                      Count(LeastDisks(layout), "disk") + " at least, and " +
                                      std::to_string(with_space) + " of the " + std::to_string(up) +
                                      " that can be written have it: delete files or add disks");
}

std::string RoomName(const Layout& layout) {
  std::string name = ShortName(layout);
  if (layout.domain != Domain::kNode) name += ",domain=" + std::string(DomainNoun(layout.domain));
  return name + (layout.min_copies > 0 ? ",min=" + std::to_string(layout.min_copies) : "");
}

LayoutRoom RoomFor(const ClusterView& view, const Layout& layout, bool as_if_all_up) {
  const std::vector<uint32_t> all = DisksPerDomain(view, layout.domain, TakesNew);
  const std::vector<uint32_t> now = as_if_all_up ? all : DisksPerDomain(view, layout.domain, CanBeWritten);
  const std::optional<StripeForm> form = BestForm(now, layout);
  LayoutRoom room;
  room.layout = RoomName(layout);
  room.none = !form;
  room.stripes = form ? Spelled(*form) : "nothing";
  if (form && form->IsWhole(layout)) return room;
  if (form) {
    room.thin = form->m < layout.m;
    room.narrow = !room.thin && (form->groups < layout.groups || form->k < layout.k);
    room.crowded = form->crowd > 1;
  }
  const std::optional<StripeForm> if_back = BestForm(all, layout);
  const bool back_helps = if_back && (!form || if_back->BetterThan(*form));
  room.until = back_helps ? "what is down is back" : "";
  if (const std::string join = Lacking(layout, all); !join.empty()) room.until += (back_helps ? " and " : "") + join;
  return room;
}

std::string ToldOf(const LayoutRoom& room, std::string_view verb) {
  std::string text;
  if (room.none) {
    text = "nothing can be written with layout " + room.layout;
  } else {
    text = "new stripes of layout " + room.layout + " " + std::string(verb) + " " + room.stripes;
    if (room.crowded) text += ", crowded onto disks that fail together";
    if (room.thin) text += ", fewer than the layout asks for";
  }
  return text + (room.until.empty() ? "" : " until " + room.until);
}

}  // namespace stria
