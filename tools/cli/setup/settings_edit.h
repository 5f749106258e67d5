// Changes of a settings file (TOML) that leave every other byte as an admin has made it: comments, order, what is set. Pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "common/error.h"

namespace stria::cli {

// "pc1" -> "\"pc1\"", with what TOML wants escaped.
std::string TomlString(std::string_view text);
std::string TomlStrings(const std::vector<std::string>& texts);

// The text with `key = value` (value in TOML) at the top level: behind the comment that shows the key (#key = ..), or else before
// the first table. REQUIRES: the key is not set there.
std::string WithKey(std::string_view text, std::string_view key, std::string_view value);

struct NewDisk {
  std::string path;     // absolute
  std::string label;
  std::string channel;  // "": none is said
  bool operator==(const NewDisk&) const = default;
};
// The text with a table [[disk]] at its end.
std::string WithDisk(std::string_view text, const NewDisk& disk);

// What of stria-data's and stria-meta's settings setting up goes by; the programs themselves check the rest.
struct DataSettings {
  std::string node_name, address, trust;
  std::vector<std::string> meta;
  std::vector<NewDisk> disks;  // labels as stria-data takes them
};
struct MetaSettings {
  std::string data, listen, address, trust, admin_socket, layout;  // "" where nothing is set
  bool has_ha = false;       // it is one of several
  std::string ha_member, ha_address, ha_ca, ha_cert, ha_key;
  std::vector<std::string> ha_etcd;
};
// kInval with file and line.
Result<DataSettings> ReadDataSettings(std::string_view text, const std::string& file);
Result<MetaSettings> ReadMetaSettings(std::string_view text, const std::string& file);

// Where a metadata server with these settings has its store, its authority and its socket for admins.
struct MetaPaths {
  std::string data, trust, socket;
};
MetaPaths PathsOf(const MetaSettings& settings);

// One of several metadata servers, as the table [ha] says it.
struct MemberSettings {
  std::string member, address;    // "" address: not said
  std::vector<std::string> etcd;  // HOST[:PORT]
  std::string ca, cert, key;      // "": not said
};
// The text with the table [ha] at its end. REQUIRES: it has none.
std::string WithMember(std::string_view text, const MemberSettings& member);

// What a disk in `path` is called where nobody says: the last part of the path if that is a name and not taken, else the first of
// d1, d2, .. that is not (common/disk_label.h).
std::string LabelFor(const std::string& path, const std::vector<NewDisk>& others);

// "PATH[,label=L][,channel=C]", as stria-data takes it; the label is "" if none is said. kInval with a sentence.
Result<NewDisk> ParseNewDisk(const std::string& text);

// The settings of a node that has joined: its name and metadata server where nothing says others, and the disks that are not there yet.
struct NodeSettings {
  std::string node_name;  // of its certificate
  std::string meta;       // HOST:PORT, of the token
  std::string address;    // "": not said
  std::vector<NewDisk> disks;
};
struct EditedSettings {
  std::string text;                  // as it was if nothing is to be changed
  std::vector<std::string> changes;  // a line for each, for people
  std::vector<NewDisk> disks;        // all, of before and new ones
};
// kInval, kConflict (the settings are of another node, or say that there is no trust; a label or a path is there for another disk), with a
// sentence that names `file`.
Result<EditedSettings> EditDataSettings(std::string_view text, const std::string& file, const NodeSettings& wanted);

}  // namespace stria::cli
