// Which files are meant: names of inodes, and the files that have bytes in certain stripes.
#include "meta/service/meta_server_impl.h"

namespace stria {

// Whoever asks is told what listing directories would tell; an admin all.
Task<Result<NamesReply>> MetaServer::Names(NamesRequest r) {
  CO_RETURN_IF_ERROR(sessions_->CheckCaller(r.header));
  Txn txn(core_.store());
  CO_ASSIGN_OR_RETURN(PathsPage page, OpPaths(txn, coherence_.NamesCtx(r.header), r.ino, r.after));
  co_return NamesReply{std::move(page.paths), page.hidden, std::move(page.next)};
}

Task<Result<FilesReply>> MetaServer::Files(FilesRequest r) {
  CO_RETURN_IF_ERROR(sessions_->CheckAdmin(r.header, "is told which files these are"));
  co_return co_await survey_->Files(std::move(r), upkeep_->scrubs().Progress());
}

}  // namespace stria
