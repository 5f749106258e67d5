// stria: the command of users and admins. Wires the verbs to gRPC.
#include <unistd.h>

#include <climits>
#include <csignal>
#include <cstdlib>
#include <iostream>
#include <memory>
#include <string>

#include "proto/admin_stubs.h"
#include "proto/grpc_transport.h"
#include "proto/stubs.h"
#include "tools/cli/context.h"

namespace stria {
namespace {

class GrpcConnector final : public cli::ClusterConnector {
 public:
  GrpcConnector() : client_(&Executor::Current(), OneConnection()), stubs_(&client_), admin_stubs_(&client_) {}
  std::shared_ptr<MetaService> Connect(const std::string& address) override { return stubs_.Connect(address); }
  std::shared_ptr<AdminService> ConnectAdmin(const std::string& address) override {
    return admin_stubs_.ConnectAdmin(address);
  }

 private:
  static GrpcClientOptions OneConnection() {
    GrpcClientOptions options;
    options.connections_per_peer = 1;
    options.pollers = 1;
    return options;
  }
  GrpcClient client_;
  TransportMetaConnector stubs_;
  TransportAdminConnector admin_stubs_;
};

// Shows the changes to be made, and asks the user at the terminal.
bool Confirm(const std::string& what) {
  std::cerr << "would: " << what << "\nGo on? [y/N] " << std::flush;
  std::string answer;
  return std::getline(std::cin, answer) && (answer == "y" || answer == "Y" || answer == "yes");
}

}  // namespace
}  // namespace stria

int main(int argc, char** argv) {
  signal(SIGPIPE, SIG_DFL);                // `stria where F | head` ends quietly
  setenv("GRPC_VERBOSITY", "NONE", 0);     // this program explains errors itself
  stria::cli::Context ctx;
  ctx.connector = [] { return std::make_unique<stria::GrpcConnector>(); };
  ctx.out = &std::cout;
  ctx.err = &std::cerr;
  ctx.out_is_tty = isatty(STDOUT_FILENO) == 1;
  ctx.err_is_tty = isatty(STDERR_FILENO) == 1;
  if (isatty(STDIN_FILENO) == 1 && ctx.err_is_tty) ctx.confirm = stria::Confirm;
  char cwd[PATH_MAX];
  if (getcwd(cwd, sizeof cwd) != nullptr) ctx.cwd = cwd;
  if (const char* meta = std::getenv("STRIA_META")) ctx.env_meta = meta;
  ctx.mounts = stria::cli::ReadMounts();
  return stria::cli::RunCommandLine(argc, argv, ctx);
}
