// Which extended attributes are made up by the mount: user.stria.*
//
//   of files        .hosts .locations .locations@OFF+LEN .local .health
//   of files and directories   .layout (can be set) .io .node (that the mount is on)
//   of directories  .rbytes .rfiles
//   to be set only, of files   .gather (gather.h)
//   for programs    .told.* (locality/told.h)
//   of anything     .jobs (locality/job_io.h) and .flags (client/fuse/mount_table.h), which only a mount has
//
// None of them is listed. Values have at most kMaxXattrValueBytes.
#pragma once

#include <string_view>

namespace stria {

inline constexpr std::string_view kVirtualXattrs = "user.stria.";
inline constexpr std::string_view kLayoutXattr = "user.stria.layout";
inline constexpr std::string_view kGatherXattr = "user.stria.gather";
inline bool IsVirtualXattr(std::string_view name) { return name.starts_with(kVirtualXattrs); }

}  // namespace stria
