// The page of the fault lab. It decides nothing: it asks the server for a run,
// and draws the moments that come back.
"use strict";

const form = document.getElementById("plan");
const button = Object.fromEntries(["run", "next", "all", "stop"].map((id) => [id, document.getElementById(id)]));
const sides = ["blind", "toolexec"];
const calm = matchMedia("(prefers-reduced-motion: reduce)");

let run = null; // the one that is shown
let drawing = false; // it will be drawn

// --- The plan ------------------------------------------------------------------

function query() {
  return new URLSearchParams(new FormData(form)).toString();
}

function showPlan() {
  for (const select of form.querySelectorAll("select")) {
    document.getElementById(select.name + "-says").textContent = select.selectedOptions[0].dataset.says;
  }
  document.getElementById("link").href = "/?" + query();
}

// --- A run ---------------------------------------------------------------------

async function start() {
  stop();
  const plan = Object.fromEntries(new FormData(form));
  run = {
    plan, query: query(), stepping: plan.pace === "step",
    abort: new AbortController(), began: performance.now(),
    told: false, // to the end
    ended: false, // and shown to the end
    queue: [], shown: [], now: 0,
  };
  const mine = run;
  history.replaceState(null, "", "/?" + run.query);
  clear();
  setState("running", "Running.");
  try {
    await receive(mine, (moment) => { if (run === mine) take(moment); });
    if (run === mine && !mine.told) fail("The run ended early: the connection to the server was lost.");
  } catch (error) {
    if (run === mine && error.name !== "AbortError") fail(error.message);
  }
}

// receive reads the server-sent events of a run.
async function receive(mine, tell) {
  const answer = await fetch("/run?" + mine.query, { signal: mine.abort.signal, headers: { Accept: "text/event-stream" } }).catch((error) => {
    throw error.name === "AbortError" ? error : new Error("The lab does not answer. Is the program still running?");
  });
  if (!answer.ok) throw new Error(await answer.text());
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  for (let rest = ""; ;) {
    const { value, done } = await reader.read();
    if (done) return;
    const events = (rest + value).split("\n\n");
    rest = events.pop();
    for (const event of events) tell(JSON.parse(event.replace(/^data: /, "")));
  }
}

function stop() {
  if (run === null) return;
  run.abort.abort();
  if (!run.ended) setState("stopped", "Stopped.");
  run = null;
}

function fail(message) {
  run.ended = true;
  setState("failed", message);
}

// take shows a moment, or keeps it for the next step.
function take(moment) {
  run.told ||= moment.kind === "end";
  if (!run.stepping) {
    show(moment);
    draw();
    return;
  }
  run.queue.push(moment);
  if (run.shown.length === 0) step();
  offer();
}

// step shows the next moment that says something, and what goes with it.
function step() {
  for (let said = false; run.queue.length > 0 && !(said && run.queue[0].text); ) {
    const moment = run.queue.shift();
    said ||= Boolean(moment.text);
    show(moment);
  }
  draw();
}

function offer() {
  if (run.ended) return;
  const seen = run.shown.filter((m) => m.text);
  const last = seen[seen.length - 1];
  setState("running", last ? `Step ${seen.length}, at ${time(last.at)}: ${last.text}.` : "Running.");
}

function show(moment) {
  run.shown.push(moment);
  run.now = moment.at;
  if (moment.kind === "end") {
    finish();
    return;
  }
  if (moment.text) log(moment);
  if (moment.books) showBooks(moment.side, moment.books);
  if (moment.answer) showAnswer(moment.side, moment.answer);
}

function finish() {
  run.ended = true;
  const result = sides.filter((side) => !hidden(side))
    .map((side) => `${side === "blind" ? "blind retry" : side} ${part(side, "total").textContent}`);
  setState("done", `Done. ${result.join(", ")}.`);
}

function setState(state, says) {
  document.body.dataset.state = state;
  document.getElementById("status").textContent = says;
  const stepping = state === "running" && run.stepping;
  const focused = document.activeElement;
  button.stop.hidden = state !== "running";
  button.next.hidden = button.all.hidden = !stepping;
  if (focused === button.run && stepping) button.next.focus();
  else if (focused && focused.hidden) button.run.focus();
}

// --- Words ---------------------------------------------------------------------

function element(name, attributes, text) {
  const e = document.createElement(name);
  for (const [key, value] of Object.entries(attributes ?? {})) e.setAttribute(key, value);
  if (text !== undefined) e.textContent = text;
  return e;
}

function part(side, name) {
  return document.querySelector(`[data-side="${side}"] [data-part="${name}"], [data-side="${side}"][data-part="${name}"]`);
}

function hidden(side) {
  const guard = run.plan.guard;
  return guard !== "both" && guard !== side;
}

function time(seconds) {
  return `${Number(seconds.toFixed(2)).toFixed(Number.isInteger(Math.round(seconds * 100) / 10) ? 1 : 2)} s`;
}

function clear() {
  for (const e of document.querySelectorAll("[data-side]")) e.hidden = hidden(e.dataset.side);
  for (const side of sides) {
    part(side, "total").textContent = "$0.00";
    part(side, "count").textContent = "no request has arrived";
    for (const name of ["ledger", "log", "help", "happened", "so", "model", "person"]) part(side, name).replaceChildren();
  }
  document.getElementById("envelope").replaceChildren();
  delete document.getElementById("envelope").dataset.wire;
  draw();
}

function log(moment) {
  const item = element("li", { class: moment.kind });
  item.append(element("span", { class: "at" }, time(moment.at)), " ", element("span", {}, moment.text));
  part(moment.side, "log").append(item);
}

function count(n, what) {
  return n === 1 ? `1 ${what}` : `${n} ${what}s`;
}

function showBooks(side, books) {
  part(side, "total").textContent = books.total;
  part(side, "count").textContent = run.plan.tool === "read"
    ? `${count(books.requests, "request")}; a read changes nothing`
    : `${count(books.requests, "request")}, ${count(books.entries.length, "refund")}`;
  part(side, "ledger").replaceChildren(...books.entries.map((entry) => {
    const row = element("tr");
    row.append(element("td", {}, entry.n), element("td", {}, time(entry.at)), element("td", {}, entry.ref || "none"), element("td", { class: "amount" }, entry.amount));
    return row;
  }));
}

function showAnswer(side, answer) {
  part(side, "model").textContent = answer.model;
  part(side, "person").textContent = answer.person;
  for (const question of ["help", "happened", "so"]) {
    part(side, question).replaceChildren(element("strong", {}, answer[question].answer), " ", element("span", {}, answer[question].why));
  }
  if (!answer.envelope) return;
  const list = document.getElementById("envelope");
  list.dataset.wire = answer.envelope;
  list.replaceChildren(...answer.lines.map((line) => {
    const item = element("li", line.why ? { class: "decides" } : {});
    item.append(element("code", {}, line.text));
    if (line.why) item.append(" ", element("span", { class: "why" }, line.why));
    return item;
  }));
}

// --- The time line ---------------------------------------------------------------

const ink = document.createElement("canvas").getContext("2d");
const lineHeight = 15;
const heavy = { good: true, bad: true, strong: true }; // labels, as lab.css writes them

function svg(name, attributes, text) {
  const e = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) e.setAttribute(key, value);
  if (text !== undefined) e.textContent = text;
  return e;
}

// Lane is a row of the chart: shapes on top, labels below in as many lines as
// they need in order not to touch.
class Lane {
  constructor(name, height) {
    this.name = name;
    this.height = height;
    this.shapes = [];
    this.labels = [];
    this.ends = []; // right end of each line of labels
  }

  label(chart, at, text, kind) {
    ink.font = (kind in heavy ? "700" : "400") + " 12px " + chart.font;
    const width = ink.measureText(text).width + 8;
    const left = Math.max(chart.left, Math.min(chart.x(at), chart.right - width));
    let row = this.ends.findIndex((end) => end <= left);
    if (row < 0) row = this.ends.push(0) - 1;
    this.ends[row] = left + width;
    this.labels.push({ left, row, text, kind });
  }

  get total() {
    return this.height + this.ends.length * lineHeight + 8;
  }
}

// draw draws once for all moments that came together.
function draw() {
  if (drawing) return;
  drawing = true;
  queueMicrotask(() => {
    drawing = false;
    drawNow();
  });
}

function drawNow() {
  if (run === null) return;
  const span = spanOf(run);
  for (const side of sides) {
    const figure = document.querySelector(`figure[data-side="${side}"]`);
    if (!figure.hidden) drawSide(figure.querySelector("svg"), run.shown.filter((m) => m.side === side), span);
  }
}

// spanOf is how many seconds the chart shows: those that have passed or are
// planned, and a little more.
function spanOf({ shown, now, ended }) {
  const last = Math.max(now, ...shown.map((m) => Math.max(m.at, m.until ?? 0)));
  return ended ? Math.max(last * 1.04, 0.5) : Math.max(3, last * 1.15);
}

function tickOf(span, width) {
  const most = Math.max(2, Math.floor(width / 80));
  return [0.1, 0.25, 0.5, 1, 2, 5, 10, 20, 30, 60].find((tick) => span / tick <= most) ?? 120;
}

function drawSide(target, moments, span) {
  const width = Math.max(280, target.parentElement.clientWidth);
  const wide = width >= 640;
  const chart = { left: wide ? 76 : 10, right: width - 12, font: getComputedStyle(target).fontFamily };
  chart.x = (seconds) => chart.left + (seconds / span) * (chart.right - chart.left);
  const lanes = lanesOf(chart, moments);
  const parts = [];
  let y = 4;
  const bottom = lanes.reduce((sum, lane) => sum + lane.total + (wide ? 0 : lineHeight), y);
  parts.push(...settling(chart, moments, bottom), ...axis(chart, span, bottom));
  for (const lane of lanes) {
    parts.push(svg("text", { class: "lane", x: wide ? 0 : 2, y: y + 12 }, lane.name));
    if (!wide) y += lineHeight;
    for (const shape of lane.shapes) {
      shape.setAttribute("transform", `translate(0 ${y})`);
      parts.push(shape);
    }
    for (const { left, row, text, kind } of lane.labels) {
      parts.push(svg("text", { class: "label " + kind, x: left, y: y + lane.height + row * lineHeight + 11 }, text));
    }
    y += lane.total;
  }
  if (!run.ended) parts.push(svg("line", { class: "now", x1: chart.x(run.now), x2: chart.x(run.now), y1: 0, y2: bottom }));
  target.setAttribute("viewBox", `0 0 ${width} ${bottom + 24}`);
  target.setAttribute("height", bottom + 24);
  target.replaceChildren(...parts);
}

// axis is the scale: a tick and its second, and a line up through the lanes.
function axis(chart, span, bottom) {
  const tick = tickOf(span, chart.right - chart.left);
  const parts = [svg("line", { class: "axis", x1: chart.left, x2: chart.right, y1: bottom, y2: bottom })];
  for (let i = 0; i * tick <= span; i++) {
    const x = chart.x(i * tick);
    parts.push(svg("line", { class: "tick", x1: x, x2: x, y1: 0, y2: bottom + 4 }));
    const anchor = x + 16 > chart.right ? "end" : i === 0 ? "start" : "middle";
    parts.push(svg("text", { class: "second", x, y: bottom + 18, "text-anchor": anchor }, `${Number((i * tick).toFixed(2))} s`));
  }
  return parts;
}

function settling(chart, moments, bottom) {
  const windows = moments.filter((m) => m.kind === "settle");
  return windows.flatMap((m, i) => {
    if (windows.slice(i + 1).some((later) => later.until === m.until)) return []; // told again
    const first = windows.find((earlier) => earlier.until === m.until);
    return [
      svg("rect", { class: "settle", x: chart.x(first.at), y: 0, width: Math.max(2, chart.x(m.until) - chart.x(first.at)), height: bottom }),
      svg("line", { class: "settled", x1: chart.x(m.until), x2: chart.x(m.until), y1: 0, y2: bottom }),
    ];
  });
}

function bar(chart, from, to, attributes) {
  return svg("rect", { x: chart.x(from), y: 1, height: 14, width: Math.max(3, chart.x(to) - chart.x(from)), ...attributes });
}

function lanesOf(chart, moments) {
  const host = new Lane("host", 14);
  const attempts = new Lane("attempts", 18);
  const lookups = new Lane("look-ups", 14);
  const guard = new Lane("guard", 14);
  const service = new Lane("service", 14);
  const open = {}; // what has begun and not ended, by kind
  const alive = {}; // when an attempt that runs on was answered for
  const dot = (at) => svg("circle", { class: "lookup", cx: chart.x(at), cy: 7, r: 5 });
  const draws = {
    call: (m) => {
      host.shapes.push(svg("path", { class: "call", d: `M${chart.x(m.at) - 8} 1v12l8-6z` }));
      host.label(chart, m.at, m.word, "quiet");
    },
    answer: (m) => {
      host.shapes.push(svg("rect", { class: m.answer.ok ? "answer ok" : "answer", x: chart.x(m.at) + 1, y: 3, width: 8, height: 8 }));
      host.label(chart, m.at, m.word, m.answer.ok ? "good" : "bad");
    },
    attempt: (m) => { open.attempt = m; },
    attempted: (m) => {
      attempt(open.attempt.at, m.at, m.n, m.word);
      if (m.outlives) alive[m.n] = m.at;
      delete open.attempt;
    },
    late: (m) => {
      outlives(alive[m.n] ?? m.at, m.at);
      delete alive[m.n];
      attempts.label(chart, m.at, m.word, "strong");
    },
    pause: (m) => { attempts.shapes.push(bar(chart, m.at, m.until, { class: "pause", fill: "url(#hatch)" })); },
    wait: (m) => {
      host.shapes.push(bar(chart, m.at, m.until, { class: "pause", fill: "url(#hatch)", height: 10, y: 2 }));
      host.label(chart, (m.at + m.until) / 2, `not before ${time(m.until)}`, "quiet");
    },
    lookup: (m) => { open.lookup = m; },
    lookedup: (m) => {
      lookups.shapes.push(...looking(open.lookup?.at ?? m.at, m.at));
      lookups.label(chart, m.at, m.word, "");
      delete open.lookup;
    },
    guard: (m) => { mark(guard, m, `M${chart.x(m.at)} 13l-5-9h10z`); },
    effect: (m) => { mark(service, m, `M${chart.x(m.at)} 1l6 6-6 6-6-6z`); },
    request: (m) => { mark(service, m, `M${chart.x(m.at) - 5} 2h10v10h-10z`); },
    alarm: (m) => { mark(guard, m, `M${chart.x(m.at)} 1l7 12h-14z`); },
  };
  function mark(lane, m, d) {
    lane.shapes.push(svg("path", { class: m.kind, d }));
    lane.label(chart, m.at, m.word, m.kind === "effect" || m.kind === "alarm" ? "strong" : "");
  }
  function attempt(from, to, n, word) {
    const doubt = word === "in_doubt" || word === "error";
    attempts.shapes.push(bar(chart, from, to, doubt ? { class: "attempt doubt", fill: "url(#doubt)" } : { class: "attempt " + word }));
    attempts.label(chart, from, word ? `${n} ${word.replace("_", " ")}` : String(n), "");
  }
  function outlives(from, to) {
    attempts.shapes.push(bar(chart, from, to, { class: "outlives" }));
  }
  function looking(from, to) {
    const line = svg("line", { class: "looking", x1: chart.x(from), x2: chart.x(to), y1: 7, y2: 7 });
    return to > from ? [line, dot(from), dot(to)] : [dot(to)];
  }
  for (const m of moments) draws[m.kind]?.(m);
  if (open.attempt) attempt(open.attempt.at, run.now, open.attempt.n, "");
  for (const since of Object.values(alive)) outlives(since, run.now);
  if (open.lookup) lookups.shapes.push(...looking(open.lookup.at, run.now));
  return [host, attempts, lookups, guard, service].filter((lane) => lane.shapes.length > 0);
}

// Between moments the clock goes on, unless motion is not wanted.
setInterval(() => {
  if (run === null || run.ended || run.stepping || calm.matches || run.shown.length === 0) return;
  run.now = Math.max(run.now, ((performance.now() - run.began) / 1000) * Number(run.plan.pace));
  draw();
}, 50);

// --- Controls --------------------------------------------------------------------

form.addEventListener("change", showPlan);
form.addEventListener("submit", (event) => {
  event.preventDefault();
  start();
});
button.next.addEventListener("click", () => { step(); offer(); });
button.all.addEventListener("click", () => {
  run.stepping = false;
  for (const moment of run.queue.splice(0)) show(moment);
  if (!run.ended) setState("running", "Running.");
  draw();
});
button.stop.addEventListener("click", stop);
addEventListener("pagehide", stop);
addEventListener("resize", draw);

showPlan();
if (document.body.dataset.linked === "true") start();
