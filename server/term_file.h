// The file `term` of a data disk: which life of the metadata server its node has heard of (server/heard_terms.h), so that a restart
// does not forget it. One is enough; each usable disk has it, because disks come and go.
#pragma once

#include <vector>

#include "common/error.h"
#include "common/exec/task.h"
#include "common/io/disk.h"
#include "server/heard_terms.h"

namespace stria {

inline constexpr char kTermFile[] = "term";

// Zeros if there is none, or it is damaged: another disk has it, or the next heartbeat brings it.
Task<Result<HeardTerms::Kept>> ReadTerms(Disk* disk);
Task<Result<void>> WriteTerms(Disk* disk, HeardTerms::Kept kept);  // durable on return
// On all of these that take it. An error if none does. Heartbeats wait for it, so no disk is waited for long; it may take what was
// to be written later.
Task<Result<void>> WriteTermsOn(std::vector<Disk*> disks, HeardTerms::Kept kept);

}  // namespace stria
