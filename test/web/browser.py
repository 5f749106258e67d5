"""A page in a headless Chromium: what it shows, by the ids of its elements, and whether the browser complains. For page.py, and for the scenario
web_page.py of test/cluster. What is not as it should be is collected in `problems`."""

import html.parser
import os
import shutil
import signal
import subprocess
import sys

LIMIT_S = 120
problems = []


def expect(right, what):
    if not right:
        problems.append(what)


class Elements(html.parser.HTMLParser):
    """Text, attributes and elements within, of each element with an id."""

    VOID = {"meta", "link", "br", "img", "input"}

    def __init__(self, text):
        super().__init__()
        self.open, self.text, self.attributes, self.tags, self.all = [], {}, {}, {}, []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        attributes = dict(attrs)
        for _, within in self.open:
            if within:
                self.tags[within].append((tag, attributes))
        self.all.append((tag, attributes))
        name = attributes.get("id")
        if name:
            self.attributes[name], self.text[name], self.tags[name] = attributes, "", []
        if tag not in self.VOID:
            self.open.append((tag, name))

    def handle_startendtag(self, tag, attrs):
        self.handle_starttag(tag, attrs)
        if tag not in self.VOID:
            self.open.pop()

    def handle_endtag(self, tag):
        while self.open:
            if self.open.pop()[0] == tag:
                break

    def handle_data(self, data):
        for _, within in self.open:
            if within:
                self.text[within] += data

    def shown(self, name):
        return "hidden" not in self.attributes[name]


def chromium(required=True):
    for name in ("chromium", "chromium-browser", "google-chrome"):
        if path := shutil.which(name):
            return path
    if not required:
        return None
    sys.exit("no chromium is installed; ./tools/install-packages installs it")


class Browser:
    def __init__(self, home):
        self.home, self.program = home, chromium()

    def run(self, url, *more):
        command = [self.program, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run", "--hide-scrollbars",
                   "--disable-extensions", "--disable-background-networking", f"--user-data-dir={self.home}/profile", "--enable-logging=stderr",
                   "--virtual-time-budget=6000", *more, url]
        own = os.environ | {"HOME": str(self.home), "XDG_CONFIG_HOME": str(self.home), "XDG_CACHE_HOME": str(self.home), "LANG": "C.UTF-8"}
        for last in (False, True):  # on a busy machine it sometimes waits for itself for ever
            with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=own, start_new_session=True) as browser:
                try:
                    out, errors = browser.communicate(timeout=LIMIT_S / 2)
                    break
                except subprocess.TimeoutExpired:
                    os.killpg(browser.pid, signal.SIGKILL)
                    if last:
                        raise
        complaints = [line for line in errors.decode(errors="replace").splitlines() if "CONSOLE" in line]
        expect(not complaints, f"{url}: the browser complains: {complaints[:3]}")
        return out.decode(errors="replace")

    def look(self, url):
        return Elements(self.run(url, "--dump-dom"))

    def picture(self, url, path, size, dark):
        self.run(url, f"--screenshot={path}", f"--window-size={size}", *(["--blink-settings=preferredColorScheme=0"] if dark else []))
        data = path.read_bytes() if path.exists() else b""
        expect(data[:8] == b"\x89PNG\r\n\x1a\n" and len(data) > 20_000, f"{path.name} is no picture of a page")


def says(page, where, *words):
    for word in words:
        expect(word in page.text.get(where, ""), f"#{where} does not say {word!r}, but {page.text.get(where)!r}")
