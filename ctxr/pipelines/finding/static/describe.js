// Pictures to describe and trace, one after the other, each once in a session; what was typed stays until it is stored.
import { dictation } from "./dictate.js";
import { index, post } from "./pictures.js";
import { Recorder } from "./recorder.js";

const KEPT = "ctxr-describe";
const field = (id) => document.getElementById(id);
const text = field("text"), subject = field("subject"), count = Number(field("work").dataset.count);
const fresh = { index, seen: [], place: null, draft: null };
const visit = { annotator: null, told: 0, ...fresh, ...JSON.parse(sessionStorage.getItem(KEPT) ?? "{}") };
if (visit.index !== index) Object.assign(visit, fresh); // places are those of another index

const save = () => sessionStorage.setItem(KEPT, JSON.stringify(visit));
const say = (line) => {
  field("notice").textContent = line;
  field("notice").hidden = !line;
};
const recorder = new Recorder(text, field("canvas"), () => {}, true);
const keep = () => {
  visit.draft = recorder.kept;
  save();
};

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
  visit.draft = null;
  save();
  begin();
};

const begin = () => {
  field("consent").hidden = true;
  field("work").hidden = false;
  field("count").textContent = visit.told === 0 ? "" : `${visit.told} described. Thank you.`;
  subject.src = `picture/${visit.place}/whole?index=${index}`;
  text.focus({ preventScroll: true });
};

subject.addEventListener("error", async () => {
  const answer = await fetch(subject.src).catch(() => null);
  if (answer?.status === 404) next(); // gone since it was indexed
  else say("The picture does not arrive. Is ctxr search still running? Load the page again in a moment: your text stays.");
});
field("agree").addEventListener("submit", async (event) => {
  event.preventDefault();
  const annotator = crypto.getRandomValues(new Uint32Array(1))[0];
  const answer = await post("consent", JSON.stringify({ annotator })).catch(() => null);
  if (!answer?.ok) {
    field("refused").textContent = "The server does not answer. Press Start again in a moment.";
    return;
  }
  visit.annotator = annotator;
  next();
});
text.addEventListener("input", keep);
field("canvas").addEventListener("pointerup", keep);
field("told").addEventListener("submit", async (event) => {
  event.preventDefault();
  const body = JSON.stringify({ ...recorder.query, caption: text.value.trim(), place: visit.place, annotator: visit.annotator });
  const answer = await post("describe", body).catch(() => null);
  const told = await answer?.json().catch(() => null);
  if (answer?.ok) {
    visit.told += 1;
    next();
  } else say(told?.problems.join(" ") ?? "The server does not answer. What you wrote is still here: press Done again in a moment.");
});
field("skip").addEventListener("click", next);
field("undo").addEventListener("click", () => recorder.undo());
field("clear").addEventListener("click", () => recorder.clear());
dictation(text, say, keep);
if (visit.place === null) field("consent").hidden = false;
else {
  begin();
  if (visit.draft) recorder.restore(visit.draft);
}
