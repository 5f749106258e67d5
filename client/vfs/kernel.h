// What the kernel keeps of ours, and is told. A no-op in the simulator, as far as it does not play a kernel. Names it is never
// made to forget, as it would detach what is mounted below: it asks for each at each use, or a moment later
// (client/fuse/kernel_names.h).
#pragma once

#include <cstdint>
#include <string>

#include "common/exec/task.h"
#include "common/ids.h"

namespace stria {

class KernelCache {
 public:
  virtual ~KernelCache() = default;
  // Attributes, and with `data` also pages of [offset, offset+length) (length 0: to the end). Returns
  // when the kernel has forgotten. Must not run on the executor's thread while it blocks.
  //
  // With `data` the kernel first writes back dirty pages of mappings (WritePages), and waits for pages that
  // it is reading. So the caller holds nothing that those wait for (ARCHITECTURE.md, "The order of waits"). What the
  // kernel itself asked for (truncate, fallocate, copy_file_range) needs no call: it drops the pages when
  // it has the answer, and until then holds back pages that would be written.
  virtual Task<void> InvalidateInode(InodeId ino, bool data, uint64_t offset, uint64_t length) = 0;
  // A name there has changed (""; of directory 0: whichever). Returns when the kernel surely asks for it at each use, soon, and
  // waits for nobody.
  virtual Task<void> NameChanged(InodeId dir, std::string name) = 0;
  // False if it has surely dropped the inode, or never had it.
  virtual bool MayKnow(InodeId ino) const {
    (void)ino;
    return true;
  }
  // The file reaches to `last` at least, where it has that byte: what goes by the kernel's size without asking may read so far.
  // The kernel may have a page of it afterwards. Waits for pages that the kernel is reading.
  virtual Task<void> SizeGrew(InodeId ino, uint64_t last, uint8_t byte) {
    (void)ino, (void)last, (void)byte;
    co_return;
  }
};

}  // namespace stria
