// Lines over the last hour, as SVG. No style attributes in markup: the page's policy forbids them.
"use strict";

const Charts = (() => {
  const NS = "http://www.w3.org/2000/svg";
  const W = 600, H = 210, LEFT = 64, RIGHT = 8, TOP = 8, BOTTOM = 24, HOUR = 3600e3;

  function svg(name, attributes, text) {
    const e = document.createElementNS(NS, name);
    for (const [k, v] of Object.entries(attributes)) e.setAttribute(k, v);
    if (text !== undefined) e.textContent = text;
    return e;
  }

  // The next round number of a scale: 1, 2, 5 times a power of ten, or of two where units are binary.
  function roundUp(value, binary) {
    if (!(value > 0)) return 1;
    if (binary) {
      const unit = Math.pow(1024, Math.floor(Math.log2(value) / 10));
      return roundUp(value / unit, false) * unit;
    }
    const power = Math.pow(10, Math.floor(Math.log10(value)));
    for (const step of [1, 2, 5, 10]) if (step * power >= value * (1 - 1e-9)) return step * power;
    return 10 * power;
  }

  // Paths of what is known: a gap in time or in the numbers is a gap in the line.
  function path(points, key, x, y, slot) {
    let d = "", last = null;
    for (const p of points) {
      if (typeof p[key] !== "number") { last = null; continue; }
      const joined = last !== null && p.t - last <= 3 * slot;
      d += (joined ? "L" : "M") + x(p.t).toFixed(1) + " " + y(p[key]).toFixed(1);
      if (!joined) d += "h.01";
      last = p.t;
    }
    return d;
  }

  // `series`: [{key, name}]; `format` makes words of a value; `say` is told the words for the time that is pointed at, or null.
  function draw(box, data, series, {format, binary, nowMs, label, say}) {
    const points = data.points.filter(p => p.t > nowMs - HOUR);
    const shown = series.filter(s => points.some(p => typeof p[s.key] === "number"));
    if (shown.length === 0) { box.replaceChildren(); return []; }
    const most = Math.max(0, ...shown.flatMap(s => points.map(p => p[s.key] || 0)));
    const top = roundUp(most, binary);
    const x = t => LEFT + (W - LEFT - RIGHT) * (t - (nowMs - HOUR)) / HOUR;
    const y = v => H - BOTTOM - (H - TOP - BOTTOM) * v / top;
    const kept = box.querySelector("svg"), focused = kept !== null && document.activeElement === kept;
    const chart = svg("svg", {class: "chart", viewBox: `0 0 ${W} ${H}`, role: "img", tabindex: "0", "aria-label": label});
    for (let i = 0; i <= 4; ++i) {
      chart.append(svg("line", {class: "grid", x1: LEFT, x2: W - RIGHT, y1: y(top * i / 4), y2: y(top * i / 4)}));
      if (i % 2 === 0) chart.append(svg("text", {x: LEFT - 6, y: y(top * i / 4) + 4, "text-anchor": "end"}, format(top * i / 4)));
    }
    for (const min of [60, 45, 30, 15, 0]) {
      const at = x(nowMs - min * 60e3);
      chart.append(svg("text", {x: at, y: H - 6, "text-anchor": min === 60 ? "start" : min === 0 ? "end" : "middle"}, min === 0 ? "now" : `-${min} min`));
    }
    for (const s of shown) chart.append(svg("path", {class: `line s${series.indexOf(s)}`, d: path(points, s.key, x, y, data.slot_ms)}));
    const cursor = svg("line", {class: "cursor", y1: TOP, y2: H - BOTTOM, visibility: "hidden"});
    chart.append(cursor);
    point(chart, cursor, points, shown, x, format, say);
    box.replaceChildren(chart, legend(shown, series));
    if (focused) chart.focus();
    return shown;
  }

  function point(chart, cursor, points, shown, x, format, say) {
    let at = -1;
    const show = i => {
      at = i;
      cursor.setAttribute("visibility", i < 0 ? "hidden" : "visible");
      if (i < 0) { say(null); return; }
      const p = points[i];
      cursor.setAttribute("x1", x(p.t));
      cursor.setAttribute("x2", x(p.t));
      const values = shown.filter(s => typeof p[s.key] === "number").map(s => `${s.name} ${format(p[s.key])}`);
      say(new Date(p.t).toLocaleTimeString() + ": " + (values.join(", ") || "nothing told"));
    };
    chart.addEventListener("pointermove", event => {
      const box = chart.getBoundingClientRect();
      const mine = (event.clientX - box.left) * W / box.width;
      let best = -1;
      points.forEach((p, i) => { if (best < 0 || Math.abs(x(p.t) - mine) < Math.abs(x(points[best].t) - mine)) best = i; });
      show(best);
    });
    chart.addEventListener("pointerleave", () => show(-1));
    chart.addEventListener("blur", () => show(-1));
    chart.addEventListener("keydown", event => {
      const step = {ArrowLeft: -1, ArrowRight: 1, Home: -points.length, End: points.length}[event.key];
      if (event.key === "Escape") show(-1);
      if (step === undefined) return;
      event.preventDefault();
      show(Math.max(0, Math.min(points.length - 1, (at < 0 ? points.length : at) + step)));
    });
  }

  function legend(shown, series) {
    const p = document.createElement("p");
    p.className = "quiet";
    for (const s of shown) {
      const key = document.createElement("span");
      key.className = "key";
      const sample = svg("svg", {viewBox: "0 0 36 12", "aria-hidden": "true"});
      sample.append(svg("path", {class: `line s${series.indexOf(s)}`, d: "M1 6H35"}));
      key.append(sample, " " + s.name);
      p.append(key);
    }
    return p;
  }

  return {draw, roundUp};
})();
