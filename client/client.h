// A whole client in one object: session, data peers, stripe pool, reader, Vfs. stria-mount and the
// simulator build one each. Executor's thread only; destroying it at any point is a crash.
#pragma once

#include <map>
#include <memory>
#include <utility>

#include "client/io/peers.h"
#include "client/io/stripe_io.h"
#include "client/io/stripe_pool.h"
#include "client/io/stripe_reader.h"
#include "client/session/meta_session.h"
#include "client/vfs/vfs.h"
#include "common/exec/pool.h"
#include "stripe/codec.h"

namespace stria {

struct ClientOptions {
  MetaSessionOptions session;
  DataPeersOptions peers;
  StripePoolOptions stripes;
  VfsOptions vfs;
};

class Client {
 public:
  // All outlive the client.
  Client(ClientOptions options, MetaConnector& meta, DataConnector& data, Pool& pool, KernelCache& kernel);
  ~Client();
  // Opens the session in the background and begins write-back.
  void Start();
  // Ok when a session is open; the reason why not after this time, or the session's timeout. It goes on being opened then.
  Task<Result<void>> WaitReady(std::optional<int64_t> within_ns = std::nullopt) { return session_.WaitReady(within_ns); }
  // Flushes, gives back allocated stripes, ends the session. Returns the flush's error; the rest is done in any case.
  Task<Result<void>> Shutdown();

  Vfs& vfs() { return vfs_; }
  MetaSession& session() { return session_; }
  DataPeers& peers() { return peers_; }
  const StripeReaderStats& read_stats() const { return reader_.stats(); }

 private:
  Task<Result<AllocateReply>> Allocate(AllocateRequest r);
  Task<void> GiveBack(std::vector<StripeId> stripes);
  void Report(const BadShard& bad);
  Task<void> SendReport(BadShard bad);
  SessionHandlers Handlers();

  CodecSet codecs_;
  MetaSession session_;
  DataPeers peers_;
  StripePool stripes_;
  StripeReader reader_;
  Vfs vfs_;
  // Shards reported lately and when: a scan over a dead disk reports each once in a while.
  std::map<ShardId, int64_t> reported_;
  TaskScope scope_;
};

}  // namespace stria
