// What a metadata server answers about the members, in whichever role (api/replica_api.h, MemberService): who is primary, what each
// has, and changes of them, which it hands on to the primary. What an admin changes is a line of the audit of the one that he asked.
//
// For the executor's thread.
#pragma once

#include <memory>
#include <string>

#include "api/replica_api.h"
#include "common/exec/task.h"
#include "meta/replica/meta_node.h"
#include "trust/audit/audit_sink.h"

namespace stria {

class MemberDesk final : public MemberService {
 public:
  // All outlive it, and its calls. `audit` may be null.
  MemberDesk(MetaNode* node, MemberConnector* members, AuditSink* audit = nullptr) : node_(node), members_(members), audit_(audit) {}

  Task<Result<LocateReply>> Locate(LocateRequest request) override;
  Task<Result<AskReply>> Ask(AskRequest request) override;
  Task<Result<MemberStatusReply>> MemberStatus(MemberStatusRequest request) override;
  Task<Result<ChangeMembersReply>> ChangeMembers(ChangeMembersRequest request) override;
  // The same for this server itself: no admin has asked.
  Task<Result<ChangeMembersReply>> Change(ChangeMembersRequest request);

 private:
  Result<void> CheckCluster(const DataHeader& header) const;
  LocateReply Located() const;
  Task<MemberState> StateOf(std::string member, std::string address);
  Task<Result<ChangeMembersReply>> HandOn(ChangeMembersRequest request);
  Task<Result<ChangeMembersReply>> HandTo(std::string member, std::string address, ChangeMembersRequest request);
  Task<Result<ChangeMembersReply>> PromoteLosing(ChangeMembersRequest request);

  MetaNode* const node_;
  MemberConnector* const members_;
  AuditSink* const audit_;
};

}  // namespace stria
