"use strict";
const { data, make, frame, found, turnable, follow } = window.ctxr;
const held = data.traces, field = (id) => document.getElementById(id), known = new Set((data.sets || []).map((set) => set.id));
const PAGE = 10, COLOURS = ["--video", "--photos", "--c-text", "--c-open", "--c-close", "--c-small"];
const WIDTH = 520, HEIGHT = 250, LEFT = 46, RIGHT = 14, TOP = 14, BOTTOM = 46;
const AXES = { noise: "step of each stroke, share of the image's side", words: "words kept, %" };
const curved = [...new Set(held.curves.filter((row) => row[1] in AXES).map((row) => row[2]))];
let shown = [], page = 0;

const svg = (tag, attributes, ...inside) => {
  const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...inside);
  return made;
};

// R@1 of every run against noise or words, on one split
function chart(split, view) {
  const rows = held.curves.filter((row) => row[0] === split && row[1] === view), runs = [...new Set(rows.map((row) => row[2]))];
  // one axis for all splits
  const every = held.curves.filter((row) => row[1] === view), blind = held.curves.find((row) => row[0] === split && row[1] === "overall")?.[4], xs = every.map((row) => parseFloat(row[3]));
  const highest = Math.max(...every.map((row) => row[6] ?? row[4]), ...held.curves.filter((row) => row[1] === "overall").map((row) => row[4])), step = highest > 0.5 ? 0.2 : highest > 0.2 ? 0.1 : 0.05, top = Math.max(step, Math.ceil(highest / step - 1e-9) * step);
  const x = (value) => LEFT + 16 + ((WIDTH - LEFT - RIGHT - 32) * (value - Math.min(...xs))) / (Math.max(...xs) - Math.min(...xs)), y = (value) => HEIGHT - BOTTOM - ((HEIGHT - TOP - BOTTOM) * value) / top;
  const drawn = svg("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", "aria-label": `R@1 on ${split} by ${view}; the table of results has the figures` });
  for (let value = 0; value <= top + 1e-9; value += step) drawn.append(svg("line", { class: "grid", x1: LEFT, x2: WIDTH - RIGHT, y1: y(value), y2: y(value) }), svg("text", { class: "y", x: LEFT - 8, y: y(value) + 4 }, (100 * value).toFixed(0)));
  for (const value of new Set(xs)) drawn.append(svg("text", { class: "x", x: x(value), y: HEIGHT - BOTTOM + 18 }, String(value)));
  if (blind !== undefined) drawn.append(svg("line", { class: "chance", x1: LEFT, x2: WIDTH - RIGHT, y1: y(blind), y2: y(blind) }, svg("title", {}, `chance ${(100 * blind).toFixed(1)} %`)));
  const keys = runs.map((run, place) => {
    const number = curved.indexOf(run);
    const points = rows.filter((row) => row[2] === run).map(([, , , part, value, low, high]) => ({ part, value, low, high, at: x(parseFloat(part)) + 5 * (place - (runs.length - 1) / 2) }));
    const dots = svg("g", { class: "run-dots" }, ...points.map(({ part, value, low, high, at }) => svg("g", {}, svg("title", {}, `${run}, ${part}: ${(100 * value).toFixed(1)} %`),
      ...(low === null ? [] : [svg("line", { x1: at, x2: at, y1: y(low), y2: y(high) })]), svg("circle", { cx: at, cy: y(value), r: 4 }))));
    const line = svg("polyline", { class: "run-line", points: points.map((point) => `${point.at},${y(point.value)}`).join(" "), "stroke-dasharray": number < COLOURS.length ? "none" : "7 4" });
    const dot = make("i", "dot"), key = make("span", "", dot, run);
    for (const one of [dots, line, dot]) one.style.setProperty("--c", `var(${COLOURS[number % COLOURS.length]})`);
    drawn.append(line, dots);
    return key;
  });
  drawn.append(svg("line", { class: "axis", x1: LEFT, x2: WIDTH - RIGHT, y1: y(0), y2: y(0) }), svg("text", { class: "label", x: (LEFT + WIDTH - RIGHT) / 2, y: HEIGHT - 8 }, `${AXES[view]}${blind === undefined ? "" : " (dotted: chance)"}`));
  return make("figure", "plot", make("figcaption", "", make("h3", "", `R@1 on ${split} by ${view}, %`), make("p", "series", ...keys)), drawn);
}

const colour = (one, at) => `oklch(.68 .17 ${265 - (245 * at) / Math.max(1, one.words.length - 1)})`;

function drawing(one, number, [name, thumbnail]) {
  const lines = ["casing", ""].flatMap((kind) => one.lines.filter(([image]) => image === number).map(([, word, places]) => {
    const line = svg("polyline", { class: kind, "data-word": word, points: places.join(" ") });
    line.style.setProperty("--c", colour(one, word));
    return line;
  }));
  const strokes = svg("svg", { viewBox: "0 0 1000 1000", preserveAspectRatio: "none", "aria-hidden": "true" }, ...lines);
  return frame(thumbnail, `relevant image ${number + 1}`, name, strokes);
}

function card(one) {
  const title = make(known.has(one.set) ? "button" : "h3", "title", one.id), drawn = make("div", `drawn${one.images.length > 1 ? " several" : ""}`, ...one.images.map((image, number) => drawing(one, number, image)));
  if (known.has(one.set)) {
    title.type = "button";
    title.addEventListener("click", () => window.ctxr.openSet(one.set));
  }
  const spoken = new Set(one.lines.map((line) => line[1])), said = make("p", "t-words");
  if (!one.words.length) said.textContent = one.text;
  one.words.forEach((word, at) => {
    const made = make("span", "t-word", word);
    made.dataset.word = at;
    if (spoken.has(at)) made.style.setProperty("--c", colour(one, at));
    else made.title = "nothing was drawn while this was said";
    said.append(made, " ");
  });
  const pick = (at) => {
    drawn.classList.toggle("picked", at !== undefined);
    for (const part of [...drawn.querySelectorAll("polyline"), ...said.children]) part.classList.toggle("on", part.dataset.word === at);
  };
  for (const kind of ["pointerover", "click"]) said.addEventListener(kind, (event) => pick(event.target.dataset.word));
  said.addEventListener("pointerleave", (event) => { if (event.pointerType === "mouse") pick(); });
  let at = -1;
  said.tabIndex = 0;
  said.addEventListener("blur", () => pick());
  said.addEventListener("keydown", (event) => {
    const by = { ArrowLeft: -1, ArrowRight: 1 }[event.key], count = one.words.length;
    if (!by || !count) return;
    event.preventDefault();
    event.stopPropagation();
    pick(String((at = (Math.max(at, 0) + (at < 0 && by > 0 ? 0 : by) + count) % count)));
  });
  const images = `${one.images.length} relevant image${one.images.length === 1 ? "" : "s"}`;
  const meta = make("span", "meta", make("span", "", images), make("span", "", one.split), one.lines.length ? null : make("span", "", "no trace here"));
  const chosen = field("t-run")?.value ?? "";
  const runs = held.runs.map((name, at) => (chosen === "" || Number(chosen) === at ? found(name, one.runs[name]) : null));
  return make("article", "traced", make("header", "", title, meta), drawn, make("div", "t-side", said, make("div", "", ...runs)));
}

function choose() {
  const chosen = field("t-run")?.value ?? "", runs = (one) => (chosen === "" ? held.runs : [held.runs[Number(chosen)]]).map((name) => one.runs[name]);
  const ease = (one) => runs(one).reduce((sum, run) => sum + (run ? 1 / (1 + run.above + (run.level - 1) / 2) : 0), 0), sort = field("t-sort").value;
  shown = [...held.rows].sort((a, b) => (sort === "id" ? 0 : (ease(a) - ease(b)) * (sort === "hard" ? 1 : -1)) || a.id.localeCompare(b.id, "en", { numeric: true }));
  page = 0;
  draw();
}

function draw() {
  const from = page * PAGE, to = Math.min(shown.length, from + PAGE);
  field("t-found").textContent = `${shown.length} quer${shown.length === 1 ? "y" : "ies"}${shown.length > PAGE ? `, here ${from + 1} to ${to}` : ""}`;
  field("t-cards").replaceChildren(...shown.slice(from, to).map(card));
  turnable(field("t-pager"), page, Math.ceil(shown.length / PAGE), (by) => { page += by; draw(); field("t-controls").scrollIntoView(); });
}

for (const split of new Set(held.curves.map((row) => row[0]))) for (const view of Object.keys(AXES)) if (held.curves.some((row) => row[0] === split && row[1] === view)) field("t-curves").append(chart(split, view));
for (const control of ["t-run", "t-sort"]) field(control)?.addEventListener("change", choose);
field("t-controls").addEventListener("submit", (event) => event.preventDefault());
follow(choose);
