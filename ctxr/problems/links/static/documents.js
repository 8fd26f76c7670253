"use strict";
const { data, make, figure, picture, turnable, follow } = window.ctxr;
const held = data.documents, cards = document.getElementById("d-cards");
const PAGE = 10, MOST = 12, LONG = 140, NAME = 30, THIN = 1.5, THICK = 7;
const field = (id) => document.getElementById(id);
const known = new Set((data.sets || []).map((set) => set.id));
let shown = [], page = 0;

const svg = (tag, attributes, ...inside) => {
  const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...inside);
  return made;
};
const graphOf = (one) => one.runs[Number(field("d-run").value)];
// a document without any link tells nothing of its pairs
const kindOf = (one, label) => (label === null || !one.links.length ? "open" : label ? "right" : "wrong");
const VERDICTS = { right: "true", wrong: "not true", open: "not judged" };
const missedOf = (one) => one.links.filter(([s, i]) => !graphOf(one).edges.some(([sentence, image]) => s === sentence && i === image));

// of many, those with a strong link, then those with a true one; in the document's order
const picked = (count, one, side) => [...new Set([...graphOf(one).edges.map((edge) => edge[side]), ...one.links.map((link) => link[side]), ...Array(count).keys()])]
  .slice(0, MOST).sort((a, b) => a - b);

// rows of both lists are of one height, so the nth of N stands at (n + 1/2) / N
function line(one, [sentence, image, score], sentences, images, kind) {
  const [from, to] = [[sentence, sentences], [image, images]].map(([at, all]) => ((100 * (all.indexOf(at) + 0.5)) / all.length).toFixed(2));
  const { low, edges } = graphOf(one), high = edges[0][2];
  const width = kind === "missed" ? THIN : THIN + (THICK - THIN) * (high > low ? ((score - low) / (high - low)) ** 2 : 0.5);
  const told = svg("title", {}, `sentence ${sentence + 1}, image ${image + 1}${kind === "missed" ? "" : `: ${score}`}`);
  return svg("path", { class: `edge ${kind}`, d: `M0 ${from}C45 ${from} 55 ${to} 100 ${to}`, "stroke-width": width.toFixed(2) }, told);
}

function graph(one, whole) {
  const sentences = whole ? [...one.texts.keys()] : picked(one.texts.length, one, 0);
  const images = whole ? [...one.images.keys()] : picked(one.images.length, one, 1);
  const { edges } = graphOf(one);
  const missed = missedOf(one).filter(([s, i]) => sentences.includes(s) && images.includes(i));
  const lines = svg("svg", { class: "links", viewBox: "0 0 100 100", preserveAspectRatio: "none", "aria-hidden": "true" },
    ...missed.map((link) => line(one, link, sentences, images, "missed")),
    ...edges.toReversed().map((edge) => line(one, edge, sentences, images, kindOf(one, edge[3]))));
  const ends = (side) => new Set([...edges, ...missed].map((edge) => edge[side]));
  const tied = [ends(0), ends(1)];
  const left = make("ol", "sentences", ...sentences.map((at) => {
    const words = make("span", one.texts[at].length > LONG ? "long" : "", one.texts[at]);
    words.title = one.texts[at];
    return make("li", tied[0].has(at) ? "tied" : "", make("b", "", String(at + 1)), words);
  }));
  const right = make("ol", "pictures", ...images.map((at) => {
    const [name, number] = one.images[at];
    const box = make("span", "frame", number < 0 ? make("span", "", name.length > NAME ? `…${name.slice(-NAME)}` : name) : picture(number, `image ${at + 1}`), make("span", "place", String(at + 1)));
    box.title = name;
    return make("li", tied[1].has(at) ? "tied" : "", box);
  }));
  return [left, lines, right];
}

const counted = (all, noun) => `${all.length} ${noun}${all.length === 1 ? "" : "s"}`;

// the graph in words
function strongest(one) {
  const list = make("ol", "", ...graphOf(one).edges.map(([sentence, image, score, label]) => {
    const kind = kindOf(one, label);
    return make("li", kind, make("span", "", `sentence ${sentence + 1} – image ${image + 1}`), make("b", "", score.toPrecision(3)), make("span", "verdict", VERDICTS[kind]));
  }));
  const rest = missedOf(one), some = rest.slice(0, MOST).map(([sentence, image]) => `${sentence + 1}\u00a0–\u2060\u00a0${image + 1}`).join(", ");
  const more = rest.length > MOST ? ` and ${rest.length - MOST} more` : "";
  return make("div", "in-words", make("p", "small", "strongest links"), list,
    rest.length ? make("p", "", `true links that are not among them: ${some}${more}`) : null);
}

function card(one) {
  const { auc, p1 } = graphOf(one), made = make("article", "graph"), title = make(known.has(one.id) ? "button" : "h3", "title", one.id);
  if (known.has(one.id)) {
    title.type = "button";
    title.title = "open the document";
    title.addEventListener("click", () => window.ctxr.openSet(one.id));
  }
  const facts = make("span", "meta", make("span", "", counted(one.texts, "sentence")), make("span", "", counted(one.images, "image")), make("span", "", one.split));
  const figures = make("span", "figures", make("span", "", "AUC ", make("b", "", figure(auc))), make("span", "", "p@1 ", make("b", "", figure(p1, 2))));
  const drawn = make("div", "edges", ...graph(one, false));
  made.append(make("header", "", title, facts, figures), drawn, strongest(one));
  if (one.texts.length > MOST || one.images.length > MOST || one.texts.some((text) => text.length > LONG)) {
    const all = make("button", "whole", "Show the whole document");
    all.type = "button";
    all.ariaExpanded = "false";
    all.addEventListener("click", () => {
      const whole = drawn.classList.toggle("full");
      drawn.replaceChildren(...graph(one, whole));
      all.ariaExpanded = String(whole);
      all.textContent = whole ? "Show less" : "Show the whole document";
    });
    made.append(all);
  }
  return made;
}

function choose() {
  const [, down, name] = field("d-sort").value.match(/^(-?)(.*)$/);
  const value = (one) => graphOf(one)[name] ?? (down ? -Infinity : Infinity);
  const order = (a, b) => (name === "id" ? 0 : down ? value(b) - value(a) : value(a) - value(b)) || 0;
  shown = held.rows.filter(graphOf).sort((a, b) => order(a, b) || a.id.localeCompare(b.id, "en", { numeric: true }));
  page = 0;
  draw();
}

function draw() {
  const from = page * PAGE, to = Math.min(shown.length, from + PAGE);
  field("d-found").textContent = `${counted(shown, "document")}${shown.length > PAGE ? `, here ${from + 1} to ${to}` : ""}`;
  cards.replaceChildren(...shown.slice(from, to).map(card));
  turnable(field("d-pager"), page, Math.ceil(shown.length / PAGE), (by) => { page += by; draw(); field("d-controls").scrollIntoView(); });
}

if (!held.rows.some((one) => one.runs.some((run) => run?.edges.some((edge) => kindOf(one, edge[3]) === "open")))) field("d-key-open").remove();
for (const name of ["d-run", "d-sort"]) field(name).addEventListener("change", choose);
field("d-controls").addEventListener("submit", (event) => event.preventDefault());
follow(choose);
