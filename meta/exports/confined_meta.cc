#include "meta/exports/confined_meta.h"

#include <algorithm>
#include <charconv>

#include "trust/inode_handle.h"

namespace stria {
namespace {

// What a directory is to a session when it was moved out of its export.
Error MovedOut() { return Error(FsError::kStale, "the directory does not lie below the root of the session's export any more"); }

template <class Rep>
Task<Result<Rep>> Answer(Error error) {
  co_return error;
}

// A call that a confined session has no business with.
template <class Service, class Req, class Rep>
Task<Result<Rep>> CallUnlessConfined(Service* inner, Confinement* confinement, Task<Result<Rep>> (Service::*method)(Req), Req r) {
  if (!confinement->BoundOf(r.header)) return (inner->*method)(std::move(r));
  return Answer<Rep>(confinement->Refuse(r.header, FsError::kPerm, "a session that is confined to an export asks about the cluster"));
}

}  // namespace

Error Confinement::Refuse(const OpHeader& h, FsError code, std::string_view why) {
  ++denials_;
  if (denied_) denied_(h, why);
  return Error(code, std::string(why));
}

Result<void> Confinement::CheckOne(const Bound& bound, const OpHeader& h, InodeId ino, bool directory) {
  const bool sealed = std::any_of(h.seals.begin(), h.seals.end(), [&](const InodeSeal& s) {
    return s.ino == ino && IsSealed(bound.key, InodeHandle{s.ino, s.mac});
  });
  if (!sealed) return Refuse(h, FsError::kStale, "a session that is confined to an export names an inode that it was not shown");
  if (directory && !LiesBelow(bound, ino)) return MovedOut();
  return Ok();
}

void Confinement::SealOne(const Bound& bound, InodeId ino, std::vector<InodeSeal>* seals) {
  if (!seals->empty() && seals->back().ino == ino) return;  // an entry and its attributes
  seals->push_back({ino, SealInode(bound.key, ino).mac});
}

std::optional<std::string> Confinement::PathBelow(const std::string& root, const std::string& path) {
  if (root == "/") return path;
  if (path == root) return "/";
  if (path.size() > root.size() && path.starts_with(root) && path[root.size()] == '/') return path.substr(root.size());
  return std::nullopt;
}

void Confinement::ShowPaths(const Bound& bound, std::vector<std::string> paths, std::vector<std::string>* shown, uint64_t* hidden) {
  // Now: it may be another one than when a first page was asked for.
  const std::optional<std::string> root = RootPath(bound);
  for (const std::string& path : paths) {
    std::optional<std::string> below = root ? PathBelow(*root, path) : std::nullopt;
    if (below) shown->push_back(std::move(*below));
    else ++*hidden;
  }
}

// ---- Rules

template <class Req, class Rep>
Task<Result<Rep>> ConfinedMeta::CallSealed(Task<Result<Rep>> (MetaService::*method)(Req), Confinement::Bound bound, Req r) {
  CO_RETURN_IF_ERROR(confinement_->Check(bound, r));
  Result<Rep> reply = co_await (inner_->*method)(std::move(r));
  if (reply.ok()) Confinement::Seal(bound, &*reply);
  co_return reply;
}

#define STRIA_Passes(Class, Service, Name, Request, Reply) \
  Task<Result<Reply>> Class::Name(Request r) { return inner_->Name(std::move(r)); }
#define STRIA_Sealed(Class, Service, Name, Request, Reply)       \
  Task<Result<Reply>> Class::Name(Request r) {                   \
    const auto bound = confinement_->BoundOf(r.header);          \
    if (!bound) return inner_->Name(std::move(r));               \
    return CallSealed(&Service::Name, *bound, std::move(r));     \
  }
#define STRIA_Refused(Class, Service, Name, Request, Reply)                                 \
  Task<Result<Reply>> Class::Name(Request r) {                                              \
    return CallUnlessConfined(inner_, confinement_, &Service::Name, std::move(r));          \
  }
#define STRIA_Own(Class, Service, Name, Request, Reply)  // below
#define STRIA_META(Rule, Name, Request, Reply) STRIA_##Rule(ConfinedMeta, MetaService, Name, Request, Reply)
#define STRIA_ADMIN(Rule, Name, Request, Reply) STRIA_##Rule(ConfinedAdmin, AdminService, Name, Request, Reply)
STRIA_CONFINED_META(STRIA_META)
STRIA_CONFINED_ADMIN(STRIA_ADMIN)
#undef STRIA_ADMIN
#undef STRIA_META
#undef STRIA_Own
#undef STRIA_Refused
#undef STRIA_Sealed
#undef STRIA_Passes

// ---- Methods with a rule of their own

// Held inodes and locks are proved, each by itself; which session it is, and whether it is confined, the answer tells.
Task<Result<OpenSessionReply>> ConfinedMeta::OpenSession(OpenSessionRequest r) {
  CO_ASSIGN_OR_RETURN(OpenSessionReply reply, co_await inner_->OpenSession(std::move(r)));
  if (const auto bound = confinement_->BoundOf(reply.session)) Confinement::Seal(*bound, &reply);
  co_return std::move(reply);
}

Task<Result<NodeReply>> ConfinedMeta::Lookup(NameRequest r) {
  const auto bound = confinement_->BoundOf(r.header);
  return bound ? DoLookup(*bound, std::move(r)) : inner_->Lookup(std::move(r));
}

// While a call waits the directory may be moved out, and whatever the answer says would then be of what lies outside.
Task<Result<NodeReply>> ConfinedMeta::DoLookup(Confinement::Bound bound, NameRequest r) {
  CO_RETURN_IF_ERROR(confinement_->Check(bound, r));
  const InodeId dir = r.parent;
  if (r.name == ".." && dir == bound.root) r.name = ".";
  const bool up = r.name == "..";
  Result<NodeReply> reply = co_await inner_->Lookup(std::move(r));
  if (!confinement_->LiesBelow(bound, dir)) co_return MovedOut();
  if (!reply.ok()) co_return reply;
  if (up && !confinement_->LiesBelow(bound, reply->attr.ino)) co_return MovedOut();
  Confinement::Seal(bound, &*reply);
  co_return reply;
}

Task<Result<ReadDirReply>> ConfinedMeta::ReadDir(ReadDirRequest r) {
  const auto bound = confinement_->BoundOf(r.header);
  return bound ? DoReadDir(*bound, std::move(r)) : inner_->ReadDir(std::move(r));
}

Task<Result<ReadDirReply>> ConfinedMeta::DoReadDir(Confinement::Bound bound, ReadDirRequest r) {
  CO_RETURN_IF_ERROR(confinement_->Check(bound, r));
  const InodeId dir = r.ino;
  Result<ReadDirReply> reply = co_await inner_->ReadDir(std::move(r));
  if (!confinement_->LiesBelow(bound, dir)) co_return MovedOut();
  if (!reply.ok()) co_return reply;
  reply->parent = ParentWithin(bound.root, dir, reply->parent);
  // Of a removed directory it says where it was.
  if (!confinement_->LiesBelow(bound, reply->parent)) reply->parent = bound.root;
  Confinement::Seal(bound, &*reply);
  co_return reply;
}

Task<Result<StatFsReply>> ConfinedMeta::StatFs(InodeRequest r) {
  const auto bound = confinement_->BoundOf(r.header);
  return bound ? DoStatFs(*bound, std::move(r)) : inner_->StatFs(std::move(r));
}

// What is below the export's root is not counted by itself, and a number for the whole tree would tell what others do.
Task<Result<StatFsReply>> ConfinedMeta::DoStatFs(Confinement::Bound bound, InodeRequest r) {
  r.ino = bound.root;
  Result<StatFsReply> reply = co_await inner_->StatFs(std::move(r));
  if (reply.ok()) reply->files = 0;
  co_return reply;
}

Task<Result<PathsReply>> ConfinedMeta::Paths(InodeRequest r) {
  const auto bound = confinement_->BoundOf(r.header);
  return bound ? DoPaths(*bound, std::move(r)) : inner_->Paths(std::move(r));
}

Task<Result<PathsReply>> ConfinedMeta::DoPaths(Confinement::Bound bound, InodeRequest r) {
  CO_RETURN_IF_ERROR(confinement_->Check(bound, r));
  CO_ASSIGN_OR_RETURN(PathsReply all, co_await inner_->Paths(std::move(r)));
  PathsReply out;
  out.hidden = all.hidden;
  out.more = all.more;
  confinement_->ShowPaths(bound, std::move(all.paths), &out.paths, &out.hidden);
  co_return std::move(out);
}

Task<Result<StatusReply>> ConfinedMeta::Status(InodeRequest r) {
  return confinement_->BoundOf(r.header) ? DoStatus(std::move(r)) : inner_->Status(std::move(r));
}

// Only what is named here: how many files there are and what ails them is of all.
Task<Result<StatusReply>> ConfinedMeta::DoStatus(InodeRequest r) {
  const SessionId own = r.header.session;
  CO_ASSIGN_OR_RETURN(StatusReply all, co_await inner_->Status(std::move(r)));
  StatusReply out;
  out.map = std::move(all.map);
  out.wall_ns = all.wall_ns;
  out.version = std::move(all.version);
  for (SessionInfo& s : all.sessions) {
    if (s.id == own) out.sessions.push_back(std::move(s));
  }
  co_return std::move(out);
}

Task<Result<NamesReply>> ConfinedAdmin::Names(NamesRequest r) {
  const auto bound = confinement_->BoundOf(r.header);
  return bound ? DoNames(*bound, std::move(r)) : inner_->Names(std::move(r));
}

Task<Result<NamesReply>> ConfinedAdmin::DoNames(Confinement::Bound bound, NamesRequest r) {
  CO_RETURN_IF_ERROR(confinement_->Check(bound, r));
  uint64_t wanted = 0;
  const char* const end = r.after.data() + r.after.size();
  const auto parsed = std::from_chars(r.after.data(), end, wanted);
  if (!r.after.empty() && (parsed.ec != std::errc() || parsed.ptr != end || wanted >= kMaxPages)) {
    co_return Error(FsError::kBadRequest, "the page of names to go on with is none that a confined session was given");
  }
  r.after.clear();
  NamesReply out;
  for (uint64_t n = 0;; ++n) {
    CO_ASSIGN_OR_RETURN(NamesReply page, co_await inner_->Names(r));
    if (n == wanted) {
      out.hidden = page.hidden;
      confinement_->ShowPaths(bound, std::move(page.paths), &out.paths, &out.hidden);
      if (!page.next.empty() && n + 1 < kMaxPages) out.next = std::to_string(n + 1);
      co_return std::move(out);
    }
    if (page.next.empty()) co_return std::move(out);
    r.after = std::move(page.next);
  }
}

}  // namespace stria
