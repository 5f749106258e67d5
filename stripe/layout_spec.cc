#include "stripe/layout_spec.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <set>

#include "stripe/layout.h"

namespace stria {
namespace {

constexpr uint64_t kMinUnitBytes = 4 * kKiB;
constexpr std::string_view kKinds =
    "linear, raid0:k, raid1:n, raid4:k+1, raid5:k+1, raid6:k+2, rs:k+m, raid10:n, raid50:GxK+1";
constexpr std::string_view kOptions = "unit=, stripe=, arrange=, domain=, place=, min=";

Error Invalid(std::string message) { return Error(FsError::kInval, std::move(message)); }

std::string Quoted(std::string_view text) { return "\"" + std::string(text) + "\""; }

std::optional<uint32_t> ParseNumber(std::string_view text) {
  uint32_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || text.empty()) return std::nullopt;
  return value;
}

std::optional<uint64_t> ParseSize(std::string_view text) {
  uint64_t scale = 1;
  if (!text.empty()) {
    switch (text.back()) {
      case 'K':
      case 'k':
        scale = kKiB;
        break;
      case 'M':
      case 'm':
        scale = kMiB;
        break;
      case 'G':
      case 'g':
        scale = kGiB;
        break;
    }
    if (scale > 1) text.remove_suffix(1);
  }
  const std::optional<uint32_t> count = ParseNumber(text);  // 32 bits times 1 GiB cannot overflow
  if (!count) return std::nullopt;
  return *count * scale;
}

std::string FormatSize(uint64_t bytes) {
  if (bytes == 0) return "0";
  if (bytes % kGiB == 0) return std::to_string(bytes / kGiB) + "G";
  if (bytes % kMiB == 0) return std::to_string(bytes / kMiB) + "M";
  if (bytes % kKiB == 0) return std::to_string(bytes / kKiB) + "K";
  return std::to_string(bytes);
}

// Cuts `text` at the first `separator`; the tail is empty if there is none.
struct Cut {
  std::string_view head, tail;
  bool found;
};
Cut CutAt(std::string_view text, char separator) {
  const size_t at = text.find(separator);
  if (at == std::string_view::npos) return {text, {}, false};
  return {text.substr(0, at), text.substr(at + 1), true};
}

struct Widths {
  uint32_t groups = 1, k = 1, m = 0;
};

// "K+M" with M as given if `parity` is set. False if it does not read so.
bool ParseKPlusM(std::string_view text, std::optional<uint32_t> parity, Widths* out) {
  const Cut cut = CutAt(text, '+');
  const auto k = ParseNumber(cut.head), m = ParseNumber(cut.tail);
  if (!k || !m || *k < 1 || *k > kMaxDataColumns || *m < 1 || *m > kMaxParity) return false;
  if (parity && *m != *parity) return false;
  out->k = *k;
  out->m = *m;
  return true;
}

// The words before the first comma. `rest`: the text behind the colon.
Error ParseKind(std::string_view kind, std::string_view rest, Widths* w) {
  const std::string spelling = Quoted(std::string(kind) + (rest.empty() ? "" : ":" + std::string(rest)));
  const auto want = [&](std::string_view allowed) {
    return Invalid(spelling + " is no layout: write " + std::string(allowed));
  };
  const std::optional<uint32_t> n = ParseNumber(rest);
  if (kind == "linear") {
    if (!rest.empty()) return want("linear without a number, or raid0:k for several columns");
  } else if (kind == "raid0") {
    if (!n || *n < 1 || *n > kMaxDataColumns) return want("raid0:k with k from 1 to 32");
    w->k = *n;
  } else if (kind == "raid1") {
    if (!n || *n < 2 || *n > kMaxParity + 1) return want("raid1:n with n from 2 to 5 copies");
    w->m = *n - 1;
  } else if (kind == "raid4" || kind == "raid5") {
    if (!ParseKPlusM(rest, 1, w)) return want(std::string(kind) + ":k+1 with k from 1 to 32");
  } else if (kind == "raid6") {
    if (!ParseKPlusM(rest, 2, w)) return want("raid6:k+2 with k from 1 to 32");
  } else if (kind == "rs") {
    if (!ParseKPlusM(rest, std::nullopt, w)) return want("rs:k+m with k from 1 to 32 and m from 1 to 4");
  } else if (kind == "raid10") {
    if (!n || *n < 2 || *n > kMaxColumns) return want("raid10:n with n from 2 to 64 disks");
    w->groups = *n / 2;
    w->m = 1;
  } else if (kind == "raid50") {
    const Cut cut = CutAt(rest, 'x');
    const auto groups = ParseNumber(cut.head);
    if (!groups || *groups < 1 || !ParseKPlusM(cut.tail, 1, w) || *groups > kMaxColumns / (w->k + w->m)) {
      return want("raid50:GxK+1, G groups of K+1 columns with K from 1 to 32 and at most 64 columns in all");
    }
    w->groups = *groups;
  } else {
    return Invalid(Quoted(kind) + " is no layout: it is one of " + std::string(kKinds));
  }
  return Error();
}

Error ParsePlace(std::string_view value, Layout* layout) {
  const Cut cut = CutAt(value, ':');
  if (value == "spread") {
    layout->place = Place::kSpread;
  } else if (value == "local") {
    layout->place = Place::kLocal;
  } else if (const auto node = ParseNumber(cut.tail); cut.head == "node" && node && *node > 0) {
    layout->place = Place::kNode;
    layout->place_node = NodeId(*node);
  } else {
    return Invalid(Quoted("place=" + std::string(value)) +
                   " is not spread, local or node:N with a node's number");
  }
  return Error();
}

// One "name=value". `stripe_bytes` stays 0 unless named.
Error ParseOption(std::string_view option, Layout* layout, uint64_t* stripe_bytes) {
  const Cut cut = CutAt(option, '=');
  const std::string_view name = cut.head, value = cut.tail;
  if (name == "unit") {
    const auto bytes = ParseSize(value);
    if (!bytes || *bytes < kMinUnitBytes || *bytes % kMinUnitBytes != 0 || *bytes > kMaxStripeBytes) {
      return Invalid(Quoted(option) + " is not a multiple of 4K up to 1G");
    }
    layout->unit_bytes = static_cast<uint32_t>(*bytes);
  } else if (name == "stripe") {
    const auto bytes = ParseSize(value);
    if (!bytes || *bytes == 0 || *bytes > kMaxStripeBytes) {
      return Invalid(Quoted(option) + " is not a size up to 1G such as 32M");
    }
    *stripe_bytes = *bytes;
  } else if (name == "arrange") {
    if (value != "spread" && value != "gathered")
      return Invalid(Quoted(option) + " is not spread or gathered");
    layout->arrangement = value == "spread" ? Arrangement::kSpread : Arrangement::kGathered;
  } else if (name == "domain") {
    if (value != "node" && value != "channel" && value != "disk") {
      return Invalid(Quoted(option) + " is not node, channel or disk");
    }
    layout->domain = value == "node" ? Domain::kNode : value == "channel" ? Domain::kChannel : Domain::kDisk;
  } else if (name == "place") {
    return ParsePlace(value, layout);
  } else if (name == "min") {
    const std::optional<uint32_t> copies = ParseNumber(value);
    if (!copies || *copies < 1 || *copies > uint32_t{layout->m} + 1) {
      return Invalid(Quoted(option) + " is not a number of copies (or of parity columns + 1) from 1 to " +
                     std::to_string(layout->m + 1) + ", which is what the layout asks for");
    }
    layout->min_copies = static_cast<uint8_t>(*copies <= layout->m ? *copies : 0);
  } else {
    return Invalid(Quoted(option) + " is no option of a layout: they are " + std::string(kOptions));
  }
  return Error();
}

Error ValidateStripeBytes(const Layout& layout) {
  const uint64_t row_bytes = uint64_t{layout.data_columns()} * layout.unit_bytes;
  if (row_bytes > kMaxStripeBytes) {
    return Invalid("a row of " + std::to_string(layout.data_columns()) +
                   " columns with unit=" + FormatSize(layout.unit_bytes) +
                   " is longer than a stripe may be, 1G: choose a smaller unit");
  }
  if (layout.stripe_bytes > 0 && layout.stripe_bytes <= kMaxStripeBytes &&
      layout.stripe_bytes % row_bytes == 0) {
    return Error();
  }
  const uint64_t near =
      std::clamp(AlignDown(layout.stripe_bytes, row_bytes), row_bytes, AlignDown(kMaxStripeBytes, row_bytes));
  return Invalid(
      "stripe=" + FormatSize(layout.stripe_bytes) + " is not a whole number of rows up to 1G (a row is " +
      std::to_string(layout.data_columns()) + " columns with unit=" + FormatSize(layout.unit_bytes) + ", " +
      FormatSize(row_bytes) + "): write stripe=" + FormatSize(near));
}

}  // namespace

uint64_t DefaultStripeBytes(uint32_t data_columns, uint64_t unit_bytes) {
  const uint64_t row_bytes = data_columns * unit_bytes;
  return std::max(row_bytes, AlignDown(kDefaultStripeBytes, row_bytes));
}

Result<Layout> ParseLayout(std::string_view text) {
  const Cut words = CutAt(text, ',');
  const Cut kind = CutAt(words.head, ':');
  Widths widths;
  if (Error e = ParseKind(kind.head, kind.tail, &widths); !e.ok()) return e;
  if (kind.found && kind.tail.empty()) {
    return Invalid(Quoted(words.head) + " is no layout: nothing follows the colon");
  }
  Layout layout;
  layout.groups = static_cast<uint8_t>(widths.groups);
  layout.k = static_cast<uint8_t>(widths.k);
  layout.m = static_cast<uint8_t>(widths.m);
  layout.codec = DefaultCodec(widths.k, widths.m);
  layout.rotate = kind.head != "raid4";

  uint64_t stripe_bytes = 0;
  std::set<std::string_view> seen;
  for (Cut left = words; left.found;) {
    left = CutAt(left.tail, ',');
    if (Error e = ParseOption(left.head, &layout, &stripe_bytes); !e.ok()) return e;
    if (!seen.insert(CutAt(left.head, '=').head).second) {
      return Invalid(Quoted(left.head) + " repeats an option: give each once");
    }
  }
  layout.stripe_bytes =
      stripe_bytes ? stripe_bytes : DefaultStripeBytes(layout.data_columns(), layout.unit_bytes);
  if (Error e = ValidateLayout(layout); !e.ok()) return e.WithContext(Quoted(text));
  return layout;
}

std::string LayoutToString(const Layout& layout) {
  const std::string k = std::to_string(layout.k), m = std::to_string(layout.m);
  std::string text;
  if (layout.groups > 1) {
    text = layout.k == 1 ? "raid10:" + std::to_string(2 * layout.groups)
                         : "raid50:" + std::to_string(layout.groups) + "x" + k + "+1";
  } else if (layout.m == 0) {
    text = layout.k == 1 ? "linear" : "raid0:" + k;
  } else if (!layout.rotate) {
    text = "raid4:" + k + "+1";
  } else if (layout.k == 1) {
    text = "raid1:" + std::to_string(layout.m + 1);
  } else {
    text = (layout.m == 1 ? "raid5:" : layout.m == 2 ? "raid6:" : "rs:") + k + "+" + m;
  }
  if (layout.unit_bytes != kDefaultUnitBytes) text += ",unit=" + FormatSize(layout.unit_bytes);
  if (layout.stripe_bytes != DefaultStripeBytes(layout.data_columns(), layout.unit_bytes)) {
    text += ",stripe=" + FormatSize(layout.stripe_bytes);
  }
  if (layout.arrangement == Arrangement::kGathered) text += ",arrange=gathered";
  if (layout.domain == Domain::kChannel) text += ",domain=channel";
  if (layout.domain == Domain::kDisk) text += ",domain=disk";
  if (layout.place == Place::kLocal) text += ",place=local";
  if (layout.place == Place::kNode) text += ",place=node:" + std::to_string(layout.place_node.v);
  if (layout.min_copies > 0) text += ",min=" + std::to_string(layout.min_copies);
  return text;
}

Error ValidateLayout(const Layout& layout) {
  const std::string widths = std::to_string(layout.groups) + " groups of " + std::to_string(layout.k) + "+" +
                             std::to_string(layout.m) + " columns";
  if (layout.groups < 1 || layout.k < 1 || layout.k > kMaxDataColumns || layout.m > kMaxParity ||
      layout.columns() > kMaxColumns) {
    return Invalid(widths + " are outside the limits of 32+4 in a group and 64 in all");
  }
  if (layout.groups > 1 && layout.m != 1) {
    return Invalid(widths + " are no layout: several groups have one parity column each");
  }
  if (layout.min_copies > layout.m) {
    return Invalid("min=" + std::to_string(layout.min_copies) + " is not less than the layout's own copies");
  }
  if (layout.codec != DefaultCodec(layout.k, layout.m)) {
    return Invalid(widths + " are not written with codec " + std::to_string(static_cast<int>(layout.codec)));
  }
  if (!layout.rotate && (layout.groups != 1 || layout.m != 1)) {
    return Invalid(widths + " always rotate: only raid4:k+1 keeps its parity on one target");
  }
  if (layout.unit_bytes < kMinUnitBytes || layout.unit_bytes % kMinUnitBytes != 0 ||
      layout.unit_bytes > kMaxStripeBytes) {
    return Invalid("unit=" + FormatSize(layout.unit_bytes) + " is not a multiple of 4K up to 1G");
  }
  if (layout.arrangement != Arrangement::kSpread && layout.arrangement != Arrangement::kGathered) {
    return Invalid("the arrangement of a layout is spread or gathered");
  }
  if (layout.domain < Domain::kNode || layout.domain > Domain::kDisk) {
    return Invalid("the failure domain of a layout is node, channel or disk");
  }
  if (layout.place < Place::kSpread || layout.place > Place::kNode) {
    return Invalid("the place of a layout is spread, local or node:N");
  }
  if ((layout.place == Place::kNode) != bool(layout.place_node)) {
    return Invalid("place=node:N and only it names a node");
  }
  return ValidateStripeBytes(layout);
}

}  // namespace stria
