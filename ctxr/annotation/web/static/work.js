// Keys, zoom and checks while typing. Every form works without it.
import { count } from "./count.js";
import "./marks.js";
import * as near from "./near.js";
import { tell } from "./problems.js";

const form = document.getElementById("answer");
const radios = (name) => [...document.querySelectorAll(`input[type=radio][name="${name}"]`)];
const tiles = [...document.querySelectorAll(".tile input")];
const views = radios("view");
const links = [...document.querySelectorAll("a.zoom")];
const all = document.getElementById("all");
const shown = [...document.querySelectorAll(".tile, .big")];
const clamp = (value, count) => Math.min(count - 1, Math.max(0, value));

// On a phone the pictures lie side by side, to be swiped.
const swipe = (place) => {
  const side = shown[place]?.parentElement;
  if (side && side.scrollWidth > side.clientWidth) shown[place].scrollIntoView({ block: "nearest", inline: "center" });
};
const look = (place) => {
  views[place].checked = true;
  swipe(place);
  if (!near.takesText(document.activeElement)) views[place].focus({ preventScroll: true });
};
const choose = (place) => {
  if (!tiles[place]) return;
  tiles[place].checked = true;
  tiles[place].focus();
  tiles[place].dispatchEvent(new Event("input", { bubbles: true }));
};
const current = (group) => group.findIndex((one) => one.checked);
const columns = () => tiles.filter((one) => one.parentElement.offsetTop === tiles[0].parentElement.offsetTop).length;

for (const [place, link] of [...document.querySelectorAll(".steps a")].entries()) {
  link.addEventListener("click", (event) => {
    event.preventDefault();
    swipe(place);
  });
}
swipe(current(views.length ? views : tiles));

const zoom = (place) => {
  const enlarged = links.filter((link) => link.closest(".tile, .big, .single"));
  if (views.length) near.open(enlarged, place, look);
  else if (tiles.length) near.open(enlarged, place, () => {}, choose);
  else near.open(enlarged, 0);
};

for (const [place, link] of links.entries()) {
  link.addEventListener("click", (event) => {
    if (event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    zoom(place);
  });
}

addEventListener("keydown", (event) => {
  if (near.isOpen() || event.altKey || event.isComposing) return;
  const typing = near.takesText(document.activeElement);
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
    event.preventDefault();
    form.requestSubmit();
    return;
  }
  if (event.ctrlKey || event.metaKey || (typing && event.shiftKey)) return;
  if (document.activeElement.closest(".report") && event.key !== "Escape") return; // choices of its own
  const page = { PageUp: -1, PageDown: 1 }[event.key];
  const side = { ArrowLeft: -near.ahead, ArrowRight: near.ahead }[event.key];
  const up = { ArrowUp: -1, ArrowDown: 1 }[event.key];
  if (views.length && (page || (!typing && side))) {
    event.preventDefault();
    look(clamp(current(views) + (page || side), views.length));
  } else if (typing) {
    if (event.key === "Escape") (views[current(views)] || document.body).focus();
  } else if (tiles.length && (side || up)) {
    event.preventDefault();
    const from = current(tiles);
    choose(from < 0 ? 0 : clamp(from + (side || up * columns()), tiles.length));
  } else if (tiles.length && /^[0-9]$/.test(event.key)) {
    choose((Number(event.key) + 9) % 10);
  } else if (event.key === "g" && all) {
    all.click();
  } else if (event.key === "z") {
    event.preventDefault();
    const tile = document.activeElement.closest(".tile");
    const at = tile ? tiles.indexOf(tile.querySelector("input")) : current(views.length ? views : tiles);
    if (links.length) zoom(Math.max(0, at));
  } else if (event.key === "Enter" && tiles.length && current(tiles) >= 0 && !document.activeElement.closest("a, button")) {
    event.preventDefault();
    form.requestSubmit();
  }
});

count(form);

// Drafts are kept and texts checked a moment after the last key.
let waiting = 0;
let asked = 0;

const check = async () => {
  const body = new URLSearchParams(new FormData(form));
  body.set("link", form.dataset.link);
  const mine = ++asked;
  try {
    const answer = await fetch(form.dataset.check, { method: "POST", body });
    const { problems, may_stand: mayStand } = await answer.json();
    if (mine === asked) tell(problems, mayStand);
  } catch {
    // offline or too fast for a moment: the next key asks again
  }
};

form.addEventListener("input", () => {
  clearTimeout(waiting);
  waiting = setTimeout(check, 600);
});
form.addEventListener("submit", async (event) => {
  event.preventDefault();
  clearTimeout(waiting);
  asked += 1;
  if (form.dataset.sent) return; // a second press; the server would take it as the same answer
  form.dataset.sent = "yes";
  try {
    // sent to a server that is away, the form would leave this page, and what was written with it
    const found = await fetch(import.meta.url, { method: "HEAD", cache: "no-store" });
    if (found.status < 500) return form.submit();
  } catch {
    // the same as an answer of a proxy that does not reach the server
  }
  delete form.dataset.sent;
  tell([form.dataset.away]);
});
addEventListener("pageshow", () => delete form.dataset.sent);
if (matchMedia("(hover: hover)").matches && !form.querySelector(":scope > .choice")) document.querySelector(".answer textarea")?.focus({ preventScroll: true });
