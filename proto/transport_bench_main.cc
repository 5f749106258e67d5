// Throughput and CPU of bulk calls over loopback: client and server in one process, each with its own
// executor's thread. Usage: transport_bench grpc|bulk [seconds] [connections] [calls at once] [KiB per call]
#include <sys/resource.h>

#include <cstdio>
#include <cstdlib>
#include <future>
#include <memory>
#include <string>
#include <thread>

#include "common/exec/loop_executor.h"
#include "proto/bulk_transport.h"
#include "proto/grpc_transport.h"
#include "proto/stubs.h"

namespace stria {
namespace {

// A data server that keeps nothing and always has the bytes.
class NullData final : public DataService {
 public:
  explicit NullData(size_t bytes) : bytes_(Buffer::FromString(std::string(bytes, 'd'))) {}
  Task<Result<WriteReply>> Write(WriteRequest request) override {
    WriteReply reply;
    reply.items.resize(request.items.size());
    co_return reply;
  }
  Task<Result<ReadReply>> Read(ReadRequest request) override {
    ReadReply reply;
    for (const ShardRead& item : request.items) {
      const size_t blocks = DivCeil(item.length, kChecksumBlockBytes);
      reply.items.push_back({{}, item.length, std::vector<uint32_t>(blocks)});
      reply.payload.Append(bytes_.Slice(0, item.length));
    }
    co_return reply;
  }
  Task<Result<SealReply>> Seal(SealRequest) override { co_return SealReply(); }
  Task<Result<DeleteReply>> Delete(DeleteRequest) override { co_return DeleteReply(); }
  Task<Result<InventoryReply>> Inventory(InventoryRequest) override { co_return InventoryReply(); }

 private:
  Buffer bytes_;
};

struct Load {
  bool write = false;
  uint64_t bytes = 0;  // per call; 0 measures small calls
  int64_t until_ns = 0;
  uint64_t calls = 0;
  uint64_t failed = 0;
};

Task<void> Caller(Executor* ex, std::shared_ptr<DataService> peer, Load* load, Buffer payload) {
  while (ex->NowNs() < load->until_ns) {
    bool ok;
    if (load->bytes == 0) {
      ok = (co_await peer->Inventory(InventoryRequest())).ok();
    } else if (load->write) {
      WriteRequest request;
      request.items.push_back({ShardId(1), TargetId(1), std::string(60, 't'), 0, load->bytes,
                               std::vector<uint32_t>(DivCeil(load->bytes, kChecksumBlockBytes)), false});
      request.payload = BufferChain(payload);
      ok = (co_await peer->Write(std::move(request))).ok();
    } else {
      ReadRequest request;
      request.items.push_back({ShardId(1), TargetId(1), std::string(60, 't'), 0, load->bytes});
      ok = (co_await peer->Read(std::move(request))).ok();
    }
    ++(ok ? load->calls : load->failed);
  }
}

double CpuSeconds() {
  rusage use;
  getrusage(RUSAGE_SELF, &use);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) / 1e6;
  };
  return seconds(use.ru_utime) + seconds(use.ru_stime);
}

std::unique_ptr<TransportFactory> MakeClient(Executor* ex, bool bulk, int connections) {
  if (bulk) {
    BulkClientOptions options;
    options.connections_per_peer = connections;
    return std::make_unique<BulkClient>(ex, options);
  }
  GrpcClientOptions options;
  options.connections_per_peer = connections;
  return std::make_unique<GrpcClient>(ex, options);
}

Task<void> Measure(LoopExecutor* ex, std::string address, bool bulk, int64_t ns, int connections, int at_once,
                   uint64_t bytes) {
  ex->EndHelp();  // the client is ended wherever this is
  const std::unique_ptr<TransportFactory> client = MakeClient(ex, bulk, connections);
  TransportDataConnector connector(client.get());
  const Buffer payload = Buffer::FromString(std::string(bytes, 'p'));
  struct Case {
    const char* name;
    bool write;
    uint64_t bytes;
    int at_once;
  };
  for (const Case& c : {Case{"write", true, bytes, at_once}, Case{"read", false, bytes, at_once},
                        Case{"small, one at a time", false, 0, 1}, Case{"small", false, 0, at_once}}) {
    Load load{c.write, c.bytes, ex->NowNs() + ns};
    const double cpu = CpuSeconds();
    const int64_t start = ex->NowNs();
    TaskScope scope;
    for (int i = 0; i < c.at_once; ++i) scope.Spawn(Caller(ex, connector.Connect(address), &load, payload));
    co_await scope.Join();
    const double seconds = static_cast<double>(ex->NowNs() - start) / 1e9;
    const double calls = static_cast<double>(load.calls);
    const double gb = calls * static_cast<double>(c.bytes) / 1e9;
    const double used = CpuSeconds() - cpu;
    if (c.bytes > 0) {
      std::printf("%-22s %7.0f MB/s  %5.2f CPU-s/GB", c.name, gb * 1000 / seconds, used / gb);
    } else {
      std::printf("%-22s %7.0f calls/s  %5.1f CPU-us/call", c.name, calls / seconds, used / calls * 1e6);
    }
    std::printf("  %llu failed\n", static_cast<unsigned long long>(load.failed));
    std::fflush(stdout);
  }
  ex->Stop();
}

int Main(int argc, char** argv) {
  const auto arg = [&](int i, int otherwise) { return argc > i ? std::atoi(argv[i]) : otherwise; };
  const bool bulk = argc > 1 && std::string(argv[1]) == "bulk";
  const uint64_t bytes = static_cast<uint64_t>(arg(5, 1024)) * kKiB;
  std::promise<std::string> address;
  LoopExecutor server_loop;
  std::thread server_thread([&] {
    server_loop.MakeCurrent();
    NullData data(bytes);
    DataDispatcher dispatcher(&data);
    GrpcServer grpc_server(&server_loop, &dispatcher);
    BulkServer bulk_server(&server_loop, &dispatcher);
    address.set_value((bulk ? bulk_server.Start("127.0.0.1:0") : grpc_server.Start("127.0.0.1:0")).value());
    server_loop.Run();
  });
  LoopExecutor loop;
  loop.MakeCurrent();
  {
    TaskScope scope;
    scope.Spawn(Measure(&loop, address.get_future().get(), bulk, arg(2, 3) * kSecond,
                        arg(3, kConnectionsPerPeer), arg(4, 16), bytes));
    loop.Run();
  }
  server_loop.Stop();
  server_thread.join();
  return 0;
}

}  // namespace
}  // namespace stria

int main(int argc, char** argv) { return stria::Main(argc, argv); }
