// stria: the command of users and admins. Wires the verbs to the cluster: over TLS with the command's credentials, in the clear where
// it has none, and over a Unix socket without either.
#include <unistd.h>

#include <climits>
#include <csignal>
#include <cstdlib>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "common/printable.h"
#include "common/sentence.h"
#include "proto/admin_stubs.h"
#include "proto/bulk_transport.h"
#include "proto/join_client.h"
#include "proto/replica_stubs.h"
#include "proto/secured_ends.h"
#include "proto/stubs.h"
#include "proto/trust_stubs.h"
#include "tools/cli/arguments.h"
#include "tools/cli/context.h"
#include "trust/place.h"

namespace stria {
namespace {

constexpr char kAdminSocket[] = "/var/lib/stria/meta/admin.sock";  // as stria-meta has it by default

BulkClientOptions OneConnection() {
  BulkClientOptions options;
  options.connections_per_peer = 1;
  options.loops = 1;
  return options;
}

// Connections to one kind of addresses.
struct Connections {
  explicit Connections(const BulkClientOptions& options) : client(&Executor::Current(), options), stubs(&client), admin_stubs(&client), trust_stubs(&client), member_stubs(&client) {}
  BulkClient client;
  TransportMetaConnector stubs;
  TransportAdminConnector admin_stubs;
  TransportTrustConnector trust_stubs;
  TransportMemberConnector member_stubs;
};

class BulkConnector final : public cli::ClusterConnector {
 public:
  explicit BulkConnector(const BulkClientOptions& network) : network_options_(network) {}
  std::shared_ptr<MetaService> Connect(const std::string& address) override { return To(address).stubs.Connect(address); }
  std::shared_ptr<AdminService> ConnectAdmin(const std::string& address) override { return To(address).admin_stubs.ConnectAdmin(address); }
  std::shared_ptr<TrustService> ConnectTrust(const std::string& address) override { return To(address).trust_stubs.ConnectTrust(address); }
  std::shared_ptr<MemberService> ConnectMember(const std::string& address) override { return To(address).member_stubs.ConnectMember(address); }

 private:
  // On a Unix socket the kernel says who is there.
  Connections& To(const std::string& address) {
    const bool local = address.starts_with("unix:");
    std::unique_ptr<Connections>& one = local ? local_ : network_;
    if (!one) one = std::make_unique<Connections>(local ? OneConnection() : network_options_);
    return *one;
  }
  const BulkClientOptions network_options_;
  std::unique_ptr<Connections> network_, local_;
};

// In the usual place (trust is "") may be credentials that this user cannot read, or of another program.
Result<cli::Reach> ReachWith(const std::string& trust) {
  const bool usual = trust.empty();
  BulkClientOptions network = OneConnection();
  const auto with = [&](std::string note) {
    return cli::Reach{[network]() -> std::unique_ptr<cli::ClusterConnector> { return std::make_unique<BulkConnector>(network); }, std::move(note)};
  };
  const auto without = [&](const Error& why) -> Result<cli::Reach> {
    if (!usual) return why;
    return with(SentenceOf(why));
  };
  const Result<TrustPlace> place = FindTrust(usual ? kTrustDirectory : trust, {Role::kAdmin, Role::kMonitor, Role::kClient});
  if (!place.ok()) return without(place.error());
  if (place->is == TrustIs::kOff) return with("");
  if (place->is == TrustIs::kAbsent) return without(Error(FsError::kNoEnt, "there are none in " + place->directory));
  SecuredEndsOptions options;
  // A data node's where somebody names the directory: what looks after a node that has just joined.
  options.own = {Role::kAdmin, Role::kMonitor, Role::kClient};
  if (!usual) options.own.Add(Role::kData);
  options.talks_to = options.elsewhere = {Role::kMeta};
  const Result<std::unique_ptr<SecuredEnds>> ends = SecuredEnds::Open(place->directory, std::move(options));
  // Half of them is a mistake that is not passed over.
  if (!ends.ok()) return ends.code() == FsError::kAccess ? without(ends.error()) : Result<cli::Reach>(ends.error());
  (*ends)->Secure(&network);
  return with("");
}

// Shows the changes to be made, and asks the user at the terminal.
bool Confirm(const std::string& what) {
  std::cerr << "would: " << PrintableLines(what) << "\nGo on? [y/N] " << std::flush;
  std::string answer;
  return std::getline(std::cin, answer) && (answer == "y" || answer == "Y" || answer == "yes");
}

}  // namespace
}  // namespace stria

int main(int argc, char** argv) {
  const std::vector<std::string> words = stria::cli::TakeArguments(argc, argv);  // first: others see them
  stria::ForbidOwnCoreDump();  // it may have an admin's key
  signal(SIGPIPE, SIG_DFL);  // `stria where F | head` ends quietly
  stria::cli::Context ctx;
  ctx.connector = stria::ReachWith;
  ctx.ask_to_join = stria::AskToJoin;
  ctx.in = &std::cin;
  ctx.out = &std::cout;
  ctx.err = &std::cerr;
  ctx.out_is_tty = isatty(STDOUT_FILENO) == 1;
  ctx.err_is_tty = isatty(STDERR_FILENO) == 1;
  if (isatty(STDIN_FILENO) == 1 && ctx.err_is_tty) ctx.confirm = stria::Confirm;
  char cwd[PATH_MAX];
  if (getcwd(cwd, sizeof cwd) != nullptr) ctx.cwd = cwd;
  if (const char* meta = std::getenv("STRIA_META")) ctx.env_meta = meta;
  if (const char* trust = std::getenv("STRIA_TRUST")) ctx.env_trust = trust;
  ctx.admin_socket = stria::kAdminSocket;
  ctx.mounts = stria::cli::ReadMounts();
  ctx.own_ways = stria::cli::WaysOfThisMachine;
  std::vector<const char*> pointers;
  for (const std::string& word : words) pointers.push_back(word.c_str());
  return stria::cli::RunCommandLine(static_cast<int>(pointers.size()), pointers.data(), ctx);
}
