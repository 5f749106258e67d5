// Shows what the program says of the cluster. Everything that others have named comes in as text, never as markup.
"use strict";

const PERIOD_MS = 2000, HISTORY_MS = 10000, HIDDEN_MS = 10000, FETCH_MS = 8000;
const RANK = {"HEALTHY": 0, "DEGRADED": 1, "AT RISK": 2};
const MARK = {"HEALTHY": "\u2714", "DEGRADED": "\u25B2", "AT RISK": "\u2716"};
const MAX_ROWS = 200;

// ---- Words ----

// Names may be any bytes: one that is not UTF-8 comes as a lone surrogate. Control characters, and those that turn the direction of
// writing, are shown by their numbers.
function shown(name) {
  return String(name ?? "").replace(/(?<![\uD800-\uDBFF])[\uDC80-\uDCFF]/g, c => "\\x" + (c.charCodeAt(0) - 0xDC00).toString(16))
    .replace(/[\u0000-\u001F\u007F-\u009F\u200E\u200F\u202A-\u202E\u2066-\u2069]/g, c => "\\u" + c.charCodeAt(0).toString(16).padStart(4, "0"));
}
function bytes(n) {
  if (typeof n !== "number" || !isFinite(n)) return "?";
  const units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
  let i = 0;
  while (n >= 1023.5 && i < units.length - 1) { n /= 1024; ++i; }
  return (i === 0 || n >= 9.95 ? Math.round(n) : n.toFixed(1)) + " " + units[i];
}
const rate = n => bytes(n) + "/s";
const milliseconds = n => (n >= 1000 ? (n / 1000).toFixed(1) + " s" : n >= 9.95 ? Math.round(n) + " ms" : n.toFixed(1) + " ms");
const count = (n, one, many) => `${(n ?? 0).toLocaleString("en")} ${n === 1 ? one : many}`;
function duration(s) {
  s = Math.max(0, Math.round(s));
  if (s < 60) return `${s} s`;
  if (s < 3600) return `${Math.floor(s / 60)} min` + (s < 600 && s % 60 ? ` ${s % 60} s` : "");
  if (s < 86400) return `${Math.floor(s / 3600)} h` + (s % 3600 >= 60 ? ` ${Math.floor(s % 3600 / 60)} min` : "");
  return `${Math.floor(s / 86400)} d` + (s % 86400 >= 3600 ? ` ${Math.floor(s % 86400 / 3600)} h` : "");
}
const percent = (done, total) => (total > 0 ? Math.min(100, Math.floor(100 * done / total)) : 100);
const list = value => (Array.isArray(value) ? value : []);

// ---- Elements ----

const at = id => document.getElementById(id);
function say(element, text) { if (element.textContent !== text) element.textContent = text; }
function make(tag, properties = {}, ...children) {
  const e = document.createElement(tag);
  for (const [k, v] of Object.entries(properties)) k === "class" ? e.className = v : k.includes("-") || k === "role" || k === "scope" ? e.setAttribute(k, v) : e[k] = v;
  e.append(...children);
  return e;
}
const named = name => make("bdi", {textContent: shown(name)});

// ---- Health ----

function showHealth(status) {
  const level = status.state in RANK ? status.state : "DEGRADED";
  const findings = [...list(status.findings)].sort((a, b) => (RANK[b.severity] ?? 1) - (RANK[a.severity] ?? 1));
  const faults = findings.filter(f => (RANK[f.severity] ?? 1) > 0);
  const worst = faults[0];
  const moving = list(status.rebuilds).some(r => !isDone(r) && !r.paused);
  at("health").dataset.level = level.toLowerCase();
  say(at("health-mark"), MARK[level]);
  say(at("health-word"), level[0] + level.slice(1).toLowerCase() + (moving ? ", rebuilding" : ""));
  say(at("health-what"), worst ? shown(worst.what) : "All data can be read, with the redundancy that its layouts ask for.");
  say(at("health-action"), worst ? shown(worst.action) || "Nothing to do: it heals by itself." : "");
  const more = findings.filter(f => f !== worst);
  const box = at("more-findings");
  box.hidden = more.length === 0;
  say(at("more-count"), `${count(more.length, "more finding", "more findings")}`);
  refill(at("findings"), more, f => make("li", {}, make("span", {class: "level", textContent: (RANK[f.severity] ?? 1) > 0 ? `${MARK[f.severity] ?? ""} ${f.severity}: ` : "Hint: "}),
    shown(f.what), " ", make("span", {class: "action", textContent: shown(f.action)})));
  showTotals(status);
}

function showTotals(status) {
  const disks = list(status.disks);
  const sum = key => disks.reduce((s, d) => s + (d[key] || 0), 0);
  const rows = [["Nodes up", `${list(status.nodes).filter(n => n.state === "up").length} of ${list(status.nodes).length}`],
    ["Disks in order", `${disks.filter(d => faultOf(d) === "").length} of ${disks.length}`],
    ["Free", `${bytes(sum("free_bytes"))} of ${bytes(sum("capacity_bytes"))}`],
    ["Files", (status.files ?? 0).toLocaleString("en")], ["Data", bytes((status.live_bytes || 0) + (status.inline_bytes || 0))],
    ["Stripes with less redundancy", (status.degraded_stripes ?? 0).toLocaleString("en")],
    ["Stripes that cannot be read", (status.lost_stripes ?? 0).toLocaleString("en")], ["Metadata backup", backupWords(status.upkeep?.backup)]];
  refill(at("totals"), rows, ([what, value]) => make("div", {}, make("dt", {textContent: what}), make("dd", {textContent: value})));
}

function backupWords(b) {
  if (!b || !b.on) return "off";
  if (!b.complete) return "being made";
  return b.behind_s < 1 ? "up to date" : duration(b.behind_s) + " behind";
}

// Anew only if it shows something else: what has the focus, or is being read out, stays.
function refill(box, items, element) {
  const told = JSON.stringify(items);
  if (box.told === told) return;
  box.told = told;
  box.replaceChildren(...items.map(element));
}

// ---- Nodes and disks ----

const errorsOf = d => (d.read_errors || 0) + (d.write_errors || 0) + (d.checksum_errors || 0);
function faultOf(d) {
  if (d.health && d.health !== "ok") return d.health;
  const errors = errorsOf(d);
  return errors > 0 ? count(errors, "error", "errors") : "";
}
const usedOf = d => (d.capacity_bytes > 0 ? 100 - Math.round(100 * d.free_bytes / d.capacity_bytes) : 0);
const stepOf = used => (used < 50 ? 0 : used < 75 ? 1 : used < 90 ? 2 : used < 95 ? 3 : 4);

function diskWords(d) {
  const words = [`Disk ${shown(d.name)} is ${d.health === "ok" ? "in order" : shown(d.health)}`, `${usedOf(d)} % full, ${bytes(d.free_bytes)} of ${bytes(d.capacity_bytes)} free`];
  if (errorsOf(d) > 0) words.push(`${d.read_errors} read errors, ${d.write_errors} write errors, ${d.checksum_errors} checksum errors`);
  if (d.read_us > 0) words.push(`half of its reads take ${milliseconds(d.read_us / 1000)} or more`);
  if (d.problem) words.push(shown(d.problem));
  return words.join("; ") + ".";
}

let chosen = null;  // id of the disk whose words are shown

function diskCell(d) {
  const fault = faultOf(d);
  const cell = make("button", {class: `cell ${fault ? "bad" : "f" + stepOf(usedOf(d))}`, type: "button", "aria-label": diskWords(d), title: diskWords(d),
    "aria-pressed": String(chosen === d.id)}, named(d.label), ` ${usedOf(d)} %`, fault ? make("strong", {textContent: ` ! ${shown(fault)}`}) : "");
  cell.dataset.disk = d.id;
  cell.addEventListener("click", () => { chosen = chosen === d.id ? null : d.id; redraw(); });
  return make("li", {}, cell);
}

function nodeBox(node, disks) {
  const channels = new Map();
  for (const d of disks) channels.set(d.channel || "", [...(channels.get(d.channel || "") || []), d]);
  const bad = node.state !== "up";
  const title = make("h3", {}, named(node.name), bad ? make("strong", {textContent: ` ! ${shown(node.state)}`}) : make("span", {class: "quiet", textContent: " up"}));
  const box = make("li", {class: "node" + (bad ? " fault" : "")}, title);
  for (const [name, there] of channels) {
    const label = name === "" ? [] : [make("span", {}, "channel ", named(name))];
    box.append(make("div", {class: "channel"}, ...label, make("ul", {class: "plain"}, ...there.map(diskCell))));
  }
  return box;
}

function showTree(status) {
  const focused = document.activeElement?.dataset?.disk;
  const nodes = list(status.nodes), disks = list(status.disks);
  // Disks name their node; two nodes never have one name.
  refill(at("tree"), nodes.map(n => ({node: n, disks: disks.filter(d => d.node === n.name), chosen})), ({node, disks: of}) => nodeBox(node, of));
  if (focused !== undefined && document.activeElement?.dataset?.disk !== focused) {
    for (const cell of at("tree").querySelectorAll("button")) if (cell.dataset.disk === focused) cell.focus();
  }
  const faults = disks.filter(d => faultOf(d) !== "").length + nodes.filter(n => n.state !== "up").length;
  say(at("tree-words"), nodes.length === 0 ? "There are no nodes yet." : faults === 0 ? "No node or disk shows a fault." : `${count(faults, "node or disk shows", "nodes and disks show")} a fault.`);
  const disk = disks.find(d => d.id === chosen);
  at("disk-detail").hidden = disk === undefined;
  say(at("disk-detail"), disk === undefined ? "" : diskWords(disk));
}

// ---- Background work ----

const isDone = r => !(r.stuck > 0) && r.stripes_done >= r.stripes_total;

function workOf(status, flows) {
  const work = [];
  const left = (amount, speed) => (speed > 0 ? `, ${rate(speed)}, ${duration(amount / speed)} left` : "");
  for (const r of list(status.rebuilds)) {
    const byBytes = r.bytes_total > 0;
    const done = byBytes ? r.bytes_done : r.stripes_done, total = byBytes ? r.bytes_total : r.stripes_total;
    const drain = /drain/.test(r.reason ?? "");
    let words = byBytes ? `${bytes(done)} of ${bytes(total)}` : `${done} of ${count(total, "stripe", "stripes")}`;
    if (r.paused) words += ", paused";
    else if (isDone(r)) words += ", done";
    else words += (r.bytes_per_s > 0 ? `, ${rate(r.bytes_per_s)}` : "") + (typeof r.eta_s === "number" ? `, ${duration(r.eta_s)} left` : ", time left not known yet");
    if (r.stuck > 0) words += `; ${count(r.stuck, "stripe has", "stripes have")} no place to go or too few survivors`;
    work.push({id: drain ? "drain" : "rebuild", title: `${drain ? "Drain" : "Rebuild"} of ${shown(r.target)}`, why: shown(r.reason), words, done, total});
  }
  const scrub = status.upkeep?.scrub, running = list(scrub?.disks).filter(d => d.running);
  if (running.length > 0) {
    const done = running.reduce((s, d) => s + d.bytes_done, 0), total = running.reduce((s, d) => s + Math.max(d.bytes_total, d.bytes_done), 0);
    const damaged = running.reduce((s, d) => s + d.damaged, 0);
    work.push({id: "scrub", title: `Scrub of ${count(running.length, "disk", "disks")}`, why: "", done, total,
      words: `${bytes(done)} of ${bytes(total)}` + (scrub.paused ? ", paused" : left(total - done, flows.scrubbed)) + (damaged > 0 ? `; ${count(damaged, "damaged shard", "damaged shards")} found` : "")});
  }
  const b = status.upkeep?.rebalance;
  if (b?.running) {
    const total = b.bytes_done + b.bytes_left;
    work.push({id: "rebalance", title: "Rebalance", why: "", done: b.bytes_done, total, words: `${bytes(b.bytes_done)} of about ${bytes(total)}` + left(b.bytes_left, flows.moved)});
  }
  const f = status.upkeep?.folding;
  if (f?.on && f.under_way + f.waiting > 0) {
    const eta = flows.folds > 0 ? `, ${rate(flows.folded)}, ${duration((f.waiting + f.under_way) / flows.folds)} left` : "";
    work.push({id: "fold", title: "Fold", why: "", words: `${f.under_way} under way, ${count(f.waiting, "stripe waits", "stripes wait")}, ${bytes(f.folded_bytes)} folded so far${eta}`});
  }
  return work;
}

function showWork(status, flows) {
  const work = workOf(status, flows);
  refill(at("work"), work.length > 0 ? work : [{id: "idle", title: "Nothing is under way.", words: "", why: ""}], w => {
    const item = make("li", {}, make("strong", {textContent: w.title}), w.why ? ` (${w.why})` : "");
    item.dataset.work = w.id;
    if (w.total !== undefined) item.append(make("progress", {max: 100, value: percent(w.done, w.total), "aria-label": w.title}), `${percent(w.done, w.total)} %, `);
    else if (w.words) item.append(": ");
    item.append(w.words);
    return item;
  });
}

// ---- Clients ----

function shareWords(c) {
  const read = (c.local_bytes || 0) + (c.network_bytes || 0);
  if (typeof c.local_bytes !== "number") return {words: "not told", read: 0};
  if (read === 0) return {words: "nothing yet", read};
  const of = n => Math.round(100 * n / read) + " %";
  return {words: `${bytes(read)}: ${of(c.local_bytes)} local, ${of(c.network_bytes)} remote` + (c.reconstructed_bytes > 0 ? `; ${bytes(c.reconstructed_bytes)} decoded` : ""), read};
}

function showClients(status) {
  const clients = list(status.clients);
  refill(at("clients").tBodies[0], clients.slice(0, MAX_ROWS), c => {
    const {words, read} = shareWords(c);
    const cell = make("td", {}, words);
    if (read > 0) {
      const decoded = Math.min(c.reconstructed_bytes || 0, c.network_bytes);
      const bar = make("div", {class: "share", "aria-hidden": "true"});
      for (const [kind, n] of [["local", c.local_bytes], ["remote", c.network_bytes - decoded], ["decoded", decoded]]) {
        const part = make("span", {class: kind});
        part.style.width = 100 * n / read + "%";
        bar.append(part);
      }
      cell.append(bar);
    }
    return make("tr", {}, make("th", {scope: "row"}, named(c.client), c.owner ? make("div", {class: "quiet"}, named(c.owner)) : ""), make("td", {}, c.node ? named(c.node) : "none"), cell,
      make("td", {textContent: typeof c.written_bytes === "number" ? bytes(c.written_bytes) : "not told"}));
  });
  at("clients").hidden = clients.length === 0;
  say(at("clients-words"), clients.length === 0 ? "Nobody has it mounted." : clients.length > MAX_ROWS ? `and ${clients.length - MAX_ROWS} more` : "");
}

// ---- Metadata servers, if there are several ----

function copyWords(m, primary) {
  const behind = m.name !== primary && m.lag > 0 ? `, ${count(m.lag, "change", "changes")} behind` : "";
  return (m.in_sync ? "in sync" : "not in sync") + behind;
}

function showMetas(status) {
  const metas = status.metadata_servers, members = list(metas?.members);
  at("metas-section").hidden = members.length === 0;
  const inSync = members.filter(m => m.in_sync).length;
  say(at("metas-words"), metas?.primary ? `${shown(metas.primary)} serves, in term ${metas.term}; ${inSync} of ${members.length} have everything that is durable.` : "Nobody serves.");
  refill(at("metas").tBodies[0], members.slice(0, MAX_ROWS).map(m => ({m, copy: copyWords(m, metas.primary)})), ({m, copy}) => {
    const answers = m.role !== "unreachable", bad = !answers || m.role === "stalled";
    return make("tr", {}, make("th", {scope: "row"}, named(m.name), make("div", {class: "quiet"}, named(m.address))),
      make("td", {}, bad ? make("strong", {textContent: `! ${shown(m.role)}`}) : shown(m.role)),
      make("td", {}, m.in_sync ? copy : make("strong", {textContent: `! ${copy}`}), m.problem ? make("div", {class: "quiet", textContent: shown(m.problem)}) : ""),
      make("td", {}, !answers ? "not known" : m.coordinator ? "reached" : make("strong", {textContent: "! not reached"})));
  });
}

// ---- History and events ----

const FLOWS = [{key: "read", name: "read"}, {key: "written", name: "written"}, {key: "rebuilt", name: "rebuilt"}, {key: "scrubbed", name: "scrubbed"}, {key: "moved", name: "moved"}];
const TIMES = [{key: "answer_ms", name: "metadata answers in"}, {key: "disk_ms", name: "median disk reads in"}, {key: "worst_disk_ms", name: "slowest disk reads in"}];
let hour = {slot_ms: 10000, points: []};

// Of the last half minute, so that a slot that has just begun does not jump.
function latest(nowMs) {
  const out = {};
  for (const p of hour.points) {
    if (nowMs - p.t > 30000) continue;
    for (const [k, v] of Object.entries(p)) if (typeof v === "number") out[k] = v;
  }
  return out;
}

function showCharts(nowMs, flows) {
  const words = (series, format) => series.filter(s => typeof flows[s.key] === "number").map(s => `${s.name} ${format(flows[s.key])}`).join(", ");
  const chart = (id, series, format, binary, label) => {
    const box = at(id), text = at(id + "-now");
    const now = words(series, format) || (hour.points.length > 0 ? "No numbers now." : "No numbers yet.");
    if (box.drawn !== hour) {  // else what is pointed at would be lost
      box.drawn = hour;
      text.pointed = false;
      Charts.draw(box, hour, series, {format, binary, nowMs, label: `${label}. Now: ${now} Arrow keys go through the hour.`,
        say: pointed => { text.pointed = pointed !== null; say(text, pointed ?? now); }});
    }
    if (!text.pointed) say(text, now);
  };
  chart("throughput", FLOWS.filter(s => hour.points.some(p => p[s.key] > 0) || s.key === "read" || s.key === "written"), rate, true, "Bytes a second over the last hour");
  chart("latency", TIMES, milliseconds, false, "Times over the last hour");
}

function showEvents(all) {
  at("events-section").hidden = !all.available || list(all.events).length === 0;
  refill(at("events"), list(all.events).slice(0, MAX_ROWS), e => make("li", {}, make("time", {textContent: new Date(1000 * e.time_s).toLocaleString(), dateTime: new Date(1000 * e.time_s).toISOString()}),
    " ", make("span", {class: "level", textContent: e.severity ? `${shown(e.severity)}: ` : ""}), shown(e.what), " ", make("span", {class: "action", textContent: shown(e.action)})));
}

// ---- The whole ----

let last = null;  // the last answer of the program

function showAway(text) {
  at("away").hidden = text === "";
  say(at("away"), text);
}

function redraw() {
  if (last === null) return;
  const flows = latest(last.now_ms);
  document.body.dataset.state = last.state;
  say(at("program"), `stria-web ${shown(last.program)}`);
  say(at("cluster"), (last.recorded ? "recorded: " : "") + shown(last.cluster) + (last.status?.cluster ? ` (cluster ${shown(last.status.cluster)})` : ""));
  say(at("clock"), last.as_of_ms === null ? "" : `as of ${new Date(last.as_of_ms).toLocaleTimeString()}`);
  if (last.state === "away") {
    const since = `Metadata away since ${new Date(last.away_since_ms).toLocaleTimeString()} (for ${duration((last.now_ms - last.away_since_ms) / 1000)}): ${shown(last.error)}.`;
    showAway(since.replace(/\.\.$/, ".") + (last.status === null ? "" : " What follows is what was last known."));
  } else {
    showAway("");
  }
  if (last.status === null) {
    at("health").dataset.level = "none";
    say(at("health-mark"), "");
    say(at("health-word"), last.state === "away" ? "Not known" : "Asking the cluster");
    say(at("health-what"), last.state === "away" ? "The metadata server has not answered yet." : "");
    document.title = "Stria: not known";
    return;
  }
  const known = last.state === "away" ? "Was " : "";
  showHealth(last.status);
  if (known) say(at("health-word"), known + at("health-word").textContent.toLowerCase());
  document.title = `Stria: ${at("health-word").textContent}`;
  showTree(last.status);
  showWork(last.status, flows);
  showClients(last.status);
  showMetas(last.status);
  showCharts(last.now_ms, flows);
}

async function ask(path) {
  const reply = await fetch(path, {signal: AbortSignal.timeout(FETCH_MS), cache: "no-store"});
  if (!reply.ok) throw new Error(`${path}: ${reply.status}`);
  return reply.json();
}

let historyAt = -Infinity, goneAt = null;

function gone() {
  goneAt ??= Date.now();
  document.body.dataset.state = "away";
  showAway(`This page gets no answer from stria-web since ${new Date(goneAt).toLocaleTimeString()}.` + (last === null ? "" : " What follows is what was last known."));
}

async function tick() {
  setTimeout(tick, document.hidden ? HIDDEN_MS : PERIOD_MS);
  let events = null;
  try {
    if (performance.now() - historyAt >= HISTORY_MS) {
      [hour, events] = await Promise.all([ask("api/history.json"), ask("api/events.json")]);
      historyAt = performance.now();
    }
    last = await ask("api/status.json");
  } catch {
    return gone();
  }
  goneAt = null;
  if (events !== null) showEvents(events);
  redraw();
}
document.addEventListener("DOMContentLoaded", tick);
