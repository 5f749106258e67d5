// For tests: services that answer every method with a random valid reply that fits the request, made from a seed and the
// method's name, so that a test can compute it.
#pragma once

#include <string>
#include <string_view>
#include <utility>

#include "api/data_api.h"
#include "api/meta_api.h"
#include "common/random.h"
#include "proto/methods.h"
#include "proto/random_messages.h"

namespace stria::random_messages {

template <class Request, class Reply>
void Fit(const Request& request, Reply& reply) {
  if constexpr (std::is_same_v<Reply, WriteReply> || std::is_same_v<Reply, SealReply> ||
                std::is_same_v<Reply, DeleteReply>) {
    reply.items.resize(request.items.size());
  } else if constexpr (std::is_same_v<Reply, RegisterNodeReply>) {
    reply.targets.resize(request.disks.size());
  } else if constexpr (std::is_same_v<Reply, ReadReply>) {
    reply = ReadReply();
    for (const ShardRead& item : request.items) {
      const uint64_t n = std::min<uint64_t>(item.length, 1000);
      reply.items.push_back(ReadItem{{}, n, std::vector<uint32_t>(n > 0 ? 1 : 0, 7)});
      reply.payload.Append(Buffer::FromString(std::string(n, static_cast<char>(item.offset >> 16))));
    }
  }
}

template <class Reply, class Request>
Reply EchoReply(uint64_t seed, std::string_view method, const Request& request) {
  for (const char c : method) seed = seed * 31 + static_cast<uint8_t>(c);
  Random rng(seed);
  Reply reply = RandomMessage<Reply>(rng);
  Fit(request, reply);
  return reply;
}

class EchoMeta final : public MetaService {
 public:
  explicit EchoMeta(uint64_t seed) : seed_(seed) {}
#define X(Name, Request, Reply)                                \
  Task<Result<Reply>> Name(Request request) override {         \
    ++calls;                                                   \
    co_return EchoReply<Reply>(seed_, #Name, request);         \
  }
  STRIA_META_METHODS(X)
#undef X
  int calls = 0;

 private:
  uint64_t seed_;
};

class EchoData final : public DataService {
 public:
  explicit EchoData(uint64_t seed) : seed_(seed) {}
#define X(Name, Request, Reply)                                \
  Task<Result<Reply>> Name(Request request) override {         \
    ++calls;                                                   \
    co_return EchoReply<Reply>(seed_, #Name, request);         \
  }
  STRIA_DATA_METHODS(X)
#undef X
  int calls = 0;

 private:
  uint64_t seed_;
};

}  // namespace stria::random_messages
