"use strict";
const { data, make, figure, percent, picture, framed, turnable, keys } = window.ctxr;
const cards = document.getElementById("cards");
if (!cards) return;
const STEP = 1e-4, PAGE = 20, STRIP = 20, TEXTS = 3;
const [NAME, CODE, EXACT, PICTURE, PATH, BRISQUE, TEXT, WIDTH, HEIGHT] = [0, 1, 2, 3, 4, 5, 6, 7, 8];
const field = (id) => document.getElementById(id);
let shown = [], page = 0, current = -1;

const hay = data.sets.map((set) =>
  [set.id, set.source, ...set.images.map((at) => (at < 0 ? "" : `${data.images[at][NAME]} ${data.images[at][PATH]}`)), ...(set.texts || []).map(([, text]) => text)].join(" ").toLowerCase());

// distances above the diagonal, row by row, as 16-bit numbers
function distances(set) {
  if (!set.distances) return null;
  const bytes = atob(set.distances), n = set.images.length;
  const full = Array.from({ length: n }, () => new Array(n).fill(0));
  let at = 0;
  for (let row = 0; row < n; row++) {
    for (let column = row + 1; column < n; column++, at += 2) {
      full[row][column] = full[column][row] = (bytes.charCodeAt(at) + 256 * bytes.charCodeAt(at + 1)) * STEP;
    }
  }
  return { full, nearest: set.nearest };
}

function matrix(known, large) {
  const n = known.full.length, [low, high] = data.span;
  const grid = make("div", "matrix");
  grid.style.gridTemplateColumns = `${large ? "20px " : ""}repeat(${n}, minmax(0, 1fr))`;
  grid.setAttribute("role", "img");
  grid.setAttribute("aria-label", `Distances between the ${n} images; nearest are ${known.nearest[0] + 1} and ${known.nearest[1] + 1}`);
  if (large) grid.append(make("span"));
  for (let column = 0; large && column < n; column++) grid.append(make("span", "at", String(column + 1)));
  for (let row = 0; row < n; row++) {
    if (large) grid.append(make("span", "at", String(row + 1)));
    for (let column = 0; column < n; column++) {
      const value = known.full[row][column];
      const cell = make("span", row === column ? "cell self" : "cell");
      if (row !== column) {
        const strength = Math.max(0, Math.min(100, (100 * (high - value)) / (high - low || 1)));
        cell.style.setProperty("--p", strength.toFixed(1));
        cell.title = `${row + 1} and ${column + 1}: ${figure(value)}`;
        if (strength > 40) cell.classList.add("deep");
        if (Math.min(row, column) === known.nearest[0] && Math.max(row, column) === known.nearest[1]) cell.classList.add("nearest");
        if (large) cell.textContent = figure(value, 2);
      }
      grid.append(cell);
    }
  }
  return grid;
}

// a photo's name without its ending; of a long one the beginning and, which tells photos apart, the end
function short(name) {
  const stem = name.replace(/(?<=.)\.[^.]+$/, ""), signs = Array.from(stem);
  return signs.length > 14 ? `${signs.slice(0, 4).join("")}…${signs.slice(-9).join("")}` : stem;
}

function frame(at, place, near, large) {
  const item = make("li", near ? "shot-of near" : "shot-of");
  const image = at < 0 ? null : data.images[at];
  const box = make("div", "frame", image ? picture(image[PICTURE], image[NAME]) : "not in images.jsonl");
  box.append(make("span", "place", String(place + 1)));
  item.append(box);
  if (!image) return item;
  const under = make("p", "under");
  if (image[CODE]) {
    under.append(make("b", "", image[CODE]), ` ${image[NAME]}`);
    if (large) under.append(make("br"), `= ${image[EXACT]}`);
    under.title = `${image[EXACT]}, frame ${image[NAME]}`;
  } else {
    under.append(large ? image[NAME] : short(image[NAME]));
    under.title = image[NAME];
  }
  item.append(under);
  if (large) {
    const told = make("p", "under");
    const facts = [];
    if (image[BRISQUE] !== null) facts.push(`BRISQUE/100 ${figure(image[BRISQUE], 2)}`);
    if (image[TEXT] !== null) facts.push(`text ${percent(image[TEXT])}`);
    if (facts.length) told.append(facts.join(" · "), make("br"));
    if (data.near && image[PICTURE] >= 0) {
      const link = make("a", "", `${image[WIDTH]} × ${image[HEIGHT]}`);
      link.href = `${data.near}/${image[PATH].split("/").map(encodeURIComponent).join("/")}`;
      link.title = "open the whole picture";
      told.append(link);
    }
    item.append(told);
  }
  return item;
}

function strip(set, large) {
  const list = make("ol", "strip"), near = set.nearest || [];
  list.style.setProperty("--columns", String(Math.max(6, Math.min(10, set.images.length))));
  const some = large ? set.images : set.images.slice(0, STRIP);
  some.forEach((at, place) => list.append(frame(at, place, near.includes(place), large)));
  framed(list.querySelectorAll(".frame"), some.map((at) => (at < 0 ? [0, 0] : [data.images[at][WIDTH], data.images[at][HEIGHT]])));
  if (some.length < set.images.length) list.append(make("li", "muted small", `and ${set.images.length - some.length} more`));
  return list;
}

// descriptions with the places of their images, "–" for none; "?" where they are hidden
function texts(set, large) {
  const some = large ? set.texts : set.texts.slice(0, TEXTS), rest = set.texts.length - some.length;
  const list = make("ol", "texts", ...some.map(([targets, text]) => {
    const places = targets === null ? "?" : targets.map((at) => at + 1).join(", ") || "–";
    const place = make("b", "", places);
    place.title = targets === null ? data.subject.unknown : targets.length ? `about image ${places}` : "about no image";
    return make("li", "", place, make("span", "", text));
  }));
  if (rest > 0) list.append(make("li", "muted small", `and ${rest} more`));
  return list;
}

const pictured = (set) => set.images.some((at) => at >= 0 && data.images[at][PICTURE] !== -1);

function meta(set) {
  return make("span", "meta", make("span", `chip ${set.kind}`, set.kind), set.source === set.id ? null : make("span", "", set.source),
    set.shot === null ? null : make("span", "", `shot ${set.shot}`), set.split ? make("span", "", `${set.split} split`) : null);
}

function figures(set) {
  const pair = make("span", "", "nearest ", make("b", "", figure(set.closest)));
  if (set.nearest) pair.append(` (${set.nearest[0] + 1}, ${set.nearest[1] + 1})`);
  return make("span", "figures", make("span", "", "mean ", make("b", "", figure(set.mean))), pair);
}

function card(set, at) {
  const known = distances(set);
  const made = make("article", `card ${set.kind}`);
  made.tabIndex = -1;
  made.dataset.set = set.id;
  const title = make("button", "title", set.id);
  title.type = "button";
  title.addEventListener("click", () => open(at));
  made.append(make("header", "", title, meta(set), set.mean === null ? null : figures(set)));
  if (pictured(set)) made.append(strip(set, false));
  if (known) made.append(matrix(known, false));
  else made.classList.add("plain-card");
  if (set.texts) made.append(texts(set, false));
  made.addEventListener("focusin", () => { current = at; });
  return made;
}

const orders = {
  hard: (a, b) => a.mean - b.mean,
  diverse: (a, b) => b.mean - a.mean,
  closest: (a, b) => a.closest - b.closest,
  time: () => 0, // the table's own order, see below
};

// sources by name, within one by the number of the first frame
const first = (set) => (set.images.length && set.images[0] >= 0 ? Number.parseInt(data.images[set.images[0]][NAME].slice(1), 10) || 0 : 0);
orders.time = (a, b) => (a.source < b.source ? -1 : a.source > b.source ? 1 : first(a) - first(b));

function choose() {
  const words = field("find").value.toLowerCase().split(/\s+/).filter(Boolean);
  const wanted = [["kind", "kind"], ["collection", "source"], ["split", "split"]].map(([name, id]) => [name, field(id)?.value]).filter(([, value]) => value);
  shown = data.sets.map((_, at) => at).filter((at) =>
    wanted.every(([name, value]) => data.sets[at][name] === value) && words.every((word) => hay[at].includes(word)));
  const order = orders[field("sort").value];
  shown.sort((a, b) => order(data.sets[a], data.sets[b]) || (data.sets[a].id < data.sets[b].id ? -1 : 1));
  page = 0;
  current = -1;
  draw();
}

function draw() {
  const pages = Math.max(1, Math.ceil(shown.length / PAGE));
  page = Math.max(0, Math.min(page, pages - 1));
  const from = page * PAGE, to = Math.min(shown.length, from + PAGE);
  const total = data.sets.length;
  const of = shown.length === total ? `${total} sets` : `${shown.length} of ${total} sets`;
  field("found").textContent = shown.length > PAGE ? `${of}, here ${from + 1} to ${to}` : of;
  cards.replaceChildren(...(shown.length ? shown.slice(from, to).map((_, at) => card(data.sets[shown[from + at]], from + at)) : [empty()]));
  turnable(field("pager"), page, pages, leaf);
}

function empty() {
  const all = make("button", "", "Show all");
  all.type = "button";
  all.addEventListener("click", () => { field("controls").reset(); choose(); });
  return make("p", "empty", "No set matches. ", all);
}

function leaf(by) {
  const before = page;
  page += by;
  draw();
  if (page !== before) field("sets").scrollIntoView();
}

function go(to) {
  if (!shown.length) return;
  current = Math.max(0, Math.min(shown.length - 1, to));
  if (Math.floor(current / PAGE) !== page) { page = Math.floor(current / PAGE); draw(); }
  const there = cards.children[current - page * PAGE];
  there.focus({ preventScroll: true });
  there.scrollIntoView({ block: "nearest" });
}

const look = document.getElementById("look");
let opened = -1;
function open(at) {
  if (at < 0 || at >= shown.length) return;
  opened = at;
  const set = data.sets[shown[at]], known = distances(set);
  const title = make("h2", "", set.id);
  title.id = "look-title";
  const steps = make("div", "steps", hop("←", "Previous set", at - 1), hop("→", "Next set", at + 1), closing());
  const words = `mean ${figure(set.mean)}, nearest ${figure(set.closest)}` +
    (set.nearest ? ` between ${set.nearest[0] + 1} and ${set.nearest[1] + 1}` : "");
  const why = set.nearest ? "This set has too many images for a matrix." : "The embeddings of this set are not available.";
  const right = make("div", "", set.texts ? texts(set, true) : null, known ? matrix(known, true) : data.subject.similar ? make("p", "muted", why) : null,
    set.mean === null ? null : make("p", "muted", `${words}. Distances are Euclidean between unit vectors, 0 to 2.`));
  const held = look.contains(document.activeElement) ? document.activeElement.title : "";
  look.replaceChildren(make("div", "bar-row", make("div", "", title, meta(set)), steps), make("div", "large", pictured(set) ? strip(set, true) : make("p", "muted", "The pictures of this set are not available."), right));
  if (!look.open) look.showModal();
  // what was focused was drawn anew: the same button again, or the set itself
  const again = [...steps.children].find((one) => held && one.title === held && !one.disabled);
  (again || look).focus();
}
function hop(sign, words, to) {
  const button = make("button", "", sign);
  button.type = "button";
  button.title = button.ariaLabel = words;
  button.disabled = to < 0 || to >= shown.length;
  button.addEventListener("click", () => open(to));
  return button;
}
function closing() {
  const button = make("button", "", "Close");
  button.type = "button";
  button.dataset.close = "";
  return button;
}
document.addEventListener("keydown", (event) => {
  if (!look.open) return;
  const by = { ArrowLeft: -1, ArrowRight: 1, k: -1, j: 1 }[event.key];
  if (by) { open(opened + by); event.preventDefault(); }
});
look.addEventListener("close", () => go(opened));

for (const name of ["kind", "source", "split", "sort"]) field(name)?.addEventListener("change", choose);
field("find").addEventListener("input", choose);
field("controls").addEventListener("submit", (event) => event.preventDefault());
field("find").addEventListener("keydown", (event) => { if (event.key === "Escape") event.target.blur(); });
keys.set("/", () => { field("find").focus(); field("find").select(); });
keys.set("j", () => go(current + 1));
keys.set("k", () => go(current - 1));
keys.set("]", () => leaf(1));
keys.set("[", () => leaf(-1));
keys.set("Enter", (event) => (event.target.classList.contains("card") ? open(current) : false));
choose();

// from a bar on a timeline: whatever the filters hide is shown again
window.ctxr.openSet = (id) => {
  let at = shown.findIndex((one) => data.sets[one].id === id);
  if (at < 0) { field("controls").reset(); choose(); at = shown.findIndex((one) => data.sets[one].id === id); }
  if (at >= 0) open(at);
};
