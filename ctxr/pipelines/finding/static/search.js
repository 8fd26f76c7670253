// The search: each key and stroke asks again, and results change in place.
import { dictation } from "./dictate.js";
import { open } from "./large.js";
import { clock, fill, name, post, shape } from "./pictures.js";
import { Recorder } from "./recorder.js";

const PAUSE = 60, AGAIN = 2000, SPEAK = 700, MOST_PICTURE = 25 * 2 ** 20, MOST_ITEMS = 400; // milliseconds; bytes; list items in memory
const KEPT = "ctxr-search";
const field = (id) => document.getElementById(id);
const page = field("search"), list = field("results"), text = field("text"), status = field("status"), reads = page.dataset.reads;
const calm = matchMedia("(prefers-reduced-motion: reduce)");
const items = new Map(); // of results, by place, with their pictures; also of earlier ones
let like = null; // { address, body, title } of a picture to be like
let turn = 0, due = null, flying = false, behind = false, nearest = false, speaking = null, results = [];

const say = (line) => {
  field("notice").textContent = line;
  field("notice").hidden = !line;
};

const speak = (line, seen = line) => {
  clearTimeout(speaking);
  status.textContent = seen;
  speaking = setTimeout(() => (field("spoken").textContent = line), SPEAK); // not at every key
};

const result = (one) => {
  const item = field("result").content.firstElementChild.cloneNode(true);
  item.querySelector(".shot").addEventListener("click", () => open(results, results.findIndex((other) => other.place === one.place), alike));
  item.querySelector(".alike").addEventListener("click", () => alike(one));
  item.querySelector(".alike").setAttribute("aria-label", `More like ${name(one)}`);
  item.querySelector(".file").textContent = name(one);
  item.querySelector(".file").title = one.file;
  item.querySelector(".time").textContent = clock(one.time);
  return item;
};

const arrange = (found) => {
  const held = document.activeElement, before = new Map([...list.children].map((item) => [item, item.getBoundingClientRect()]));
  for (const one of found) if (!items.has(one.place)) items.set(one.place, result(one));
  const shown = new Set(found.map((one) => items.get(one.place)));
  for (const item of before.keys()) if (!shown.has(item)) item.remove();
  if (items.size > MOST_ITEMS) for (const [place, item] of items) if (!shown.has(item)) items.delete(place);
  found.forEach((one, at) => {
    const item = items.get(one.place);
    if (list.children[at] !== item) list.insertBefore(item, list.children[at] ?? null);
    fill(item.querySelector(".shot"), one);
    item.querySelector(".shot").setAttribute("aria-label", `Picture ${at + 1}: ${name(one)} ${clock(one.time)}`);
  });
  if (held?.isConnected) held.focus({ preventScroll: true });
  else if (held !== document.body) text.focus({ preventScroll: true });
  if (calm.matches) return;
  for (const item of shown) {
    const old = before.get(item), box = item.getBoundingClientRect();
    if (!old) item.animate({ opacity: [0, 1] }, 160);
    else if (old.x !== box.x || old.y !== box.y) item.animate({ transform: [`translate(${old.x - box.x}px, ${old.y - box.y}px)`, "none"] }, { duration: 180, easing: "ease-out" });
  }
};

const show = (answer) => {
  const none = answer.fits === false && !nearest;
  results = answer.results;
  page.classList.add("asked");
  field("none").hidden = !none;
  arrange(none ? [] : results);
  say(answer.says);
  field("gone").textContent = `${answer.gone === 1 ? "1 picture is" : `${answer.gone} pictures are`} no longer there: run the command again to index the folder as it is.`;
  field("gone").hidden = !answer.gone;
  const best = answer.fits === false ? "the nearest" : "best first";
  if (none) speak("Nothing here fits", "");
  else speak(results.length ? `${results.length} of ${Number(page.dataset.count).toLocaleString("en")} pictures, ${best}` : "");
};

const blank = () => !like && !recorder.words.length && !recorder.strokes.length;

const request = () => {
  if (!like) return ["find", "application/json", JSON.stringify(recorder.query)];
  return [like.address, like.body ? "application/octet-stream" : "application/json", like.body ?? "{}"];
};

// One question at a time: what happened meanwhile is asked next, and an answer to what was cleared is dropped.
const run = async () => {
  due = null;
  if (flying) return (behind = true);
  if (blank()) return;
  [flying, behind] = [true, false];
  const mine = turn;
  try {
    const [address, type, body] = request();
    const answer = await post(address, body, type);
    const told = answer.headers.get("content-type") === "application/json" ? await answer.json() : { problems: ["The server could not answer. Please load the page again."] };
    if (mine !== turn) behind = true;
    else if (answer.ok) show(told);
    else {
      if (like?.body) [like, field("like").hidden] = [null, true];
      say(told.problems.join(" "));
    }
  } catch {
    say("The server does not answer. Is ctxr search still running? Trying again …");
    setTimeout(ask, AGAIN);
  }
  flying = false;
  if (behind) run();
};

const ask = () => (due ??= setTimeout(run, PAUSE));

const reset = () => {
  turn += 1;
  nearest = false;
  results = [];
  arrange([]);
  for (const id of ["none", "gone", "like"]) field(id).hidden = true;
  page.classList.remove("asked");
  say("");
  speak("");
};

const changed = () => {
  if (like) {
    like = null;
    field("like").hidden = true;
    turn += 1;
  }
  for (const id of ["undo", "clear"]) field(id).disabled = id === "undo" ? !recorder.strokes.length : blank();
  if (blank()) reset();
  else ask();
};

const recorder = new Recorder(text, field("canvas"), () => changed());

const liken = (next) => {
  like = next;
  turn += 1;
  nearest = true;
  field("like").hidden = false;
  field("like-name").textContent = next.title;
  field("clear").disabled = false;
  say("");
  scrollTo({ top: 0, behavior: calm.matches ? "auto" : "smooth" });
  ask();
};

const alike = (one) => liken({ address: `alike/${one.place}`, title: name(one) });

const dropped = (file) => {
  if (!file) return;
  if (file.size > MOST_PICTURE) say(`${file.name} has more than 25 MB: choose a smaller picture.`);
  else liken({ address: "alike", body: file, title: file.name });
};

text.addEventListener("keydown", (event) => {
  if (event.key === "Enter" && !event.isComposing) event.preventDefault(); // it has answered already
});
field("undo").addEventListener("click", () => recorder.undo());
field("clear").addEventListener("click", () => {
  like = null;
  recorder.clear();
  text.focus();
});
field("no-like").addEventListener("click", () => {
  changed();
  text.focus();
});
field("nearest").addEventListener("click", () => {
  nearest = true;
  ask();
  status.focus();
});
field("picture").addEventListener("change", (event) => {
  dropped(event.target.files[0]);
  event.target.value = "";
});
for (const kind of ["dragover", "drop", "dragleave"]) {
  addEventListener(kind, (event) => {
    if (!event.dataTransfer?.types.includes("Files")) return;
    event.preventDefault();
    page.classList.toggle("dropping", kind === "dragover");
    if (kind === "drop") dropped(event.dataTransfer.files[0]);
  });
}
for (const button of document.querySelectorAll(".example")) {
  button.addEventListener("click", () => {
    recorder.clear();
    text.value = button.dataset.text;
    recorder.read();
    const points = reads.includes("trace") ? JSON.parse(button.dataset.stroke) : [];
    if (points.length) recorder.start(...points[0]);
    for (const point of points.slice(1)) recorder.point(...point);
    if (points.length) recorder.end();
    text.focus({ preventScroll: true });
  });
}
for (const shot of document.querySelectorAll(".first")) shape(shot, shot.dataset.width, shot.dataset.height);
dictation(text, say, () => sessionStorage.setItem(KEPT, recorder.kept));
const kept = sessionStorage.getItem(KEPT);
sessionStorage.removeItem(KEPT);
if (kept) recorder.restore(kept);
else if (text.value) recorder.read();
