"use strict";
const { data, make, figure, percent, picture, keep, follow, link, setWith } = window.ctxr;
const tiles = document.getElementById("tiles");
if (!tiles) return;
const [INDEX, CODE, FATE, VALUE, NEAREST, DISTANCE, PICTURE, NAME] = [0, 1, 2, 3, 4, 5, 6, 7];
const AT_ONCE = 48;
const tabs = [...document.querySelectorAll(".tab")], order = document.getElementById("dropped-sort"), from = document.getElementById("from");
const more = document.getElementById("more"), means = document.getElementById("means");
let rows = [], reason = 0, upTo = AT_ONCE;

// the figure that a reason looks at: the distance where it is about one
const figureOf = (row) => (data.reasons[row[FATE]].key === "too_close" ? row[DISTANCE] : row[VALUE]);

function choose() {
  const limit = data.limits[reason];
  rows = data.ledger.flatMap((own, source) => (from?.value && from.value !== data.sources[source].name ? [] : own.filter((row) => row[FATE] === reason).map((row) => ({ source, row }))));
  const away = (one) => (figureOf(one.row) === null ? 0 : Math.abs(figureOf(one.row) - (limit ?? 0)));
  if (order.value === "near") rows.sort((a, b) => away(a) - away(b));
  if (order.value === "far") rows.sort((a, b) => away(b) - away(a));
  upTo = AT_ONCE;
  const tab = tabs.find((one) => Number(one.dataset.reason) === reason);
  for (const one of tabs) one.setAttribute("aria-pressed", String(one === tab));
  const key = data.reasons[reason].key;
  const bound = limit === null || limit === undefined ? "" : ` Limit: ${told(limit)}${key === "near_still" ? " of luma difference" : ""}.`;
  means.textContent = tab.dataset.means ? `${tab.dataset.means[0].toUpperCase()}${tab.dataset.means.slice(1)}.${bound}` : "";
  draw();
  if (!rows.length) tiles.replaceChildren(make("p", "empty", `Nothing of ${from.value} fell out as ${data.reasons[reason].name}.`));
}

function told(value) {
  const key = data.reasons[reason].key;
  if (value === null) return "";
  if (key === "too_much_text") return percent(value);
  if (key === "set_incomplete") return `${value} in its set`;
  if (key === "too_small") return `${value} px`;
  return key === "too_close" || key === "low_quality" ? figure(value) : String(Number(value.toFixed(2)));
}

function draw() {
  const now = rows.slice(0, upTo);
  const pictures = rows.some(({ row }) => row[PICTURE] !== -1);
  tiles.className = pictures ? "tiles" : "tiles words";
  tiles.replaceChildren(...now.map((one) => (pictures ? tile(one) : word(one))));
  more.hidden = rows.length <= upTo;
  more.textContent = `Show ${Math.min(AT_ONCE, rows.length - upTo)} more of ${rows.length - upTo}`;
}

const place = (row) => (row[CODE] ? `${row[CODE]} #${row[INDEX]}` : row[NAME] || `#${row[INDEX]}`);
// a frame leads to its moment on the timeline, and the frame that it was too close to to its set
const moment = (source, row) => (row[CODE] ? link(place(row), "timelines", { at: `${data.sources[source].name}:${row[INDEX]}` }) : place(row));

function beside(source, row) {
  const name = data.sources[source].name, close = row[NEAREST] !== null && data.reasons[row[FATE]].key === "too_close", set = close && setWith(name, row[NEAREST]);
  return [name, ...(close ? [", from ", set ? link(`#${row[NEAREST]}`, "sets", { open: set }) : `#${row[NEAREST]}`] : [])];
}

function tile({ source, row }) {
  const made = make("figure", "tile", make("div", "frame", picture(row[PICTURE], `${data.sources[source].name} ${place(row)}`)));
  const value = figureOf(row);
  if (value !== null) made.append(make("p", "value", told(value)));
  const where = make("p", "under", make("b", "", moment(source, row)));
  const from = make("p", "under", ...beside(source, row));
  from.title = data.sources[source].name;
  made.append(where, from);
  return made;
}

function word({ source, row }) {
  const value = figureOf(row);
  const from = make("span", "muted", ...beside(source, row));
  from.title = from.textContent;
  return make("div", "word", make("span", "", moment(source, row)), make("span", "", value === null ? "" : told(value)), from);
}

for (const tab of tabs) tab.addEventListener("click", () => { reason = Number(tab.dataset.reason); keep("reason", data.reasons[reason].key); choose(); });
for (const one of [order, from]) one?.addEventListener("change", choose);
more.addEventListener("click", () => { upTo += AT_ONCE; draw(); });
const first = tabs.find((one) => one.getAttribute("aria-pressed") === "true");
follow((asked) => { reason = Number((tabs.find((one) => data.reasons[Number(one.dataset.reason)].key === asked.get("reason")) || first).dataset.reason); choose(); });
