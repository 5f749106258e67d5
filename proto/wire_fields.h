// How a struct maps to its protobuf message: one list of fields, used in both directions.
//
//   WIRE_MESSAGE(ShardDelete) { F(shard); F(target); F(token); }
//
// says that struct ShardDelete is message v1::ShardDelete and that these members are fields of the same
// names. F handles integers, strong ids, enums, strings, optionals, vectors and nested messages.
// Decoding checks every number against the range of its C++ type or enum, and all sizes, and then the
// struct's invariants with its Validate (validate.h), if there is one.
// Only the wire_*.cc files include this.
#pragma once

#include <limits>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <google/protobuf/arena.h>
#include <google/protobuf/message.h>

#include "common/error.h"
#include "common/ids.h"
#include "proto/types.pb.h"
#include "proto/validate.h"
#include "proto/wire.h"

namespace stria::wire {

template <class T>
struct Wire;  // Pb: the message type; Fields(d, s, m): its fields

struct Encoder {
  static constexpr bool kEncoding = true;
};
struct Decoder {
  static constexpr bool kEncoding = false;
  Error error;  // the first
  void Fail(Error e) {
    if (error.ok()) error = std::move(e);
  }
  void Fail(const char* field, const char* why) {
    if (error.ok()) error = Error(FsError::kBadRequest, std::string(field) + " " + why);
  }
};

template <class T>
inline constexpr bool kIsOptional = false;
template <class T>
inline constexpr bool kIsOptional<std::optional<T>> = true;
template <class T>
inline constexpr bool kIsVector = false;
template <class T>
inline constexpr bool kIsVector<std::vector<T>> = true;
template <class T>
inline constexpr bool kIsId = false;
template <class Tag, class Rep>
inline constexpr bool kIsId<StrongId<Tag, Rep>> = true;
template <class T>
inline constexpr bool kIsString = std::is_same_v<T, std::string>;
// Held in a protobuf scalar (or enum, or string) field.
template <class T>
inline constexpr bool kIsScalar = std::is_arithmetic_v<T> || std::is_enum_v<T> || kIsId<T> || kIsString<T>;

// The numbers an enum may have on the wire, without gaps.
template <class E>
struct EnumRange;
#define WIRE_ENUM(E, first, last)                               \
  template <>                                                   \
  struct EnumRange<E> {                                         \
    static constexpr auto kFirst = E::first, kLast = E::last;   \
  }
WIRE_ENUM(Codec, kNone, kCauchy);
WIRE_ENUM(Domain, kNode, kDisk);
WIRE_ENUM(Arrangement, kSpread, kGathered);
WIRE_ENUM(Place, kSpread, kNode);
WIRE_ENUM(FileType, kFile, kBlockDevice);
WIRE_ENUM(LeaseMode, kNone, kShared);
WIRE_ENUM(SessionEvent::Kind, kInvalidateAttr, kLockFree);
WIRE_ENUM(LockKind, kPosix, kFlock);
WIRE_ENUM(LockType, kNone, kWrite);
WIRE_ENUM(LockOp, kTest, kWithdraw);
WIRE_ENUM(NodeState, kUp, kOut);
WIRE_ENUM(TargetState, kUp, kRemoved);
WIRE_ENUM(SmartHealth, kUnknown, kFailing);
WIRE_ENUM(AdminVerb, kDrain, kAdmit);

// ---- Scalars ---------------------------------------------------------------------------------------

template <class To, class T>
To ToPb(const T& v) {
  if constexpr (kIsId<T>) {
    return static_cast<To>(v.v);
  } else {
    return static_cast<To>(v);
  }
}
template <class To>
const std::string& ToPb(const std::string& v) {
  return v;
}

inline FsError ErrorFromNumber(uint64_t number) {
  return number <= UINT16_MAX && IsKnownFsError(static_cast<uint16_t>(number)) ? static_cast<FsError>(number)
                                                                               : FsError::kIo;
}

template <class From, class T>
void FromPb(Decoder& d, const char* field, From v, T* out) {
  if constexpr (kIsId<T>) {
    FromPb(d, field, v, &out->v);
  } else if constexpr (std::is_same_v<T, FsError>) {
    *out = ErrorFromNumber(v);
  } else if constexpr (std::is_enum_v<T>) {
    const auto number = static_cast<int64_t>(v);
    if (number < static_cast<int64_t>(EnumRange<T>::kFirst) ||
        number > static_cast<int64_t>(EnumRange<T>::kLast)) {
      d.Fail(field, "has a number that is not in its list");
    } else {
      *out = static_cast<T>(number);
    }
  } else if constexpr (std::is_same_v<T, From>) {
    *out = v;
  } else {
    static_assert(std::is_unsigned_v<T> && std::is_unsigned_v<From> && sizeof(From) > sizeof(T));
    if (v > std::numeric_limits<T>::max()) d.Fail(field, "is out of range");
    *out = static_cast<T>(v);
  }
}
inline void StringFromPb(Decoder& d, const char* field, const std::string& v, std::string* out) {
  if (v.size() > kMaxWireStringBytes) return d.Fail(field, "is longer than 64 KiB");
  *out = v;
}
template <class From, class T>
void ScalarFromPb(Decoder& d, const char* field, const From& v, T* out) {
  if constexpr (kIsString<T>) {
    StringFromPb(d, field, v, out);
  } else {
    FromPb(d, field, v, out);
  }
}

// ---- Messages and lists ----------------------------------------------------------------------------

template <class T, class Pb>
void Put(Encoder& d, const T& s, Pb* m) {
  Wire<T>::Fields(d, s, *m);
}
template <class T, class Pb>
void Get(Decoder& d, const char* field, const Pb& m, T* s) {
  const bool was_ok = d.error.ok();
  Wire<T>::Fields(d, *s, m);
  if constexpr (requires { Validate(*s); }) {
    if (d.error.ok()) d.Fail(Validate(*s).error());
  }
  if (was_ok && !d.error.ok() && *field) d.error = d.error.WithContext(field);
}

template <class T, class Repeated>
void PutAll(Encoder& d, const std::vector<T>& s, Repeated* m) {
  m->Reserve(static_cast<int>(s.size()));
  for (const T& v : s) {
    if constexpr (kIsString<T>) {
      *m->Add() = v;
    } else if constexpr (kIsScalar<T>) {
      m->Add(ToPb<typename Repeated::value_type>(v));
    } else {
      Put(d, v, m->Add());
    }
  }
}
template <class T, class Repeated>
void GetAll(Decoder& d, const char* field, const Repeated& m, std::vector<T>* s) {
  if (static_cast<size_t>(m.size()) > kMaxWireItems) return d.Fail(field, "has more than 65,536 entries");
  s->resize(static_cast<size_t>(m.size()));
  for (int i = 0; i < m.size() && d.error.ok(); ++i) {
    T* out = &(*s)[static_cast<size_t>(i)];
    if constexpr (kIsScalar<T>) {
      ScalarFromPb(d, field, m[i], out);
    } else {
      Get(d, field, m[i], out);
    }
  }
}

// ---- The field list --------------------------------------------------------------------------------

template <class D, class T, class M, class PutOne, class GetOne>
void OneField(D& d, T& member, M& m, PutOne put, GetOne get) {
  if constexpr (D::kEncoding) {
    put(d, member, m);
  } else {
    get(d, &member, m);
  }
}

#define WIRE_PUT_SCALAR(value, name) pb.set_##name(ToPb<std::decay_t<decltype(pb.name())>>(value))
#define WIRE_GET_SCALAR(out, name) ScalarFromPb(dir, #name, pb.name(), out)

// Member `member` of the struct is field `name` of the message.
#define F2(member, name)                                          \
  OneField(                                                       \
      d, s.member, m,                                             \
      [](auto& dir, const auto& v, auto& pb) {                    \
        using T = std::decay_t<decltype(v)>;                      \
        if constexpr (kIsScalar<T>) {                             \
          WIRE_PUT_SCALAR(v, name);                               \
        } else if constexpr (kIsVector<T>) {                      \
          PutAll(dir, v, pb.mutable_##name());                    \
        } else if constexpr (!kIsOptional<T>) {                   \
          Put(dir, v, pb.mutable_##name());                       \
        } else if (v) {                                           \
          if constexpr (kIsScalar<std::decay_t<decltype(*v)>>) {  \
            WIRE_PUT_SCALAR(*v, name);                            \
          } else {                                                \
            Put(dir, *v, pb.mutable_##name());                    \
          }                                                       \
        }                                                         \
      },                                                          \
      [](auto& dir, auto* v, const auto& pb) {                    \
        using T = std::decay_t<decltype(*v)>;                     \
        if constexpr (kIsScalar<T>) {                             \
          WIRE_GET_SCALAR(v, name);                               \
        } else if constexpr (kIsVector<T>) {                      \
          GetAll(dir, #name, pb.name(), v);                       \
        } else if constexpr (!kIsOptional<T>) {                   \
          Get(dir, #name, pb.name(), v);                          \
        } else if (!pb.has_##name()) {                            \
          v->reset();                                             \
        } else {                                                  \
          auto* inner = &v->emplace();                            \
          if constexpr (kIsScalar<std::decay_t<decltype(*inner)>>) { \
            WIRE_GET_SCALAR(inner, name);                         \
          } else {                                                \
            Get(dir, #name, pb.name(), inner);                    \
          }                                                       \
        }                                                         \
      })
#define F(name) F2(name, name)

#define WIRE_MESSAGE_AS(T, PbType)                        \
  template <>                                             \
  struct Wire<T> {                                        \
    using Pb = PbType;                                    \
    static void Fields(auto& d, auto& s, auto& m);        \
  };                                                      \
  void Wire<T>::Fields([[maybe_unused]] auto& d, [[maybe_unused]] auto& s, [[maybe_unused]] auto& m)
#define WIRE_MESSAGE(T) WIRE_MESSAGE_AS(T, v1::T)

// ---- Whole messages --------------------------------------------------------------------------------

// Serialised fields, then tag and length of the payload, if `payload` is not null and not empty.
WireMessage Serialize(const google::protobuf::MessageLite& m, const BufferChain* payload);
// Parses the fields into `m`; if `payload` is not null the payload is sliced off first. kBadRequest.
Error Parse(const WireMessage& bytes, google::protobuf::Message* m, BufferChain* payload);

template <class T>
inline constexpr bool kHasPayload = requires(T t) { t.payload; };

}  // namespace stria::wire

namespace stria {

template <class T>
WireMessage Encode(const T& message) {
  google::protobuf::Arena arena;
  auto* m = google::protobuf::Arena::CreateMessage<typename wire::Wire<T>::Pb>(&arena);
  wire::Encoder e;
  wire::Put(e, message, m);
  if constexpr (wire::kHasPayload<T>) {
    return wire::Serialize(*m, &message.payload);
  } else {
    return wire::Serialize(*m, nullptr);
  }
}

template <class T>
Result<T> Decode(const WireMessage& bytes) {
  using Pb = typename wire::Wire<T>::Pb;
  google::protobuf::Arena arena;
  Pb* m = google::protobuf::Arena::CreateMessage<Pb>(&arena);
  T out;
  Error parsed;
  if constexpr (wire::kHasPayload<T>) {
    parsed = wire::Parse(bytes, m, &out.payload);
  } else {
    parsed = wire::Parse(bytes, m, nullptr);
  }
  if (!parsed.ok()) return parsed;
  if constexpr (requires { m->error(); }) {
    if (m->error() != 0) return Error(wire::ErrorFromNumber(m->error()), m->error_message());
  }
  wire::Decoder d;
  wire::Get(d, "", *m, &out);
  if (!d.error.ok()) return d.error.WithContext("malformed " + Pb::descriptor()->name());
  return out;
}

}  // namespace stria

// In namespace stria: makes the two for T.
#define WIRE_CODEC(T)                          \
  template WireMessage Encode<T>(const T&);    \
  template Result<T> Decode<T>(const WireMessage&)
