// Says whether a history in a file is linearizable: check_history register|names FILE. One operation a line:
//   CALLED RETURNED CLIENT WHAT ...   times in any unit; RETURNED is "-" if there was no answer
// of a register (0 at first)
//   read VALUE | write VALUE
// of the names of a directory (empty at first); FILE is a number, 0 if nothing was told
//   create NAME ERRNO FILE | unlink NAME ERRNO | rename FROM TO ERRNO | lookup NAME ERRNO FILE | list [NAME ..]
// Exit code: 0 yes, 1 no (and why), 2 not a history.
#include <algorithm>
#include <fstream>
#include <iostream>
#include <iterator>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "test/linear/checker.h"
#include "test/linear/models.h"

namespace stria::linear {
namespace {

template <class Op>
using Parse = bool (*)(const std::string& what, std::istream& in, size_t line, bool answered, Op* op);

bool ParseRegister(const std::string& what, std::istream& in, size_t, bool, FileModel::Op* op) {
  uint32_t value = 0;
  if (!(in >> value) || (what != "read" && what != "write")) return false;
  op->kind = what == "read" ? FileModel::Op::Kind::kRead : FileModel::Op::Kind::kWrite;
  op->count = 1;
  op->values = {value};
  return true;
}

bool ParseName(const std::string& what, std::istream& in, size_t line, bool answered, NamesModel::Op* op) {
  using Kind = NamesModel::Op::Kind;
  if (what == "list") {
    op->kind = Kind::kList;
    op->names.assign(std::istream_iterator<std::string>(in), {});
    std::sort(op->names.begin(), op->names.end());
    return true;
  }
  if (!(in >> op->name)) return false;
  if (what == "rename" && !(in >> op->to)) return false;
  if (!(in >> op->error)) return false;
  if (what == "rename" || what == "unlink") {
    op->kind = what == "rename" ? Kind::kRename : Kind::kUnlink;
    return true;
  }
  if (what != "create" && what != "lookup") return false;
  op->kind = what == "create" ? Kind::kCreate : Kind::kLookup;
  if (!(in >> op->file)) return false;
  if (what == "create" && !answered) op->file = NamesModel::kUnknown + line;
  return true;
}

template <class Model>
int Check(std::istream& in, Parse<typename Model::Op> parse, const typename Model::State& start) {
  std::vector<Event<typename Model::Op>> history;
  std::string text;
  for (size_t line = 1; std::getline(in, text); ++line) {
    std::istringstream words(text);
    Event<typename Model::Op> event;
    std::string returned, what;
    words >> event.called >> returned >> event.op.client >> what;
    std::istringstream end(returned);
    const bool answered = returned != "-";
    if (!words || (answered && !(end >> event.returned)) || !parse(what, words, line, answered, &event.op)) {
      std::cerr << "line " << line << " is no operation: " << text << "\n";
      return 2;
    }
    history.push_back(std::move(event));
  }
  const std::string why = Explain<Model>(history, start);
  std::cout << (why.empty() ? "linearizable: " + std::to_string(history.size()) + " operations\n" : why);
  return why.empty() ? 0 : 1;
}

int Main(int argc, char** argv) {
  const std::string kind = argc == 3 ? argv[1] : "";
  if (kind != "register" && kind != "names") {
    std::cerr << "usage: check_history register|names FILE\n";
    return 2;
  }
  std::ifstream in(argv[2]);
  if (!in) {
    std::cerr << argv[2] << " cannot be read\n";
    return 2;
  }
  if (kind == "register") return Check<FileModel>(in, ParseRegister, {{0}});
  return Check<NamesModel>(in, ParseName, {});
}

}  // namespace
}  // namespace stria::linear

int main(int argc, char** argv) { return stria::linear::Main(argc, argv); }
