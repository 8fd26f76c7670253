// A result as large as the window; neighbours by arrow key.
import { clock, fill, index, name } from "./pictures.js";

const field = (id) => document.getElementById(id), dialog = field("large");
let shown = [], place = 0, alike = () => {};

const show = (next) => {
  place = Math.min(shown.length - 1, Math.max(0, next));
  const one = shown[place];
  fill(field("large-shot"), one, `picture/${one.place}/whole?index=${index}`);
  field("large-shot").querySelector("img").alt = name(one);
  field("large-name").textContent = `${one.file} ${clock(one.time)}`;
  field("large-place").textContent = `${place + 1} of ${shown.length}`;
  field("before").disabled = place === 0;
  field("after").disabled = place === shown.length - 1;
};

export const open = (results, at, more) => {
  [shown, alike] = [[...results], more];
  show(at);
  dialog.showModal();
};

dialog.addEventListener("keydown", (event) => {
  const step = { ArrowLeft: -1, ArrowUp: -1, PageUp: -1, ArrowRight: 1, ArrowDown: 1, PageDown: 1 }[event.key];
  if (!step) return;
  event.preventDefault();
  show(place + step);
});
dialog.addEventListener("click", (event) => event.target.closest("figcaption, button") || dialog.close());
field("before").addEventListener("click", () => show(place - 1));
field("after").addEventListener("click", () => show(place + 1));
field("large-alike").addEventListener("click", () => {
  dialog.close();
  alike(shown[place]);
});
