#include "tools/cli/joining.h"

#include "trust/enrolment.h"

namespace stria::cli {

std::string AddressOf(const JoinToken& token) {
  const bool v6 = token.host.find(':') != token.host.npos;
  return (v6 ? "[" + token.host + "]" : token.host) + ":" + std::to_string(token.port);
}

Result<Credentials> RequestToJoin(const AskToJoinCall& ask, const JoinToken& token, const PrivateKey& key, const std::string& name, int64_t timeout_ns,
                                  std::string* member) {
  const CertRequest csr = CertRequest::Make(key);
  const auto request = [&](std::string_view binding) { return EncodeJoinRequest(MakeJoinRequest(token.secret, name, csr, binding)); };
  ASSIGN_OR_RETURN(const std::string bytes, ask(AddressOf(token), token.authority, request, timeout_ns));
  ASSIGN_OR_RETURN(const JoinAnswer answer, DecodeJoinAnswer(bytes));
  if (member != nullptr) *member = answer.member;
  return AcceptJoin(answer, key, token.authority);
}

}  // namespace stria::cli
