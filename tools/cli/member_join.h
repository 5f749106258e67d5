// `stria join` with a token of role meta: the machine becomes one of several metadata servers. As root.
#pragma once

#include <optional>
#include <string>

#include "tools/cli/context.h"
#include "trust/credentials.h"
#include "trust/enrolment.h"

namespace stria::cli {

// In the directory of certificates: the token that it joined by, so that the same command again is no harm.
inline constexpr char kJoinedBy[] = "/joined-by";

struct MetaJoin {
  const Credentials* own = nullptr;  // as given for the token
  std::string member;                // JoinAnswer::member
  std::string address;               // by which others reach this machine; "": as the settings say, or its host's name
  std::string token_id;
};
// Exit code. The same again, with the same token, goes on where it has ended.
int JoinAsMeta(const Context& ctx, const MetaJoin& join);
// The machine has joined by this very token: then as JoinAsMeta. None: it has not.
std::optional<int> JoinedAsMeta(const Context& ctx, const std::string& token_id);

}  // namespace stria::cli
