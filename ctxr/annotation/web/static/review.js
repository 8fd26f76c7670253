// Keys and zoom. Every form works without it.
import * as near from "./near.js";

const byId = (id) => document.getElementById(id);
const tiles = [...document.querySelectorAll(".tile input")];
const links = [...document.querySelectorAll("a.zoom")];
const keys = byId("keys");

for (const [place, link] of links.entries()) {
  link.addEventListener("click", (event) => {
    if (event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    near.open(links, place);
  });
}

const press = { k: "keep", r: "reject", u: "back", ArrowLeft: "before", ArrowRight: "next" };

addEventListener("keydown", (event) => {
  if (near.isOpen() || keys.open || event.altKey || event.ctrlKey || event.metaKey || event.isComposing || event.repeat) return;
  const key = event.key.length === 1 ? event.key.toLowerCase() : event.key;
  const reason = document.querySelector(`[name=reason][data-key="${CSS.escape(key)}"]`);
  const target = byId(press[key] || "");
  if (/^[0-9]$/.test(key)) {
    const tile = tiles[(Number(key) + 9) % 10];
    if (!tile) return;
    tile.checked = !tile.checked;
    tile.focus();
  } else if (reason) {
    reason.checked = true;
    sessionStorage.reason = reason.value;
  } else if (key === "z") {
    const tile = document.activeElement.closest(".tile");
    near.open(links, tile ? tiles.indexOf(tile.querySelector("input")) : 0);
  } else if (key === "?") {
    keys.showModal();
  } else if (target) {
    target.click();
  } else {
    return;
  }
  event.preventDefault();
});

// the reason of the last decision stays chosen
const chosen = document.querySelector(`[name=reason][value="${CSS.escape(sessionStorage.reason || "other")}"]`);
if (chosen) chosen.checked = true;
byId("answer").addEventListener("change", (event) => { if (event.target.name === "reason") sessionStorage.reason = event.target.value; });

const ask = byId("ask-keys");
ask.hidden = false;
ask.addEventListener("click", () => keys.showModal());
byId("close-keys").addEventListener("click", () => keys.close());

// A second press while the answer is on its way would be taken as a decision about the next set.
for (const form of document.querySelectorAll("form[method=post]")) {
  form.addEventListener("submit", (event) => {
    if (form.dataset.sent) event.preventDefault();
    form.dataset.sent = "yes";
  });
}
addEventListener("pageshow", () => document.querySelectorAll("form").forEach((form) => delete form.dataset.sent));
