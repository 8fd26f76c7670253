"use strict";
const { data, make, found, frame, turnable, follow } = window.ctxr;
const held = data.dialogues, field = (id) => document.getElementById(id);
const PAGE = 8, COLOURS = ["--video", "--photos", "--c-text", "--c-open"];
let shown = [], page = 0;

const colour = (run) => `var(${COLOURS[held.intents.indexOf(run) % COLOURS.length]})`;
const chosen = (id, names) => {
  const value = field(id)?.value ?? "";
  return value === "" ? names : [names[Number(value)]];
};

function bubble(user, ...inside) {
  const side = user < 0 ? "" : ` by-${user}`, box = make("li", `said-by${side}`, ...inside);
  if (user >= 0) box.setAttribute("aria-label", `speaker ${user + 1}`);
  return box;
}

// how sure each run is, after a turn, that the photo comes next
function sureness(one, at) {
  const bars = chosen("d-intent", held.intents).filter((run) => one.intent[run]).map((run) => {
    const { p, limit, at: first } = one.intent[run], here = first === at + 1, right = first === one.turns.length;
    const level = make("span", "level"), fill = make("i"), mark = make("u"), flag = here ? make("b", right ? "right" : "wrong", right ? "shares here" : "would share here") : null;
    fill.style.width = `${(100 * p[at]).toFixed(1)}%`;
    level.style.setProperty("--c", colour(run));
    mark.style.left = `${(100 * limit).toFixed(1)}%`;
    level.append(fill, mark);
    const bar = make("span", "sure", level, make("span", "value", p[at].toFixed(2)), flag);
    bar.title = `${run}: ${p[at].toFixed(3)} that the photo comes next`;
    return bar;
  });
  return bars.length ? make("li", "sures", ...bars) : null;
}

function card(one) {
  const said = one.turns.flatMap(([user, text], at) => [bubble(user, make("p", "", text)), sureness(one, at)]);
  const [name, thumbnail] = one.photo, photo = bubble(one.by, frame(thumbnail, "the photo that was shared", name), make("p", "small muted", one.labels.join(", ")));
  photo.classList.add("shared");
  const after = one.after.map(([user, text]) => bubble(user, make("p", "", text)));
  for (const later of after) later.classList.add("later");
  const missed = chosen("d-intent", held.intents).filter((run) => one.intent[run] && one.intent[run].at === null);
  const never = missed.length ? make("p", "small muted", `Would not share: ${missed.join(", ")}`) : null;
  const chat = make("ol", "talk", ...said, photo, ...after);
  const runs = chosen("d-run", held.runs).map((run) => found(run, one.runs[run]));
  return make("article", "chat-card", make("header", "", make("h3", "", one.id), make("span", "meta", make("span", "", one.split), make("span", "", `${one.turns.length} turns before the photo`))), make("div", "", chat, never), make("div", "d-side", ...runs));
}

function choose() {
  const runs = chosen("d-run", held.runs), intents = chosen("d-intent", held.intents);
  const rank = (run) => (run ? 1 / (1 + run.above + (run.level - 1) / 2) : 0), timed = (one, run) => (one.intent[run]?.at === one.turns.length ? 1 : 0);
  const ease = (one) => runs.reduce((sum, run) => sum + rank(one.runs[run]), 0) + intents.reduce((sum, run) => sum + timed(one, run), 0);
  shown = [...held.rows].sort((a, b) => (ease(a) - ease(b)) * (field("d-sort").value === "hard" ? 1 : -1) || a.id.localeCompare(b.id, "en", { numeric: true }));
  page = 0;
  draw();
}

function draw() {
  const from = page * PAGE, to = Math.min(shown.length, from + PAGE);
  field("d-found").textContent = `${shown.length} dialogue${shown.length === 1 ? "" : "s"}${shown.length > PAGE ? `, here ${from + 1} to ${to}` : ""}`;
  field("d-cards").replaceChildren(...shown.slice(from, to).map(card));
  turnable(field("d-pager"), page, Math.ceil(shown.length / PAGE), (by) => { page += by; draw(); field("d-controls").scrollIntoView(); });
}

for (const run of held.intents) {
  const dot = make("i", "dot");
  dot.style.setProperty("--c", colour(run));
  field("d-legend").append(make("span", "", dot, run));
}
for (const control of ["d-run", "d-intent", "d-sort"]) field(control)?.addEventListener("change", choose);
field("d-controls").addEventListener("submit", (event) => event.preventDefault());
follow(choose);
