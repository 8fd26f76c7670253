// Pictures to describe and trace, one after the other, each once in a session; what was typed stays until it is stored.
import { dictation } from "./dictate.js";
import { Recorder } from "./recorder.js";

const KEPT = "ctxr-describe";
const field = (id) => document.getElementById(id);
const text = field("text"), subject = field("subject"), count = Number(field("work").dataset.count);
const visit = JSON.parse(sessionStorage.getItem(KEPT) ?? '{"annotator": null, "seen": [], "told": 0, "place": null, "draft": null}');

const save = () => sessionStorage.setItem(KEPT, JSON.stringify(visit));
const say = (line) => {
  field("notice").textContent = line;
  field("notice").hidden = !line;
};
const recorder = new Recorder(text, field("canvas"), () => {}, true);

const next = () => {
  say("");
  recorder.clear();
  const left = [...Array(count).keys()].filter((place) => !visit.seen.includes(place));
  if (!left.length) {
    field("work").hidden = true;
    field("end").hidden = false;
    field("end").querySelector("h1").focus();
    return;
  }
  visit.place = left[Math.floor(Math.random() * left.length)];
  visit.seen.push(visit.place);
  save();
  begin();
};

const begin = () => {
  field("consent").hidden = true;
  field("work").hidden = false;
  field("count").textContent = visit.told === 0 ? "" : `${visit.told} described. Thank you.`;
  subject.src = `picture/${visit.place}/whole`;
  text.focus({ preventScroll: true });
};

subject.addEventListener("error", next); // gone since it was indexed
field("agree").addEventListener("submit", (event) => {
  event.preventDefault();
  visit.annotator = crypto.getRandomValues(new Uint32Array(1))[0];
  next();
});
field("told").addEventListener("submit", async (event) => {
  event.preventDefault();
  const body = JSON.stringify({ ...recorder.query, caption: text.value.trim(), place: visit.place, annotator: visit.annotator });
  const answer = await fetch("describe", { method: "POST", headers: { "content-type": "application/json" }, body }).catch(() => null);
  const told = await answer?.json().catch(() => null);
  if (answer?.ok) {
    visit.told += 1;
    next();
  } else say(told?.problems.join(" ") ?? "The server does not answer. What you wrote is still here: press Done again in a moment.");
});
field("skip").addEventListener("click", next);
field("undo").addEventListener("click", () => recorder.undo());
field("clear").addEventListener("click", () => recorder.clear());
dictation(text, say, () => {
  visit.draft = recorder.kept;
  save();
});
if (visit.place === null) field("consent").hidden = false;
else {
  begin();
  if (visit.draft) recorder.restore(visit.draft);
  visit.draft = null;
  save();
}
