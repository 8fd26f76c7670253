"use strict";
// What the parts share. Text goes in as text, never as markup: names come from files and may hold anything.
const data = JSON.parse(document.getElementById("data").textContent);

function make(tag, name, ...inside) {
  const made = document.createElement(tag);
  if (name) made.className = name;
  for (const one of inside) if (one !== null && one !== undefined) made.append(one);
  return made;
}

const figure = (value, digits = 3) => (value === null || value === undefined ? "–" : value.toFixed(digits));
const percent = (value) => (value === null || value === undefined ? "–" : `${(100 * value).toFixed(1)} %`);

// number: -1 = never saved, -2 = should be there and is not
function picture(number, words) {
  if (number < 0) return make("span", "", number === -2 ? "picture missing" : "never saved");
  const image = make("img");
  image.alt = words;
  image.loading = "lazy";
  image.decoding = "async";
  image.src = data.pictures[number];
  return image;
}

// pictures of one shape are framed by it; others stand in one that fits most
function framed(boxes, sizes) {
  const [width, height] = sizes[0] || [0, 0], alike = sizes.every(([w, h]) => w > 0 && h > 0 && Math.abs(w * height - h * width) < 0.01 * h * width);
  if (alike && width > 0) for (const box of boxes) box.style.aspectRatio = `${width} / ${height}`;
}

// a frame of the picture's own shape
function frame(thumbnail, words, name, ...inside) {
  const shot = thumbnail < 0 ? make("span", "", name.split("/").pop().slice(-14)) : picture(thumbnail, words), box = make("div", "frame", shot, ...inside);
  box.title = name;
  shot.addEventListener("load", () => { box.style.aspectRatio = `${shot.naturalWidth} / ${shot.naturalHeight}`; });
  return box;
}

// the first results of a run on a query, with the best relevant image
function found(name, run) {
  if (!run) return make("div", "found-by", make("b", "", name), make("span", "muted", "scored nothing of it"));
  const rank = run.above + 1, tied = run.level > 1 ? `–${run.above + run.level}` : "";
  const boxes = run.found.map(([image, thumbnail, right], at) => {
    const box = frame(thumbnail, `result ${at + 1}`, image, make("span", "place", String(at < 5 ? at + 1 : rank)));
    box.classList.toggle("hit", right);
    return box;
  });
  if (boxes.length > 5) boxes.splice(5, 0, make("span", "muted", "…"));
  return make("div", "found-by", make("div", "", make("b", "", name), make("span", rank === 1 && !tied ? "best" : "muted", `rank ${rank}${tied}`)), make("div", "firsts", ...boxes));
}

// buttons to the pages before and after, where there are several
function turnable(pager, page, pages, turn) {
  const step = (name, by) => {
    const button = make("button", "", name);
    button.type = "button";
    button.disabled = page + by < 0 || page + by >= pages;
    button.addEventListener("click", () => turn(by));
    return button;
  };
  pager.replaceChildren(...(pages > 1 ? [step("Previous", -1), make("span", "muted", `page ${page + 1} of ${pages}`), step("Next", 1)] : []));
}

// The address keeps what was chosen: the part that is read and, after "?", every control that is not as it was written, and what else a
// part keeps. A link such as #sets?kind=video&open=ID asks for just that; one without "?" only leads to its part.
const fields = [...document.querySelectorAll("main select[id], main input[type=search]")], followers = [];
let part = "", kept = new URLSearchParams(), waiting = 0;
function fill() {
  const [, name, rest] = location.hash.match(/^#?([^?]*)\??(.*)$/s);
  [part, kept] = [name, new URLSearchParams(rest)];
  for (const field of fields) {
    const wanted = kept.get(field.id);
    if (field.options) field.selectedIndex = Math.max(0, [...field.options].findIndex((one) => one.value === wanted || one.text === wanted));
    else field.value = wanted ?? "";
  }
}
function keep(name, value) {
  if (value) kept.set(name, value);
  else kept.delete(name);
  clearTimeout(waiting);
  waiting = setTimeout(() => history.replaceState(null, "", `#${part}${kept.size ? `?${kept}` : ""}`), 150);
}
// numbers of runs change with them, so their names are kept
const note = (field) => keep(field.id, !field.options ? field.value : field.selectedIndex < 1 ? "" : /^\d+$/.test(field.value) ? field.selectedOptions[0].text : field.value);
for (const kind of ["input", "change"]) document.addEventListener(kind, (event) => { if (fields.includes(event.target)) note(event.target); });
document.addEventListener("reset", () => setTimeout(() => fields.forEach(note)));
const lead = () => (part === "timelines" && kept.has("at") ? null : document.getElementById(part)?.scrollIntoView()); // a moment is led to by its line
window.addEventListener("hashchange", () => {
  clearTimeout(waiting);
  if (!location.hash.includes("?")) { part = location.hash.slice(1); keep("", ""); return; }
  for (const dialog of document.querySelectorAll("dialog[open]")) dialog.close("led");
  fill();
  for (const follow of followers) follow(kept);
  lead();
});
fill();
if (location.hash.includes("?")) window.addEventListener("load", lead);
// does what the address asks of a part, now and whenever it changes
const follow = (action) => { followers.push(action); action(kept); };
function link(words, to, chosen) {
  const made = make("a", "to", words);
  made.href = `#${to}?${new URLSearchParams(chosen)}`;
  return made;
}

// what is wider than the screen says so
const wider = new ResizeObserver((seen) => { for (const { target } of seen) target.classList.toggle("wider", target.scrollWidth > target.clientWidth + 1); });
for (const box of document.querySelectorAll(".sideways")) wider.observe(box);

const typing = (target) => /^(INPUT|SELECT|TEXTAREA)$/.test(target.tagName || "");
const keys = new Map();
document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || typing(event.target)) return;
  if (document.querySelector("dialog[open]") && event.key !== "t") return;
  const action = keys.get(event.key);
  if (action && action(event) !== false) event.preventDefault();
});

// light, dark, or as the system says; a file:// page may be forbidden to remember
const root = document.documentElement;
const themes = ["auto", "light", "dark"];
function remember(theme) {
  try {
    if (theme === undefined) return localStorage.getItem("ctxr-theme");
    localStorage.setItem("ctxr-theme", theme);
  } catch { /* forgotten when the page is closed */ }
  return null;
}
function dress(theme) {
  if (theme === "auto") delete root.dataset.theme;
  else root.dataset.theme = theme;
  document.getElementById("theme-name").textContent = theme;
}
const turn = () => {
  const next = themes[(themes.indexOf(root.dataset.theme || "auto") + 1) % themes.length];
  dress(next);
  remember(next);
};
dress(themes.includes(remember()) ? remember() : "auto");
document.getElementById("theme").addEventListener("click", turn);
keys.set("t", turn);

const help = document.getElementById("help");
const showHelp = () => help.showModal();
document.getElementById("help-open").addEventListener("click", showHelp);
keys.set("?", showHelp);
for (const dialog of document.querySelectorAll("dialog")) {
  dialog.addEventListener("click", (event) => {
    if (event.target === dialog || event.target.closest("[data-close]")) dialog.close();
  });
}

// the part that is being read
const links = [...document.querySelectorAll(".top nav a:not(.away)")];
const parts = links.map((link) => document.getElementById(link.hash.slice(1)));
let asked = 0;
function mark() {
  asked = 0;
  const end = window.innerHeight + window.scrollY >= document.body.scrollHeight - 4;
  let here = 0;
  parts.forEach((part, at) => { if (part.getBoundingClientRect().top < 140) here = at; });
  if (end && window.scrollY > 0) here = parts.length - 1;
  links.forEach((link, at) => (at === here ? link.setAttribute("aria-current", "true") : link.removeAttribute("aria-current")));
}
window.addEventListener("scroll", () => { asked = asked || requestAnimationFrame(mark); }, { passive: true });
mark();

window.ctxr = { data, make, figure, percent, picture, framed, frame, found, turnable, keys, keep, follow, link, openSet: () => {}, setWith: () => null };
