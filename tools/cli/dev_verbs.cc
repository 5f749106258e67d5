// stria dev up|down|kill|start|add|mount|env|status
#include <memory>

#include "common/printable.h"
#include "tools/cli/context.h"
#include "tools/cli/dev/dev_cluster.h"
#include "tools/cli/dev/dev_metas.h"
#include "tools/cli/dev/process.h"

namespace stria::cli {
namespace {

Json ClusterJson(const DevCluster& c) {
  Json j = Json::parse(EncodeDevCluster(c));
  for (size_t i = 0; i < c.processes.size(); ++i) {
    j["processes"][i]["running"] = IsRunning(c.processes[i].pid, c.processes[i].start_time);
  }
  return j;
}

// Opens D, acts, prints the cluster as it is then.
int Act(const Context& ctx, const std::string& dir, bool create,
        const std::function<Result<void>(DevDir&)>& act,
        const std::function<std::string(const DevCluster&)>& sentence) {
  CatchInterrupts();
  auto d = DevDir::Open(ctx, dir, create);
  if (!d.ok()) return ctx.Fail(d.error());
  const auto done = act(**d);
  if (!done.ok())
    return ctx.Fail(done.code() == FsError::kUnavailable ? kExitSoftware : ExitCodeFor(done.error()),
                    done.error());
  if (ctx.json) {
    *ctx.out << Dump(ClusterJson((*d)->cluster()));
  } else if (const std::string text = sentence((*d)->cluster()); !text.empty()) {
    *ctx.out << PrintableLines(text) << "\n";
  }
  return kExitOk;
}

std::string AfterUp(const DevCluster& c) {
  if (c.MetaAddress().empty()) return "etcd runs\nstop:  stria dev down --dir " + c.dir;
  const size_t metas = c.Metas().size();
  std::string text = "the cluster runs: " + (metas > 1 ? std::to_string(metas) + " metadata servers, " : "") + Count(static_cast<uint64_t>(c.Nodes()), "node", "nodes") +
                     ", layout " + c.layout + (c.secured ? "" : ", INSECURE");
  for (const DevProcess& p : c.processes) {
    if (p.kind == DevProcess::Kind::kMount) text += ", mounted at " + p.address;
  }
  return text + "\nnext:  eval \"$(stria dev env --dir " + c.dir +
         ")\" && stria status\nstop:  stria dev down --dir " + c.dir;
}

int RunStatus(const Context& ctx, const std::string& dir) {
  const auto c = DevDir::Peek(dir);
  if (!c.ok()) return ctx.Fail(c.error());
  Table t;
  t.header = {"NAME", "STATE", "PID", "ADDRESS", "LOG"};
  t.right = {false, false, true};
  bool all = true;
  for (const DevProcess& p : c->processes) {
    const bool runs = IsRunning(p.pid, p.start_time);
    all = all && runs;
    t.rows.push_back(
        {p.name, runs ? "running" : "stopped", runs ? std::to_string(p.pid) : "-", p.address, p.log});
  }
  *ctx.out << (ctx.json ? Dump(ClusterJson(*c)) : RenderTable(t, 0));
  return all ? kExitOk : kExitNo;
}

int RunEnv(const Context& ctx, const std::string& dir) {
  const auto c = DevDir::Peek(dir);
  if (!c.ok()) return ctx.Fail(c.error());
  const std::string trust = c->secured ? c->AdminTrust() : "off";
  if (ctx.json) {
    *ctx.out << Dump({{"STRIA_META", c->MetaAddress()}, {"STRIA_TRUST", trust}});
  } else {
    *ctx.out << "export STRIA_META=" << c->MetaAddress() << "\nexport STRIA_TRUST=" << ShellQuoted(trust) << "\n";
  }
  return kExitOk;
}

struct DevArgs : DevUpArgs {
  std::string name;
  std::string at;
  std::string node = "n1";
  std::string options;
  int add_disks = 0;
};

CLI::App* AddVerb(CLI::App* dev, Context& ctx, DevArgs* args, const std::string& name,
                  const std::string& help, const std::string& example) {
  CLI::App* verb = dev->add_subcommand(name, help);
  verb->add_option("--dir,-d", args->dir, "Where the cluster lives")->required();
  verb->add_flag("--json", ctx.json, "Print JSON");
  verb->footer("Example:\n  " + example);
  return verb;
}

void AddUp(CLI::App* dev, Context& ctx, const std::shared_ptr<DevArgs>& args) {
  CLI::App* up =
      AddVerb(dev, ctx, args.get(), "up", "Make a cluster, or start one that is there; returns when it works",
              "stria dev up --dir /tmp/try --nodes 5 --disks 2 --mount /tmp/try/mnt --layout raid5:4+1");
  up->add_option("--nodes", args->nodes, "Data servers, n1 .. (default 5)")
      ->check(CLI::Range(1, kMaxDevNodes));
  up->add_option("--disks", args->disks, "Disks (directories) of each (default 2)")
      ->check(CLI::Range(1, kMaxDevDisks));
  up->add_option("--mount", args->mount, "Mount it here (as on node n1)");
  up->add_option("--layout", args->layout,
                 "Of the root directory (default raid5:4+1, or what fits on fewer nodes)");
  up->add_flag("--insecure", args->insecure, "A new cluster without certificates: nothing is encrypted, everybody may do everything");
  up->add_option("--data-security", args->data_security, "Of a new cluster: protection of data on the wire (default privacy)")
      ->check(CLI::IsMember({"privacy", "integrity", "auth"}))
      ->excludes("--insecure");
  up->add_option("--metas", args->metas, "Of a new cluster: metadata servers (default 1); several agree through three members of etcd")
      ->check(CLI::Range(1, kMaxDevMetas));
  up->add_flag("--only-etcd", args->only_etcd, "Only the members of etcd, for tests of them")->group("");
  auto port = std::make_shared<std::string>("auto");
  up->add_option("--port-base", *port, "Port of meta, the nodes' follow (default: auto, any free ones)");
  up->callback([&ctx, args, port] {
    ctx.run = [&ctx, args, port] {
      if (*port != "auto") {
        const auto number = ParseBytes(*port);
        if (!number.ok() || *number < 1 || *number > 65535 - kMaxDevNodes) {
          return ctx.Fail(Error(FsError::kInval, "--port-base is 'auto' or a port from 1 to " +
                                                     std::to_string(65535 - kMaxDevNodes)));
        }
        args->port_base = static_cast<int>(*number);
      }
      return Act(
          ctx, args->dir, true, [args](DevDir& d) { return d.Up(*args); }, AfterUp);
    };
  });
}

}  // namespace

void AddDevVerbs(CLI::App& app, Context& ctx) {
  CLI::App* dev = app.add_subcommand("dev", "A whole cluster on this machine, for trying and testing");
  dev->require_subcommand(1);
  auto args = std::make_shared<DevArgs>();
  AddUp(dev, ctx, args);

  CLI::App* down = AddVerb(dev, ctx, args.get(), "down", "Stop everything; the data stays",
                           "stria dev down --dir /tmp/try");
  down->callback([&ctx, args] {
    ctx.run = [&ctx, args] {
      return Act(
          ctx, args->dir, false, [](DevDir& d) { return d.Down(); },
          [](const DevCluster& c) { return "stopped; the data stays in " + c.dir; });
    };
  });

  CLI::App* kill =
      AddVerb(dev, ctx, args.get(), "kill", "kill -9 of one process", "stria dev kill n3 --dir /tmp/try");
  kill->add_option("NAME", args->name, "meta (or meta1 ..), n1 .., mount ..")->required();
  kill->callback([&ctx, args] {
    ctx.run = [&ctx, args] {
      return Act(
          ctx, args->dir, false, [args](DevDir& d) { return d.Kill(args->name); },
          [](const DevCluster&) { return ""; });
    };
  });

  CLI::App* start =
      AddVerb(dev, ctx, args.get(), "start", "Start one process again; returns when it is in service",
              "stria dev start n3 --dir /tmp/try");
  start->add_option("NAME", args->name, "meta (or meta1 ..), n1 .., mount ..")->required();
  start->callback([&ctx, args] {
    ctx.run = [&ctx, args] {
      return Act(
          ctx, args->dir, false, [args](DevDir& d) { return d.Start(args->name); },
          [](const DevCluster&) { return ""; });
    };
  });

  CLI::App* add = AddVerb(dev, ctx, args.get(), "add", "Add a fresh node", "stria dev add n6 --dir /tmp/try");
  add->add_option("NAME", args->name, "n6, say")->required();
  add->add_option("--disks", args->add_disks, "Its disks (default: as many as the others)")
      ->check(CLI::Range(1, kMaxDevDisks));
  add->callback([&ctx, args] {
    ctx.run = [&ctx, args] {
      return Act(
          ctx, args->dir, false, [args](DevDir& d) { return d.Add(args->name, args->add_disks); },
          [](const DevCluster&) { return ""; });
    };
  });

  CLI::App* mount = AddVerb(dev, ctx, args.get(), "mount", "Add a mount, as on one of the nodes",
                            "stria dev mount --dir /tmp/try --at /tmp/try/mnt2 --node n2");
  mount->add_option("--at", args->at, "The mount point")->required();
  mount->add_option("--node", args->node, "The node it lives on (default n1)");
  mount->add_option("-o,--options", args->options, "Mount options (stria-mount --help)");
  mount->callback([&ctx, args] {
    ctx.run = [&ctx, args] {
      return Act(
          ctx, args->dir, false, [args](DevDir& d) { return d.AddMount(args->at, args->node, args->options); },
          [](const DevCluster&) { return ""; });
    };
  });

  CLI::App* env =
      AddVerb(dev, ctx, args.get(), "env", "Print the line that makes other commands find this cluster",
              "eval \"$(stria dev env --dir /tmp/try)\"");
  env->callback([&ctx, args] { ctx.run = [&ctx, args] { return RunEnv(ctx, args->dir); }; });

  CLI::App* status = AddVerb(dev, ctx, args.get(), "status", "Which processes run (exit 0: all of them)",
                             "stria dev status --dir /tmp/try");
  status->callback([&ctx, args] { ctx.run = [&ctx, args] { return RunStatus(ctx, args->dir); }; });
}

}  // namespace stria::cli
