// What the label of a disk and the name of a channel may be: one rule for settings, commands and the metadata server. They are in
// keys of the metadata's store, in events, in metrics and in commands (`stria disk rm n3:d1`), so they are short and plain. Pure.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace stria {

inline constexpr size_t kMaxDiskLabelBytes = 64;  // of labels and of channels

// What is wrong with a label (letters, digits, . - _, at most 64 bytes), with what it may be, as a sentence without an end:
// "the label 'a b' has ' ' in it: ..". "" if nothing is. An empty one is fine: whether a disk needs one is the caller's question.
std::string LabelFault(std::string_view label);
// The same of a channel: it may have all visible characters of ASCII. An empty one says that the disk shares none.
std::string ChannelFault(std::string_view channel);
// The first of both.
std::string DiskNameFault(std::string_view label, std::string_view channel);

}  // namespace stria
