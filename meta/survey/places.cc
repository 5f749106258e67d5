// What new stripes of the layouts in use are with the disks that there are: told by status, and beforehand by the verbs that
// take disks away. Nothing here decides anything: placement does (stripe/stripe_form.h).
#include <algorithm>

#include "meta/ops/ops.h"
#include "meta/survey/survey.h"
#include "stripe/stripe_form.h"

namespace stria {
namespace {

constexpr int64_t kAskedLatelyNs = 3600 * kSecond;
constexpr size_t kMaxToldLayouts = 4;  // in one sentence

}  // namespace

// The root's, those that stripes were asked of lately, and, `of_stripes`, those that stripes have which there are.
Result<std::map<std::string, Layout>> Survey::LayoutsInUse(bool of_stripes) const {
  std::map<std::string, Layout> out = asked_.Since(Now() - kAskedLatelyNs);
  Txn txn(*env_.store);
  LayoutRequest root;
  root.ino = kRootInode;
  ASSIGN_OR_RETURN(const LayoutReply reply, OpGetLayout(txn, OpCtx(), root));
  out.emplace(RoomName(reply.layout), reply.layout);
  if (of_stripes && exposure_) out.insert(exposure_->layouts.begin(), exposure_->layouts.end());
  return out;
}

Result<std::vector<LayoutRoom>> Survey::LackingRooms() const {
  std::vector<LayoutRoom> out;
  if (env_.cluster->Targets().empty()) return out;  // status has that to say
  ClusterView view = env_.cluster->View();
  for (TargetView& t : view.targets) {
    // One that is merely late, as all are after a restart of this server, is expected in seconds.
    const bool late = env_.cluster->FindNode(t.node)->state == NodeState::kSuspect;
    if (late && t.configured && !t.readable) t.usable_for_new = true;
  }
  ASSIGN_OR_RETURN(const auto layouts, LayoutsInUse(false));
  for (const auto& [_, layout] : layouts) {
    LayoutRoom room = RoomFor(view, layout, false);
    if (!room.whole()) out.push_back(std::move(room));
  }
  return out;
}

Result<std::string> Survey::RoomsWithout(const std::vector<TargetId>& targets) const {
  ClusterView view = env_.cluster->View();
  for (TargetView& t : view.targets) {
    if (std::ranges::count(targets, t.target)) t.configured = t.usable_for_new = false;
  }
  ASSIGN_OR_RETURN(const auto layouts, LayoutsInUse(true));
  std::string text;
  size_t told = 0, more = 0;
  for (const auto& [_, layout] : layouts) {
    const LayoutRoom room = RoomFor(view, layout, true);
    if (room.whole()) continue;
    if (told == kMaxToldLayouts) ++more;
    else text += "; " + ToldOf(room, "will be"), ++told;
  }
  if (more > 0) text += "; and the like for " + std::to_string(more) + (more == 1 ? " more layout" : " more layouts");
  return text;
}

}  // namespace stria
