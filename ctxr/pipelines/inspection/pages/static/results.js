"use strict";
const { data, make, percent, picture, framed, turnable, follow } = window.ctxr;
const held = data.results, cards = document.getElementById("r-cards");
if (!held || !cards) return;
const PAGE = 12;
const field = (id) => document.getElementById(id);
const chosen = (id) => (field(id) ? field(id).value : "");
const known = new Set((data.sets || []).map((set) => set.id));
let shown = [], page = 0;

const hay = held.queries.map((query) =>
  [query.text, query.id, query.set, ...held.sets[query.set].map(([name]) => name)].join(" ").toLowerCase());

// runs that are looked at: one, or all of those that scored the query
const looked = (query) => {
  const run = chosen("r-run");
  const numbers = run === "" ? held.runs.map((_, number) => number) : [Number(run)];
  return numbers.filter((number) => query.runs[number] !== null);
};
const mean = (query, name) => {
  const runs = looked(query);
  return runs.reduce((sum, number) => sum + query.runs[number][name], 0) / (runs.length || 1);
};

const found = {
  wrong: (all) => all.some((one) => one.accuracy === 0),
  right: (all) => all.every((one) => one.accuracy === 1),
  tie: (all) => all.some((one) => one.accuracy > 0 && one.accuracy < 1),
  split: (all) => all.some((one) => one.accuracy !== all[0].accuracy),
  people: (all, { people, targets }) => people.length > 0 && people.every(([, at]) => targets.includes(at)) && all.every((one) => one.accuracy === 0),
  models: (all, { people, targets }) => people.some(([, at]) => !targets.includes(at)) && all.every((one) => one.accuracy === 1),
};

const orders = {
  hard: (a, b) => mean(a, "accuracy") - mean(b, "accuracy") || mean(b, "above") - mean(a, "above"),
  set: (a, b) => (a.set < b.set ? -1 : a.set > b.set ? 1 : 0),
};
orders.easy = (a, b) => -orders.hard(a, b);

// the bar of a score reaches from the lowest of the set to the highest
function bar(run, query, at) {
  const { scores, picks } = query.runs[run], low = Math.min(...scores), high = Math.max(...scores);
  const line = make("span", `score run-${run % 6}`, make("i"), make("b", "", short(scores[at])));
  line.firstChild.style.width = `${(100 * (high > low ? 0.04 + (0.96 * (scores[at] - low)) / (high - low) : 0.5)).toFixed(1)}%`;
  line.title = `${held.runs[run]}: ${scores[at]}${picks.includes(at) ? ", picked" : ""}`;
  return line;
}
const short = (value) => (Math.abs(value) >= 1000 || (value !== 0 && Math.abs(value) < 0.001) ? value.toExponential(1) : Number(value.toPrecision(3)).toString());

const pictured = (query) => held.sets[query.set].some(([, number]) => number !== null && number !== -1);

function image(query, at, runs) {
  const [name, number] = held.sets[query.set][at];
  const target = query.targets.includes(at), pickers = runs.filter((run) => query.runs[run].picks.includes(at)), people = query.people.filter(([, pick]) => pick === at);
  const item = make("li", `shot-of${target ? " target" : pickers.length || people.length ? " missed" : ""}`);
  const box = make("div", "frame", !pictured(query) ? null : number === null ? "not in these sets" : picture(number, name));
  box.append(make("span", "place", String(at + 1)));
  if (target) box.append(make("span", "mark-target", "target"));
  item.append(box);
  const under = make("p", "under", make("b", "", name));
  under.title = name;
  item.append(under, make("div", "scores", ...runs.map((run) => bar(run, query, at))));
  if (pickers.length) {
    const said = pickers.length === runs.length && runs.length > 1 ? `picked by all ${runs.length}` : `picked${held.runs.length > 1 ? `: ${pickers.map((run) => held.runs[run]).join(", ")}` : ""}`;
    item.append(make("p", target ? "picked right" : "picked", said));
  }
  if (people.length) {
    const said = make("p", target ? "picked right" : "picked", `picked by ${people.length} of ${query.people.length} people`);
    said.title = people.map(([worker]) => worker).join(", ");
    item.append(said);
  }
  return item;
}

function verdict(query, run) {
  const { accuracy, above } = query.runs[run];
  const words = accuracy === 1 ? "found" : accuracy > 0 ? `tie, ${percent(accuracy)}` : `wrong, ${above} above the target`;
  return make("span", `verdict ${accuracy === 1 ? "good" : accuracy > 0 ? "half" : "bad"}`, make("i", `dot run-${run % 6}`), `${held.runs[run]}: ${words}`);
}

// what each image (rows) attended to (columns), in percent; no preference is a third of the darkest colour, so that it looks flat
function attention(query, run) {
  const { attention: shares, picks } = query.runs[run], size = shares.length, even = 100 / size;
  const most = Math.max(3 * even, ...shares.flat());
  const role = (at) => (query.targets.includes(at) ? "the target" : picks.includes(at) ? "the pick" : "");
  const named = (at) => (role(at) ? `${at + 1}, ${role(at)},` : String(at + 1));
  const largest = (at) => shares[at].map((share, of) => [share, of]).sort((a, b) => b[0] - a[0] || a[1] - b[1]).slice(0, 3);
  const alike = (at) => Math.max(...shares[at]) < 1.2 * even;
  const sentence = (at) => alike(at) ? `${named(at)} looks at all equally` : `${named(at)} looks at ${largest(at).map(([share, of]) => `${of === at ? "itself" : of + 1} (${share} %)`).join(", ")}`;
  const small = (at) => {
    const [name, number] = held.sets[query.set][at];
    const mark = query.targets.includes(at) ? " target" : picks.includes(at) ? " missed" : "";
    const box = make("span", `seen${mark}`, number === null || number < 0 ? null : picture(number, ""), make("b", "", String(at + 1)));
    box.title = `${at + 1}${role(at) ? `, ${role(at)}` : ""}: ${name}`;
    return box;
  };
  const grid = make("div", "attention");
  grid.style.setProperty("--size", String(size));
  grid.setAttribute("role", "img");
  grid.setAttribute("aria-label", query.targets.map(sentence).join("; "));
  const told = make("p", "told-of muted small");
  const first = [...new Set([...query.targets, ...picks])].slice(0, 3);
  const rest = () => told.replaceChildren(...first.map((at) => make("span", "", sentence(at))));
  grid.append(make("span", "corner", "looks at →"), ...shares.map((_, at) => small(at)));
  shares.forEach((row, at) => {
    grid.append(small(at));
    row.forEach((share, of) => {
      const cell = make("span", `share${share > 0.7 * most ? " deep" : ""}`, String(share));
      cell.style.setProperty("--p", (share / most).toFixed(3));
      cell.title = `${named(at)} looks at ${of === at ? "itself" : of + 1}: ${share} %`;
      cell.addEventListener("pointerenter", () => told.replaceChildren(make("span", "", sentence(at))));
      grid.append(cell);
    });
  });
  grid.addEventListener("pointerleave", rest);
  rest();
  const how = `Rows look at columns: percent in the last layer, mean of its heads. A row adds up to 100; ${Math.round(even)} everywhere is no preference.`;
  return make("div", "attended-in", grid, make("div", "", told, make("p", "muted small", how)));
}

// squares by the hundred are drawn when somebody opens them
function folded(query, run) {
  const fold = make("details", "attended", make("summary", "", make("i", `dot run-${run % 6}`), `${held.runs[run]}: what the images attended to`));
  fold.addEventListener("toggle", () => { if (fold.open && fold.children.length === 1) fold.append(attention(query, run)); });
  return fold;
}

function people({ people: votes, targets }) {
  if (!votes.length) return null;
  const right = votes.filter(([, at]) => targets.includes(at)).length;
  return make("span", `verdict ${right === votes.length ? "good" : right ? "half" : "bad"}`, `people: ${right} of ${votes.length} found it`);
}

function card(query) {
  const runs = looked(query);
  const made = make("article", `miss ${query.kind}`);
  const about = make("span", "meta", make("span", `chip ${query.kind}`, query.kind));
  const set = make(known.has(query.set) ? "button" : "span", "link", query.set);
  if (known.has(query.set)) {
    set.type = "button";
    set.title = "open the set";
    set.addEventListener("click", () => window.ctxr.openSet(query.set));
  }
  about.append(set, make("span", "", query.split), ...query.tags.map((tag) => make("span", "chip", tag)));
  const list = make("ol", pictured(query) ? "strip" : "strip blank");
  const size = held.sets[query.set].length;
  list.style.setProperty("--columns", String(Math.max(5, Math.min(10, size))));
  held.sets[query.set].forEach((_, at) => list.append(image(query, at, runs)));
  if (pictured(query)) framed(list.querySelectorAll(".frame"), held.sets[query.set].map(([, , width, height]) => [width, height]));
  if (!size) list.append(make("li", "muted small", "This set has too many images to be shown."));
  made.append(make("blockquote", "", query.text), about, make("p", "verdicts", ...runs.map((run) => verdict(query, run)), people(query)), list,
    ...runs.filter((run) => query.runs[run].attention).map((run) => folded(query, run)));
  return made;
}

function choose() {
  const words = field("r-find").value.toLowerCase().split(/\s+/).filter(Boolean);
  const kind = chosen("r-kind"), tag = chosen("r-tag"), split = chosen("r-split"), right = chosen("r-right");
  shown = held.queries.filter((query, at) => {
    const runs = looked(query).map((number) => query.runs[number]);
    return runs.length && (!kind || query.kind === kind) && (!tag || query.tags.includes(tag)) && (!split || query.split === split)
      && (!right || found[right](runs, query)) && words.every((word) => hay[at].includes(word));
  });
  const order = orders[field("r-sort").value];
  shown.sort((a, b) => order(a, b) || (a.id < b.id ? -1 : 1));
  page = 0;
  draw();
}

function draw() {
  const pages = Math.max(1, Math.ceil(shown.length / PAGE)), total = held.queries.length;
  const from = page * PAGE, to = Math.min(shown.length, from + PAGE);
  const of = shown.length === total ? `${total} queries` : `${shown.length} of ${total} queries`;
  const counts = shown.map((query) => looked(query).length), most = Math.max(...counts);
  const runs = `mean accuracy of ${counts.some((count) => count < most) ? "up to " : ""}${most} runs`;
  const share = shown.length ? `, ${most > 1 ? runs : "accuracy"} ${percent(shown.reduce((sum, query) => sum + mean(query, "accuracy"), 0) / shown.length)}` : "";
  field("r-found").textContent = `${of}${share}${shown.length > PAGE ? `, here ${from + 1} to ${to}` : ""}`;
  cards.replaceChildren(...(shown.length ? shown.slice(from, to).map(card) : [empty()]));
  turnable(field("r-pager"), page, pages, (by) => { page += by; draw(); field("r-controls").scrollIntoView(); });
}

function empty() {
  const all = make("button", "", "Show all");
  all.type = "button";
  all.addEventListener("click", () => { field("r-controls").reset(); choose(); });
  return make("p", "empty", "No query matches. ", all);
}

for (const name of ["r-run", "r-right", "r-kind", "r-tag", "r-split", "r-sort"]) if (field(name)) field(name).addEventListener("change", choose);
field("r-find").addEventListener("input", choose);
field("r-controls").addEventListener("submit", (event) => event.preventDefault());
field("r-find").addEventListener("keydown", (event) => { if (event.key === "Escape") event.target.blur(); });
follow(choose);
