// Bytes that others chose (names, messages) as people and programs may see them: no terminal obeys them, and no byte is lost.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace stria {

// True if it is UTF-8 without control characters.
bool IsPrintable(std::string_view text);

// For a sentence or a line of a log: control characters and bytes that are not UTF-8 as \ooo (\t, \n, \r by their names).
std::string Printable(std::string_view text);

// The same for each line of a text; its line breaks stay.
std::string PrintableLines(std::string_view text);

// Several, as "a, b".
std::string PrintableList(const std::vector<std::string>& texts);

// A name as it is if it can be printed, else as $'..' of bash, which means exactly these bytes.
std::string PrintableName(std::string_view name);

// One word of any POSIX shell, with any bytes; the bytes stay as they are.
std::string ShellQuoted(std::string_view text);
// One word of bash that is printable: '..', or $'..' if need be.
std::string BashQuoted(std::string_view text);

// A string of JSON in its quotes (also one of Python). A byte that is not UTF-8 is \udcXX, as Python's os.fsdecode has it, so
// that json.loads gives a name that open() takes; control characters are escaped.
std::string JsonQuoted(std::string_view text);

}  // namespace stria
