#include "tools/cli/setup/settings_edit.h"

#include <algorithm>

#include "common/config.h"
#include "common/disk_label.h"
#include "common/printable.h"

namespace stria::cli {
namespace {

constexpr char kHexDigits[] = "0123456789ABCDEF";
constexpr char kDefaultMetaData[] = "/var/lib/stria/meta";

std::string LastPart(const std::string& path) {
  const size_t end = path.find_last_not_of('/');
  if (end == path.npos) return "";
  const size_t slash = path.rfind('/', end);
  const size_t begin = slash == path.npos ? 0 : slash + 1;
  return path.substr(begin, end - begin + 1);
}

std::string_view Trimmed(std::string_view line) {
  const size_t begin = line.find_first_not_of(" \t\r\n");
  if (begin == line.npos) return {};
  return line.substr(begin, line.find_last_not_of(" \t\r\n") - begin + 1);
}

// A line "#key = ..", as packages have it for what is not set.
bool ShowsKey(std::string_view line, std::string_view key) {
  std::string_view rest = Trimmed(line);
  if (!rest.starts_with('#')) return false;
  rest.remove_prefix(1);
  if (!rest.starts_with(key)) return false;
  rest = Trimmed(rest.substr(key.size()));
  return rest.starts_with('=');
}

// A table, or what is one as soon as it is no comment: no key of the top level may stand behind it.
bool BeginsTable(std::string_view line) {
  std::string_view rest = Trimmed(line);
  const bool comment = rest.starts_with('#');
  if (comment) rest.remove_prefix(1);
  return rest.starts_with('[') && (!comment || Trimmed(rest).ends_with(']'));
}

bool Holds(const std::vector<std::string>& all, const std::string& one) { return std::find(all.begin(), all.end(), one) != all.end(); }

}  // namespace

std::string TomlString(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (byte < 0x20 || byte == 0x7f) {
      out += "\\u00";
      out += kHexDigits[byte >> 4];
      out += kHexDigits[byte & 15];
    } else {
      out += c;
    }
  }
  return out + "\"";
}

std::string TomlStrings(const std::vector<std::string>& texts) {
  std::string out = "[";
  for (const std::string& text : texts) out += (out.size() > 1 ? ", " : "") + TomlString(text);
  return out + "]";
}

std::string WithKey(std::string_view text, std::string_view key, std::string_view value) {
  const std::string line = std::string(key) + " = " + std::string(value) + "\n";
  size_t table = text.size();
  for (size_t at = 0; at < text.size();) {
    const size_t newline = text.find('\n', at);
    const size_t next = newline == text.npos ? text.size() : newline + 1;
    const std::string_view now = text.substr(at, next - at);
    if (BeginsTable(Trimmed(now))) {
      table = at;
      break;
    }
    if (ShowsKey(Trimmed(now), key)) {
      const std::string_view end = newline == text.npos ? "\n" : "";
      return std::string(text.substr(0, next)) + std::string(end) + line + std::string(text.substr(next));
    }
    at = next;
  }
  std::string before(text.substr(0, table));
  if (!before.empty() && before.back() != '\n') before += '\n';
  return before + line + std::string(text.substr(table));
}

std::string WithDisk(std::string_view text, const NewDisk& disk) {
  std::string out(text);
  if (!out.empty() && out.back() != '\n') out += '\n';
  out += (out.empty() ? "" : "\n") + std::string("[[disk]]\npath = ") + TomlString(disk.path) + "\nlabel = " + TomlString(disk.label) + "\n";
  if (!disk.channel.empty()) out += "channel = " + TomlString(disk.channel) + "\n";
  return out;
}

MetaPaths PathsOf(const MetaSettings& s) {
  MetaPaths p;
  p.data = s.data.empty() ? kDefaultMetaData : s.data;
  p.trust = s.trust.empty() ? p.data + "/trust" : s.trust;
  p.socket = s.admin_socket.empty() ? p.data + "/admin.sock" : s.admin_socket;
  return p;
}

std::string WithMember(std::string_view text, const MemberSettings& member) {
  std::string out(text);
  if (!out.empty() && out.back() != '\n') out += '\n';
  out += (out.empty() ? "" : "\n") + std::string("[ha]\nmember = ") + TomlString(member.member) + "\n";
  if (!member.address.empty()) out += "address = " + TomlString(member.address) + "\n";
  out += "etcd = " + TomlStrings(member.etcd) + "\n";
  if (!member.ca.empty()) out += "ca = " + TomlString(member.ca) + "\n";
  if (!member.cert.empty()) out += "cert = " + TomlString(member.cert) + "\nkey = " + TomlString(member.key) + "\n";
  return out;
}

Result<DataSettings> ReadDataSettings(std::string_view text, const std::string& file) {
  ASSIGN_OR_RETURN(Config config, Config::Parse(text, file));
  DataSettings s;
  config.Renamed("name", "node_name");
  s.node_name = config.String("node_name", "");
  s.address = config.String("address", "");
  s.trust = config.String("trust", "");
  s.meta = config.Strings("meta");
  for (Config& table : config.Tables("disk")) {
    NewDisk d;
    d.path = table.String("path", "");
    d.label = table.String("label", LastPart(d.path));
    d.channel = table.String("channel", "");
    if (const std::string fault = DiskNameFault(d.label, d.channel); !fault.empty()) {
      return Error(FsError::kInval, file + ", disk " + Printable(d.path) + ": " + fault + "; set another label or channel in its table [[disk]]");
    }
    s.disks.push_back(std::move(d));
  }
  return s;
}

Result<MetaSettings> ReadMetaSettings(std::string_view text, const std::string& file) {
  ASSIGN_OR_RETURN(Config config, Config::Parse(text, file));
  MetaSettings s;
  s.data = config.String("data", "");
  s.listen = config.String("listen", "");
  s.address = config.String("address", "");
  s.trust = config.String("trust", "");
  s.admin_socket = config.String("admin_socket", "");
  s.layout = config.String("layout", "");
  s.has_ha = config.Has("ha");
  s.ha_member = config.String("ha.member", "");
  s.ha_address = config.String("ha.address", "");
  s.ha_etcd = config.Strings("ha.etcd");
  s.ha_ca = config.String("ha.ca", "");
  s.ha_cert = config.String("ha.cert", "");
  s.ha_key = config.String("ha.key", "");
  return s;
}

std::string LabelFor(const std::string& path, const std::vector<NewDisk>& others) {
  const auto taken = [&](const std::string& label) {
    return std::any_of(others.begin(), others.end(), [&](const NewDisk& d) { return d.label == label; });
  };
  std::string label = LastPart(path);
  for (int n = 1; label.empty() || !LabelFault(label).empty() || taken(label); ++n) label = "d" + std::to_string(n);
  return label;
}

Result<NewDisk> ParseNewDisk(const std::string& text) {
  NewDisk d;
  size_t at = text.find(',');
  d.path = text.substr(0, at);
  if (!d.path.starts_with('/')) return Error(FsError::kInval, "--disk " + Printable(text) + ": name the whole path of a directory, as /srv/d1");
  while (d.path.size() > 1 && d.path.ends_with('/')) d.path.pop_back();
  while (at != text.npos) {
    const size_t next = text.find(',', at + 1);
    const std::string part = text.substr(at + 1, next == text.npos ? next : next - at - 1);
    const bool label = part.starts_with("label=");
    std::string* value = label ? &d.label : part.starts_with("channel=") ? &d.channel : nullptr;
    if (value == nullptr) return Error(FsError::kInval, "--disk " + Printable(text) + ": '" + Printable(part) + "' is not label=NAME or channel=NAME");
    *value = part.substr(part.find('=') + 1);
    const std::string fault = value->empty() ? "a name is missing after " + part : label ? LabelFault(*value) : ChannelFault(*value);
    if (!fault.empty()) return Error(FsError::kInval, "--disk " + Printable(text) + ": " + fault);
    at = next;
  }
  return d;
}

Result<EditedSettings> EditDataSettings(std::string_view text, const std::string& file, const NodeSettings& wanted) {
  ASSIGN_OR_RETURN(const DataSettings now, ReadDataSettings(text, file));
  EditedSettings out;
  out.text = std::string(text);
  const auto set = [&](const char* key, const std::string& value) {
    out.text = WithKey(out.text, key, value);
    out.changes.push_back(std::string(key) + " = " + value);
  };
  if (now.trust == "off") {
    return Error(FsError::kConflict, file + " says trust = \"off\", so the certificate would not be used: take that line out, and give this command again");
  }
  if (!now.node_name.empty() && now.node_name != wanted.node_name) {
    return Error(FsError::kConflict, file + " is of node " + Printable(now.node_name) + ", and the certificate is of node " + wanted.node_name +
                                         ": set node_name, or join under that name");
  }
  if (now.node_name.empty()) set("node_name", TomlString(wanted.node_name));
  if (now.meta.empty()) set("meta", TomlStrings({wanted.meta}));
  if (!wanted.address.empty() && now.address.empty()) set("address", TomlString(wanted.address));
  if (!wanted.address.empty() && !now.address.empty() && now.address != wanted.address) {
    return Error(FsError::kConflict, file + " says address = " + TomlString(now.address) + ", and --address is another: change it there");
  }
  out.disks = now.disks;
  std::vector<std::string> given;
  for (NewDisk disk : wanted.disks) {
    if (Holds(given, disk.path)) return Error(FsError::kInval, "disk " + Printable(disk.path) + " is given twice");
    given.push_back(disk.path);
    const auto there = std::find_if(out.disks.begin(), out.disks.end(), [&](const NewDisk& d) { return d.path == disk.path; });
    if (there != out.disks.end()) {
      if (disk.label.empty() || disk.label == there->label) continue;
      return Error(FsError::kConflict, file + " has the disk " + Printable(disk.path) + " with the label " + Printable(there->label) + ": change it there");
    }
    if (disk.label.empty()) disk.label = LabelFor(disk.path, out.disks);
    if (std::any_of(out.disks.begin(), out.disks.end(), [&](const NewDisk& d) { return d.label == disk.label; })) {
      return Error(FsError::kConflict, "two disks would have the label " + Printable(disk.label) + ": say another one, with --disk PATH,label=NAME");
    }
    out.text = WithDisk(out.text, disk);
    out.changes.push_back("disk " + disk.label + " in " + Printable(disk.path));
    out.disks.push_back(std::move(disk));
  }
  // TOML has forms in which a line is not what it looks like.
  const Result<DataSettings> then = ReadDataSettings(out.text, file);
  if (!then.ok() || then->disks != out.disks || then->node_name != wanted.node_name || then->meta.empty()) {
    return Error(FsError::kInval, file + " is written in a way that this command cannot change: put into it  node_name = " + TomlString(wanted.node_name) +
                                      ", meta = " + TomlStrings({wanted.meta}) + "  and a table [[disk]] with path and label for each disk");
  }
  return out;
}

}  // namespace stria::cli
