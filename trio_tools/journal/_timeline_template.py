"""The page of a timeline but for what it shows: its style, its script, and the HTML around both."""

from __future__ import annotations

import base64
import hashlib

__all__ = ["BEFORE", "BEHIND", "BODY", "NOTHING"]

_STYLE = """
:root{color-scheme:light dark;--page:#fff;--ink:#1b1f24;--soft:#59636e;--line:#d9dee4;--panel:#f4f6f8;--row:#f8f9fb;
--waiting:#98a3af;--work:#0072b2;--work-ink:#fff;--commit:#e69f00;--commit2:#a96f00;--ok:#00785a;--bad:#c44e00;
--cancel:#a3437f;--again:#0072b2;--crash:#1b1f24;--on:#fff;--labels:250px}
@media(prefers-color-scheme:dark){:root{--page:#14171a;--ink:#e8eaed;--soft:#a2abb5;--line:#343a41;--panel:#1d2125;
--row:#191c20;--waiting:#7f8a96;--work:#56b4e9;--work-ink:#06202e;--commit:#e69f00;--commit2:#8f5f00;--ok:#2fbf97;
--bad:#ff8a3d;--cancel:#e08cc0;--again:#56b4e9;--crash:#f4f4f4;--on:#14171a}}
*{box-sizing:border-box}[hidden]{display:none!important}
body{margin:0;height:100vh;display:flex;flex-direction:column;background:var(--page);color:var(--ink);
font:13px/1.4 system-ui,"Segoe UI","DejaVu Sans",sans-serif}
header{padding:12px 16px 10px;border-bottom:1px solid var(--line)}
h1{margin:0;font-size:17px;white-space:nowrap;overflow:hidden;text-overflow:ellipsis}
bdi,pre,dd{unicode-bidi:isolate}
header p{margin:1px 0 8px;color:var(--soft)}
.bar{display:flex;flex-wrap:wrap;gap:4px 16px;align-items:center}
.bar ul{display:flex;flex-wrap:wrap;gap:4px 14px;margin:0;padding:0;list-style:none;flex:1}
.bar li{display:flex;align-items:center;gap:5px}.bar li i{position:static;width:24px}
.bar button{font:inherit;padding:1px 10px;border:1px solid var(--line);border-radius:5px;background:var(--panel);
color:inherit}
#scroll{flex:1;overflow:auto;position:relative;min-height:0;scroll-padding:60px 30px 10px 280px}
#canvas{position:relative;overflow:clip}
.row{display:flex;height:30px;border-bottom:1px solid var(--line);background:var(--page)}
.row:nth-child(even){background:var(--row)}
.label{position:sticky;left:0;z-index:5;width:var(--labels);flex:none;padding:0 8px 0 16px;border:0;border-right:1px
solid var(--line);background:inherit;color:inherit;font:inherit;text-align:left;white-space:nowrap;overflow:hidden;
text-overflow:ellipsis;line-height:30px}
.label>bdi{display:inline-block;max-width:150px;overflow:hidden;text-overflow:ellipsis;vertical-align:top}
.label span{color:var(--soft);margin-left:6px}
.plot{position:relative;flex:1;margin:0 26px 0 22px}
#axis{position:sticky;top:0;z-index:6;height:54px;background:var(--page)}
#axis .label{line-height:1.4;padding-top:32px;font-weight:600}
#axis .plot{font-size:11px;color:var(--soft)}
#axis .plot span{position:absolute;white-space:nowrap;font-variant-numeric:tabular-nums}
#axis .clock{top:18px}#axis .tick,#axis .skip{top:35px}#axis .tick{transform:translateX(-50%)}
#axis .tick.zero{transform:none}
#axis .skip{transform:translateX(-50%);font-style:italic}
#axis .restart{top:2px;color:var(--ink);font-weight:600;transform:translateX(-100%);padding-right:5px}
#lines{position:absolute;inset:54px 0 0 var(--labels);pointer-events:none}
#lines .plot{height:100%}#lines b{position:absolute;top:0;bottom:0;z-index:2}
#lines .tick{border-left:1px solid var(--line);z-index:0}
#lines .skip{background:repeating-linear-gradient(-55deg,var(--page) 0 4px,var(--line) 4px 6px);opacity:.72;
border:solid var(--soft);border-width:0 1px}
#lines .restart{border-left:2px dashed var(--ink)}
i,.item{font-style:normal;display:block;padding:0;border:0;background:none;color:inherit}
.item{position:absolute;z-index:1;cursor:pointer}.mark{z-index:4}
.waiting{top:12px;height:6px;background:var(--waiting);border-radius:3px;min-width:1px}
.work{top:7px;height:16px;background:var(--work);color:var(--work-ink);min-width:3px;border-radius:2px;font-size:10px;
overflow:hidden;line-height:16px;text-align:left;text-indent:3px}
.committing{top:10px;height:10px;min-width:1px;
background:repeating-linear-gradient(45deg,var(--commit) 0 4px,var(--commit2) 4px 6px)}
.cut{border-right:3px double var(--crash)}
.open{-webkit-mask:linear-gradient(90deg,#000 40%,#0003);mask:linear-gradient(90deg,#000 40%,#0003)}
.mark{top:7px;width:17px;height:17px}.mark svg{display:block;width:17px;height:17px}
.mark.approval{top:0;margin-left:-7px}.mark.approval,.mark.approval svg{width:14px;height:14px}
.bar .item{cursor:auto}.bar .mark{margin:0;width:17px}
svg{fill:var(--ink);stroke:var(--on);stroke-width:2;stroke-linejoin:round;stroke-linecap:round}
.success svg{fill:var(--ok)}.failure svg{fill:var(--bad)}.cancel svg{fill:var(--cancel)}.crash svg{fill:var(--crash)}
.resumed svg{fill:var(--again)}.approval svg{fill:var(--page);stroke:var(--ink)}
:focus-visible{outline:2px solid var(--ink);outline-offset:1px}.pinned{outline:2px solid var(--ink);outline-offset:2px}
.label:focus-visible,.label.pinned{outline-offset:-3px}
#details{height:184px;flex:none;overflow:auto;padding:10px 16px;border-top:1px solid var(--line);
background:var(--panel);display:flex;gap:24px}
#details dl{display:grid;grid-template-columns:max-content 1fr;gap:1px 14px;margin:0;flex:1;align-content:start}
#details dt{color:var(--soft)}#details dd{margin:0}
#details dd,pre{white-space:pre-wrap;overflow-wrap:anywhere}
pre{flex:1;margin:0;font:12px/1.5 ui-monospace,"DejaVu Sans Mono",monospace}
pre::before{content:"arguments\\A";font:13px system-ui,"DejaVu Sans",sans-serif;color:var(--soft)}
#none{padding:40px 16px;font-size:15px}
"""

_SCRIPT = r"""
"use strict";
addEventListener("error", (event) => { document.body.dataset.error = event.message; });
const data = JSON.parse(document.getElementById("data").textContent);
const by = (id) => document.getElementById(id), scroll = by("scroll"), ticks = by("ticks"), over = by("over");
const STAGES = { waiting: "waiting: policies, approval, queue", work: "work: the tool's body",
  committing: "committing: after-policies, its turn" };
const MARKS = {  // a shape, and a sign on it
  approval: ["approval", "M10 1a9 9 0 1 0 .01 0z", "M6.5 14.5 10 5l3.5 9.5M8 12h4"],
  resumed: ["resumed: made once more", "M1 2h10l8 8-8 8H1z", "M5 6l4 4-4 4M10 6l4 4-4 4"],
  success: ["success", "M10 1a9 9 0 1 0 .01 0z", "M6 10.5l3 3 5-7"],
  failure: ["failure", "M1.5 1.5h17v17h-17z", "M10 5v6M10 15v.1"],
  cancel: ["cancelled", "M10 .5 19.5 10 10 19.5.5 10z", "M7.2 7.2l5.6 5.6M12.8 7.2l-5.6 5.6"],
  crash: ["crash: the program ended here", "M6 1h8l5 5v8l-5 5H6l-5-5V6z", "M11.5 3.5 7 10.5h6l-4.5 6"] };
const STEPS = [1e-5, 1e-4, 1e-3, 1e-2, 0.1].flatMap((one) => [one, 2 * one, 5 * one]).concat(
  1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 21600, 43200,
  [1, 10, 100, 1e3, 1e4].flatMap((one) => [86400 * one, 172800 * one, 432000 * one]));
const UNITS = [[86400, "d"], [3600, "h"], [60, "min"], [1, "s"]];
const told = new Map(), rows = [], marks = [];
let zoom = 1, width = 0, current = null, pinned = null;

function make(parent, tag, kind, text) {
  const made = document.createElement(tag);
  made.className = kind;
  made.textContent = text ?? "";
  parent.append(made);
  return made;
}
function drawn(parent, kind) {
  const space = "http://www.w3.org/2000/svg";
  const [svg, shape, sign] = ["svg", "path", "path"].map((tag) => document.createElementNS(space, tag));
  svg.setAttribute("viewBox", "-1 -1 22 22");
  shape.setAttribute("d", MARKS[kind][1]);
  if (kind !== "approval") shape.setAttribute("stroke", "none");
  sign.setAttribute("d", MARKS[kind][2]);
  sign.setAttribute("fill", "none");
  svg.append(shape, sign);
  parent.append(svg);
}
function lasting(seconds, digits = 4) {
  if (seconds < 1e-3) return Math.round(seconds * 1e6) + " µs";
  if (seconds < 1) return +(seconds * 1e3).toPrecision(digits) + " ms";
  if (seconds < 60 || digits > 4) return +seconds.toPrecision(digits) + " s";
  const at = Math.min(UNITS.findIndex(([size]) => seconds >= size), 2), [[big, name], [small, less]] = UNITS.slice(at);
  const whole = Math.round(seconds / small) * small, rest = Math.round((whole % big) / small);
  return `${Math.floor(whole / big)} ${name}` + (rest ? ` ${rest} ${less}` : "");
}
function clock(at) {
  const date = new Date((data.start + at) * 1000);
  return isNaN(date) ? String(data.start + at) : date.toISOString().replace("T", " ").replace("Z", "");
}

function details(lane, item) {
  const found = [["call", lane.id], ["tool", lane.tool]];
  if (lane.root !== null) found.push(["made for", lane.root]);
  if (lane.agent !== null) found.push(["agent", lane.agent]);
  if (item === null) {
    found.push(["stages", lane.items.filter((one) => one.kind in STAGES)
      .map((one) => `${one.kind} ${lasting(one.d)}`).join(", ")]);
  } else {
    const ends = { cut: ", cut by a crash", open: ", and no record ends it", "": "" }[item.end ?? ""];
    found.push(item.kind in STAGES ? [item.kind, lasting(item.d) + ends] : ["mark", MARKS[item.kind][0]],
      ["at", `${clock(item.t)} UTC (+${lasting(item.t)})`],
      ["in", `run ${item.run}, attempt ${item.attempt}`]);
    for (const name of ["code", "message", "cause", "body"]) if (name in item) found.push([name, item[name]]);
  }
  return found;
}
function show(button) {
  const list = document.createElement("dl");
  for (const [name, value] of details(...told.get(button))) {
    make(list, "dt", "", name);
    make(list, "dd", "", value);
  }
  by("details").replaceChildren(list);
  make(by("details"), "pre", "", told.get(button)[0].arguments);
}
function pin(button) {
  pinned?.classList.remove("pinned");
  pinned = button;
  button?.classList.add("pinned");
  if (button) show(button);
}
function lane(lane) {
  const row = make(by("lanes"), "div", "row lane"), label = make(row, "button", "label");
  make(label, "bdi", "", lane.id);
  make(make(label, "span", ""), "bdi", "", lane.tool);
  const plot = make(row, "div", "plot"), buttons = [label];
  told.set(label, [lane, null]);
  for (const item of lane.items) {
    const stage = item.kind in STAGES;
    const made = make(plot, "button", `item ${stage ? "" : "mark "}${item.kind} ${item.end ?? ""}`);
    if (stage) {
      made.style.left = item.x * 100 + "%";
      made.style.width = (item.to - item.x) * 100 + "%";
      if (item.kind === "work" && item.attempt > 1) made.textContent = item.attempt;
    } else {
      drawn(made, item.kind);
    }
    const word = stage ? `${item.kind} ${lasting(item.d)}` : MARKS[item.kind][0];
    made.setAttribute("aria-label", `${word}, call ${lane.id}`);
    told.set(made, [lane, item]);
    buttons.push(made);
  }
  marks.push(buttons.filter((one) => one.classList.contains("mark")));
  for (const one of buttons) one.tabIndex = -1;
  rows.push(buttons);
}

function axis() {
  let said = -Infinity, day = "", named = -Infinity;
  ticks.replaceChildren();
  over.replaceChildren();
  const put = (kind, x, text, wide) => {
    const line = make(over, "b", kind);
    line.style.left = x + "px";
    if (wide) line.style.width = wide + "px";
    if (text) make(ticks, "span", kind, text).style.left = x + (wide ?? 0) / 2 + "px";
  };
  data.pieces.forEach(([start, end, left, right, gap], index) => {
    const x = left * width, wide = (right - left) * width;
    if (gap) {
      put("skip", x, wide > 48 ? lasting(end - start) : "", wide);
      return;
    }
    const now = clock(start), text = now.slice(0, 10) === day ? now.slice(11, 19) : now.slice(0, 19) + " UTC";
    if (x > said) {
      const label = make(ticks, "span", "clock", text), beyond = x + text.length * 6.6 - width - 24;
      label.style.left = x - Math.max(beyond, 0) + "px";
      [said, day] = [x + text.length * 7 + 12, now.slice(0, 10)];
    }
    const scale = wide / (end - start), step = STEPS.find((one) => one * scale >= 84) ?? Infinity;
    const room = index + 1 < data.pieces.length ? 34 : -20;
    put("tick", x, wide > 40 ? "0" : "");
    for (let each = 1; each * step <= end - start; each++) {
      const at = each * step * scale;
      put("tick", x + at, at + room < wide ? "+" + lasting(each * step, step < 1 ? 9 : 4) : "");
    }
  });
  for (const each of data.restarts) {
    const x = each.x * width, text = each.crashed ? "crash, restarted" : "restarted", free = x > named;
    put("restart", x, free ? text : "");
    if (!free) continue;
    named = x + 130;
    if (x < 120) ticks.lastChild.style.transform = "none";
  }
}
function layout() {
  const before = width, middle = scroll.clientWidth / 2, room = scroll.clientWidth - 298;
  const thinnest = Math.min(...data.pieces.filter((one) => one[4]).map((one) => one[3] - one[2]), 1);
  const base = Math.max(room, 14 / thinnest, 300);
  zoom = Math.min(zoom, Math.max(400000 / base, 1));
  width = base * zoom;
  by("canvas").style.width = width + 298 + "px";
  axis();
  for (const each of marks) {
    let free = -Infinity;
    for (const mark of each) {
      const item = told.get(mark)[1], at = item.x * width - (item.kind === "resumed" ? 17 : 0);
      const left = item.kind === "approval" ? at : Math.max(at, free);
      mark.style.left = left + "px";
      if (item.kind !== "approval") free = left + 18;
    }
  }
  if (before) scroll.scrollLeft = (scroll.scrollLeft + middle - 272) / before * width - middle + 272;
}
function zoomed(factor) {
  zoom = Math.max(1, zoom * factor);
  layout();
}
function focus(button) {
  if (current) current.tabIndex = -1;
  current = button;
  current.tabIndex = 0;
}
const button = (event) => event.target.closest("#lanes button");
scroll.addEventListener("mouseover", (event) => { if (!pinned && button(event)) show(button(event)); });
scroll.addEventListener("focusin", (event) => {
  if (!button(event)) return;
  focus(button(event));
  if (pinned) pin(null);
  show(current);
});
scroll.addEventListener("click", (event) => pin(button(event) === pinned ? null : button(event)));
scroll.addEventListener("keydown", (event) => {
  const row = rows.findIndex((one) => one.includes(current)), last = rows.length - 1;
  const column = row < 0 ? 0 : rows[row].indexOf(current);
  const next = { ArrowUp: [row - 1, column], ArrowDown: [row + 1, column], ArrowLeft: [row, column - 1],
    ArrowRight: [row, column + 1], Home: [0, 0], End: [last, 0] }[event.key];
  if (!next || event.ctrlKey || event.metaKey || event.altKey) return;
  event.preventDefault();
  const to = rows[Math.min(Math.max(next[0], 0), last)];
  to[Math.min(Math.max(next[1], 0), to.length - 1)].focus();
});
document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.key === "Escape") pin(null);
  if (event.key === "+") zoomed(2);
  if (event.key === "-") zoomed(0.5);
});
by("in").addEventListener("click", () => zoomed(2));
by("out").addEventListener("click", () => zoomed(0.5));

document.title = `Timeline of ${data.conversation}`;
by("name").textContent = data.conversation;
const parts = data.counted.map(([word, count]) => `${count} ${word}`);
by("sum").textContent = `${data.lanes.length} ${data.lanes.length === 1 ? "call" : "calls"}` +
  (parts.length ? `: ${parts.join(", ")}` : "") +
  (data.setBack ? `. The clock was set back: ${data.setBack} records count as made when those before them were.` : "");
for (const [kind, told] of [...Object.entries(STAGES), ...Object.entries(MARKS)]) {
  const entry = make(by("legend"), "li", ""), sample = make(entry, "i", `item ${kind in STAGES ? "" : "mark "}${kind}`);
  if (kind in MARKS) drawn(sample, kind);
  make(entry, "span", "", kind in MARKS ? told[0] : told);
}
scroll.hidden = by("details").hidden = !data.lanes.length;
if (data.lanes.length) {
  data.lanes.forEach(lane);
  layout();
  focus(rows[0][0]);
  addEventListener("resize", layout);
}
document.body.dataset.state = "done";
"""

_HASH = base64.b64encode(hashlib.sha256(_SCRIPT.encode()).digest()).decode()
BEFORE = f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy"
 content="default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{_HASH}'">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Timeline</title>
<style>{_STYLE}</style>
</head>
<body>
<header>
<h1>Conversation <bdi id="name"></bdi></h1>
<p id="sum"></p>
<div class="bar"><ul id="legend"></ul>
<span><button id="out" aria-label="zoom out">&minus;</button> <button id="in" aria-label="zoom in">+</button></span>
</div>
<noscript>This page is drawn by a script that it carries.</noscript>
</header>
"""
NOTHING = '<p id="none">Nothing is recorded of this conversation.</p>\n'
BODY = """<main id="scroll"><div id="canvas">
<div id="axis" class="row"><div class="label">call, tool</div><div class="plot" id="ticks"></div></div>
<div id="lanes"></div>
<div id="lines"><div class="plot" id="over"></div></div>
</div></main>
<aside id="details" aria-live="polite">
Point at something, or reach it with Tab and the arrow keys, to see all of it. A click keeps it here; Esc lets it go.
</aside>
<script type="application/json" id="data">"""
BEHIND = f"""</script>
<script>{_SCRIPT}</script>
</body>
</html>
"""
