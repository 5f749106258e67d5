// What one of several metadata servers sees of all of them, at any moment: what it knows itself is of now, what only the others know of
// themselves is asked for again and again.
//
// For the executor's thread.
#pragma once

#include <cstdint>

#include "api/replica_api.h"
#include "common/exec/task.h"
#include "meta/replica/member_desk.h"
#include "meta/replica/meta_node.h"

namespace stria {

class MemberView {
 public:
  // Both outlive it, and its task.
  MemberView(const MetaNode* node, MemberDesk* desk) : node_(node), desk_(desk) {}

  // Asks the others, all the time.
  Task<void> Keep();
  // As MemberStatus answers it, without a wait. Who was not reached lately is so (MemberRole::kUnreachable).
  MemberStatusReply Now() const;

 private:
  const MemberState* Said(const std::string& member) const;  // null: nobody has, lately
  MemberState StateOf(const std::string& member) const;

  const MetaNode* const node_;
  MemberDesk* const desk_;
  MemberStatusReply said_;  // the last answer
  int64_t said_ns_ = 0;
  bool asked_ = false;
};

}  // namespace stria
