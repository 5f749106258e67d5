// Says whether a history in a file is linearizable, by porcupine, which is nobody's here: the same command line,
// file and exit codes as ../check_history.cc, with models that were written anew. Exit code 3: not known in time.
package main

import (
	"bufio"
	"fmt"
	"math"
	"os"
	"sort"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/anishathalye/porcupine"
)

const patience = 120 * time.Second

type operation struct {
	what     string
	words    []string
	answered bool
	line     int
}

// ---- One register: its value

func registerStep(state, input, _ interface{}) (bool, interface{}) {
	o := input.(operation)
	if o.what == "write" {
		return true, o.words[0]
	}
	return o.words[0] == state.(string), state
}

// ---- A directory: "name=file;" for each, sorted. A file that nobody was told of is "?" and a number until it is looked up.

type names map[string]string

func (n names) String() string {
	var out []string
	for name, file := range n {
		out = append(out, name+"="+file+";")
	}
	sort.Strings(out)
	return strings.Join(out, "")
}

func parseNames(state string) names {
	out := names{}
	for _, one := range strings.Split(state, ";") {
		if name, file, found := strings.Cut(one, "="); found {
			out[name] = file
		}
	}
	return out
}

var (
	enoent = strconv.Itoa(int(syscall.ENOENT))
	eexist = strconv.Itoa(int(syscall.EEXIST))
)

func namesStep(state, input, _ interface{}) (bool, interface{}) {
	o, dir := input.(operation), parseNames(state.(string))
	ok, changed := stepIn(dir, o)
	if !ok {
		return false, state
	}
	if changed {
		return true, dir.String()
	}
	return true, state
}

// Whether it may have been answered like that, and whether it has changed the directory.
func stepIn(dir names, o operation) (bool, bool) {
	if o.what == "list" {
		if !o.answered {
			return true, false
		}
		listed := append([]string{}, o.words...)
		sort.Strings(listed)
		var there []string
		for name := range dir {
			there = append(there, name)
		}
		sort.Strings(there)
		return strings.Join(listed, " ") == strings.Join(there, " "), false
	}
	file, there := dir[o.words[0]]
	switch o.what {
	case "lookup":
		if !o.answered {
			return true, false
		}
		if o.words[1] != "0" {
			return !there && o.words[1] == enoent, false
		}
		if !there || file == o.words[2] {
			return there, false
		}
		if !strings.HasPrefix(file, "?") {
			return false, false
		}
		for _, other := range dir {
			if other == o.words[2] {
				return false, false
			}
		}
		dir[o.words[0]] = o.words[2]
		return true, true
	case "create":
		if !o.answered {
			if !there {
				dir[o.words[0]] = "?" + strconv.Itoa(o.line)
			}
			return true, !there
		}
		if there {
			return o.words[1] == eexist, false
		}
		if o.words[1] != "0" {
			return false, false
		}
		dir[o.words[0]] = o.words[2]
		return true, true
	case "unlink":
		if !there {
			return !o.answered || o.words[1] == enoent, false
		}
		if o.answered && o.words[1] != "0" {
			return false, false
		}
		delete(dir, o.words[0])
		return true, true
	case "rename":
		to := o.words[1]
		if !there {
			if !o.answered || o.words[2] == enoent {
				return true, false
			}
			// Linux looks up one name after the other. If the file has moved from the first to the second in between, it takes
			// them for links of one file, and succeeds without asking the filesystem.
			_, target := dir[to]
			return o.words[2] == "0" && target, false
		}
		if o.answered && o.words[2] != "0" {
			return false, false
		}
		delete(dir, o.words[0])
		dir[to] = file
		return true, true
	}
	return false, false
}

// ---- Files

var wordsOf = map[string]map[string]int{
	"register": {"read": 1, "write": 1},
	"names":    {"create": 3, "unlink": 2, "rename": 3, "lookup": 3, "list": -1},
}

func parse(kind, text string, line int) (porcupine.Operation, error) {
	var out porcupine.Operation
	words := strings.Fields(text)
	if len(words) < 4 {
		return out, fmt.Errorf("line %d is no operation: %s", line, text)
	}
	o := operation{what: words[3], words: words[4:], answered: words[1] != "-", line: line}
	count, known := wordsOf[kind][o.what]
	called, err := strconv.ParseInt(words[0], 10, 64)
	client, err2 := strconv.Atoi(words[2])
	returned, err3 := int64(math.MaxInt64), error(nil)
	if o.answered {
		returned, err3 = strconv.ParseInt(words[1], 10, 64)
	}
	if !known || (count >= 0 && len(o.words) != count) || err != nil || err2 != nil || err3 != nil {
		return out, fmt.Errorf("line %d is no operation: %s", line, text)
	}
	out.ClientId, out.Input, out.Call, out.Return = client, o, called, returned
	return out, nil
}

func read(kind, path string) ([]porcupine.Operation, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	var history []porcupine.Operation
	lines := bufio.NewScanner(file)
	for line := 1; lines.Scan(); line++ {
		one, err := parse(kind, lines.Text(), line)
		if err != nil {
			return nil, err
		}
		if one.Input.(operation).what == "read" && !one.Input.(operation).answered {
			continue
		}
		history = append(history, one)
	}
	return history, lines.Err()
}

func main() {
	if len(os.Args) != 3 || wordsOf[os.Args[1]] == nil {
		fmt.Fprintln(os.Stderr, "usage: porcupine register|names FILE")
		os.Exit(2)
	}
	history, err := read(os.Args[1], os.Args[2])
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	model := porcupine.Model{Init: func() interface{} { return "0" }, Step: registerStep}
	if os.Args[1] == "names" {
		model = porcupine.Model{Init: func() interface{} { return "" }, Step: namesStep}
	}
	switch porcupine.CheckOperationsTimeout(model, history, patience) {
	case porcupine.Ok:
		fmt.Printf("linearizable: %d operations\n", len(history))
	case porcupine.Illegal:
		fmt.Printf("no order explains the answers of these %d operations\n", len(history))
		os.Exit(1)
	default:
		fmt.Printf("not known within %v\n", patience)
		os.Exit(3)
	}
}
