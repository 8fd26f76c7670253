"use strict";
const { data, make, figure, percent, picture, framed, turnable, keys, keep, follow, link } = window.ctxr;
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
        if (large) cell.addEventListener("click", () => compare(row, column));
        if (strength > 47) cell.classList.add(strength > 62 ? "deep" : "mid");
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
  const box = make(large ? "button" : "div", "frame", image ? picture(image[PICTURE], image[NAME]) : "not in images.jsonl");
  box.append(make("span", "place", String(place + 1)));
  item.append(box);
  if (large) {
    box.type = "button";
    box.ariaLabel = `image ${place + 1}`;
    box.addEventListener("click", () => turn(place));
  } else if (image) {
    const under = make("p", "under", image[CODE] ? make("b", "", image[CODE]) : short(image[NAME]), image[CODE] ? ` ${image[NAME]}` : null);
    under.title = image[CODE] ? `${image[EXACT]}, frame ${image[NAME]}` : image[NAME];
    item.append(under);
  }
  return item;
}

const whole = (image) => `${data.near}/${image[PATH].split("/").map(encodeURIComponent).join("/")}`;

// a picture of a set as large as there is room; a page that holds its pictures may fetch none
function large(set, place) {
  const image = set.images[place] < 0 ? null : data.images[set.images[place]];
  const shown = image ? picture(image[PICTURE], `image ${place + 1}: ${image[NAME]}`) : make("span", "", "not in images.jsonl");
  if (data.beside && data.near && image?.[PICTURE] >= 0) {
    shown.addEventListener("error", () => { shown.src = data.pictures[image[PICTURE]]; }, { once: true });
    shown.src = whole(image);
  }
  shown.loading = "eager";
  return make("div", "", make("div", "frame", shown, make("span", "place", String(place + 1)), make("span", "flag", "")));
}

// when it is from, and what was measured on it
function facts(set, place) {
  const image = set.images[place] < 0 ? null : data.images[set.images[place]];
  if (!image) return make("p", "under");
  const measured = [image[BRISQUE] === null ? "" : `BRISQUE/100 ${figure(image[BRISQUE], 2)}`, image[TEXT] === null ? "" : `text ${percent(image[TEXT])}`].filter(Boolean);
  const told = make("p", "under", make("b", "", `${place + 1}`), image[CODE] ? ` ${image[CODE]} ${image[NAME]} = ${image[EXACT]}` : ` ${image[NAME]}`, ...measured.map((one) => ` · ${one}`));
  if (data.near && image[PICTURE] >= 0) {
    const file = make("a", "", `${image[WIDTH]} × ${image[HEIGHT]}`);
    file.href = whole(image);
    file.title = "open the whole picture";
    told.append(" · ", file);
  }
  if (image[CODE] && data.ledger) told.append(" · ", link("timeline", "timelines", { at: `${set.source}:${image[NAME].slice(1)}` }));
  return told;
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

// who found the image of a description, and what the others picked
const missed = (set, at) => (set.people?.[at][VOTES] || []).filter(([, picked]) => !set.texts[at][0]?.includes(picked));
const [AUTHOR, VOTES, DROPPED] = [0, 1, 2];
function votes(set, at) {
  if (!set.people) return null;
  const [author, all, dropped] = set.people[at], wrong = missed(set, at);
  const told = make("span", "votes", dropped ? make("span", "chip", `dropped: ${dropped}`) : null,
    make("span", all.length && !wrong.length ? "good" : "", all.length ? `${all.length - wrong.length} of ${all.length} found it` : "nobody was asked"),
    ...wrong.map(([worker, picked]) => {
      const one = make("span", "wrong", `${worker.slice(0, 10)} picked ${picked + 1}`);
      one.title = worker;
      return one;
    }));
  if (author) told.title = `written by ${author}`;
  return told;
}

// descriptions with the places of their images, "–" for none; "?" where they are hidden
function texts(set, large) {
  const some = large ? set.texts : set.texts.slice(0, TEXTS), rest = set.texts.length - some.length;
  const list = make("ol", "texts", ...some.map(([targets, text], at) => {
    const places = targets === null ? "?" : targets.map((at) => at + 1).join(", ") || "–";
    const place = make(large && targets?.length ? "button" : "b", "", places);
    place.title = targets === null ? data.subject.unknown : targets.length ? `about image ${places}` : "about no image";
    if (large && targets?.length) {
      place.type = "button";
      place.ariaLabel = `show image ${places}${missed(set, at).length ? " and what was picked instead" : ""}`;
      place.addEventListener("click", () => read(at));
    }
    return make("li", set.people?.[at][DROPPED] ? "dropped" : "", place, make("span", "", text), votes(set, at));
  }));
  if (rest > 0) list.append(make("li", "muted small", `and ${rest} more`));
  return list;
}

const pictured = (set) => set.images.some((at) => at >= 0 && data.images[at][PICTURE] !== -1);

// the moment of the first frame on the timeline of its video
const moment = (set) => (data.ledger && set.images[0] >= 0 && data.images[set.images[0]][CODE] ? `${set.source}:${data.images[set.images[0]][NAME].slice(1)}` : "");

function meta(set) {
  const shot = set.shot === null ? null : `shot ${set.shot}`;
  return make("span", "meta", make("span", `chip ${set.kind}`, set.kind), set.source === set.id ? null : make("span", "", set.source),
    shot && moment(set) ? link(shot, "timelines", { at: moment(set) }) : shot && make("span", "", shot), set.split ? make("span", "", `${set.split} split`) : null);
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

const share = (set) => {
  const all = (set.people || []).flatMap((one) => one[VOTES]);
  return all.length ? set.texts.reduce((sum, _, at) => sum + missed(set, at).length, 0) / all.length : -1;
};
const orders = {
  missed: (a, b) => share(b) - share(a),
  hard: (a, b) => a.mean - b.mean,
  diverse: (a, b) => b.mean - a.mean,
  closest: (a, b) => a.closest - b.closest,
  time: () => 0, // the table's own order, see below
};

// sources by name, within one by the number of the first frame
const first = (set) => (set.images.length && set.images[0] >= 0 ? Number.parseInt(data.images[set.images[0]][NAME].slice(1), 10) || 0 : 0);
orders.time = (a, b) => (a.source < b.source ? -1 : a.source > b.source ? 1 : first(a) - first(b));

const by = {
  "": () => true,
  missed: (set) => (set.texts || []).some((_, at) => missed(set, at).length),
  dropped: (set) => (set.people || []).some((one) => one[DROPPED]),
  none: (set) => !set.texts,
};

function choose() {
  const who = field("votes")?.value ?? "", asked = by[who] || ((set) => (set.texts || []).some((_, at) => missed(set, at).some(([worker]) => worker === who)));
  const words = field("find").value.toLowerCase().split(/\s+/).filter(Boolean);
  const wanted = [["kind", "kind"], ["collection", "source"], ["split", "split"]].map(([name, id]) => [name, field(id)?.value]).filter(([, value]) => value);
  shown = data.sets.map((_, at) => at).filter((at) =>
    asked(data.sets[at]) && wanted.every(([name, value]) => data.sets[at][name] === value) && words.every((word) => hay[at].includes(word)));
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
  const units = `${data.subject.unit}${total === 1 ? "" : "s"}`, of = shown.length === total ? `${total} ${units}` : `${shown.length} of ${total} ${units}`;
  field("found").textContent = shown.length > PAGE ? `${of}, here ${from + 1} to ${to}` : of;
  cards.replaceChildren(...(shown.length ? shown.slice(from, to).map((_, at) => card(data.sets[shown[from + at]], from + at)) : [empty()]));
  turnable(field("pager"), page, pages, leaf);
}

function empty() {
  const all = make("button", "", "Show all");
  all.type = "button";
  all.addEventListener("click", () => { field("controls").reset(); choose(); });
  return make("p", "empty", `No ${data.subject.unit} matches. `, all);
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
let opened = -1, pair = [0, 0], front = 0;

// two pictures lie upon each other, so that a key swaps them without a blink
function compare(first, second) {
  const set = data.sets[shown[opened]], stage = look.querySelector(".stage");
  [pair, front] = [[first, second], 0];
  if (!stage) return;
  const places = first === second ? [first] : pair;
  stage.replaceChildren(...places.map((place) => large(set, place)));
  const sizes = places.map((place) => (set.images[place] < 0 ? [0, 0] : [data.images[set.images[place]][WIDTH], data.images[set.images[place]][HEIGHT]]));
  framed(stage.querySelectorAll(".frame"), sizes);
  stage.style.setProperty("--ratio", sizes[0][0] ? String(sizes[0][0] / sizes[0][1]) : "1.333");
  bring();
}
function bring() {
  const thumbs = [...look.querySelectorAll(".strip .shot-of")];
  [...look.querySelector(".stage").children].forEach((box, at) => {
    box.className = `${thumbs[pair[at]].className}${at === front ? " front" : ""}`;
    box.querySelector(".flag").textContent = box.classList.contains("target") ? "target" : box.classList.contains("wrong") ? "picked instead" : box.classList.contains("near") ? "nearest pair" : "";
  });
  look.querySelector(".shown").replaceChildren(facts(data.sets[shown[opened]], pair[front]));
  look.querySelector(".flip b").textContent = `${pair[front] + 1} ⇄ ${pair[1 - front] + 1}`;
  thumbs.forEach((thumb, at) => { thumb.querySelector("button").ariaPressed = String(at === pair[front]); });
}
const turn = (place) => { if (place !== pair[front]) compare(place, pair[front]); };
const flip = () => { if (pair[0] !== pair[1]) { front = 1 - front; bring(); } };

// a description marks its image and what was picked instead, and these two are compared
function read(at) {
  const set = data.sets[shown[opened]], [targets] = set.texts[at], wrong = missed(set, at).map(([, picked]) => picked);
  look.querySelectorAll(".strip .shot-of").forEach((thumb, place) => {
    thumb.classList.toggle("target", targets.includes(place));
    thumb.classList.toggle("wrong", wrong.includes(place));
  });
  look.querySelectorAll(".texts li").forEach((one, place) => one.classList.toggle("read", place === at));
  const near = (set.nearest || []).includes(targets[0]) ? set.nearest.find((place) => place !== targets[0]) : targets[0] ? targets[0] - 1 : Math.min(1, set.images.length - 1);
  compare(targets[0], wrong[0] ?? near);
}

function open(at) {
  if (at < 0 || at >= shown.length) return;
  opened = at;
  look.returnValue = "";
  const set = data.sets[shown[at]], known = distances(set);
  keep("open", set.id);
  const title = make("h2", "", set.id);
  title.id = "look-title";
  const steps = make("div", "steps", hop("←", `Previous ${data.subject.unit}`, at - 1), hop("→", `Next ${data.subject.unit}`, at + 1), closing());
  const words = `mean ${figure(set.mean)}, nearest ${figure(set.closest)}` +
    (set.nearest ? ` between ${set.nearest[0] + 1} and ${set.nearest[1] + 1}` : "");
  const why = set.nearest ? "It has too many images for a matrix." : "Its embeddings are not available.";
  const right = make("div", "", set.texts ? texts(set, true) : null, known ? matrix(known, true) : data.subject.similar ? make("p", "muted", why) : null,
    set.mean === null ? null : make("p", "muted", `${words}. Distances are Euclidean between unit vectors, 0 to 2.`));
  const held = look.contains(document.activeElement) ? document.activeElement.title : "";
  look.replaceChildren(make("div", "bar-row", make("div", "", title, meta(set)), steps), make("div", "large", pictured(set) ? viewing(set) : make("p", "muted", "The pictures are not available."), right));
  const asked = (set.texts || []).findIndex((_, at) => missed(set, at).length), [first, second] = set.nearest || [0, Math.min(1, set.images.length - 1)];
  if (pictured(set) && asked >= 0) read(asked);
  else if (pictured(set)) compare(first, second);
  if (!look.open) look.showModal();
  // what was focused was drawn anew: the same button again, or the set itself
  const again = [...steps.children].find((one) => held && one.title === held && !one.disabled);
  (again || look).focus();
}
function viewing(set) {
  const button = make("button", "flip", make("b"), " ", make("kbd", "", "f"));
  button.type = "button";
  button.title = "swap the two pictures";
  button.addEventListener("click", flip);
  const hint = make("span", "muted small", make("kbd", "", "1"), "…", make("kbd", "", "0"), " shows a picture, ", make("kbd", "", "f"), " swaps it with the one before", set.distances ? "; a click on the square compares its two pictures" : "");
  return make("div", "viewing", make("div", "stage"), make("div", "shown"), make("p", "swap", button, hint), strip(set, true));
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
  if (!look.querySelector(".stage") || event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.key === "f") flip();
  if (/^[0-9]$/.test(event.key) && (Number(event.key) + 9) % 10 < look.querySelectorAll(".strip .shot-of").length) turn((Number(event.key) + 9) % 10);
});
look.addEventListener("close", () => {
  if (look.open || look.returnValue === "led") return;
  keep("open", "");
  go(opened);
});

for (const name of ["kind", "source", "split", "votes", "sort"]) field(name)?.addEventListener("change", choose);
field("find").addEventListener("input", choose);
field("controls").addEventListener("submit", (event) => event.preventDefault());
field("find").addEventListener("keydown", (event) => { if (event.key === "Escape") event.target.blur(); });
keys.set("/", () => { field("find").focus(); field("find").select(); });
keys.set("j", () => go(current + 1));
keys.set("k", () => go(current - 1));
keys.set("]", () => leaf(1));
keys.set("[", () => leaf(-1));
keys.set("Enter", (event) => (event.target.classList.contains("card") ? open(current) : false));
const homes = new Map(data.sets.flatMap((set) => set.images.filter((at) => at >= 0).map((at) => [`${set.source}:${data.images[at][NAME]}`, set.id])));
window.ctxr.setWith = (source, index) => homes.get(`${source}:#${index}`) ?? null;

// from a bar on a timeline: whatever the filters hide is shown again
window.ctxr.openSet = (id) => {
  let at = shown.findIndex((one) => data.sets[one].id === id);
  if (at < 0) { field("controls").reset(); choose(); at = shown.findIndex((one) => data.sets[one].id === id); }
  if (at >= 0) open(at);
};
follow((asked) => {
  choose();
  if (asked.get("open")) window.ctxr.openSet(asked.get("open"));
});
