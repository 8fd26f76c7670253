// The live part of a talk: asks for what is new, and sends without leaving the page. A restart of the server is waited out.
import { count } from "./count.js";
import * as near from "./near.js";
import { tell } from "./problems.js";

const room = document.getElementById("room");
const words = JSON.parse(room.dataset.words);
const turns = document.getElementById("turns");
const say = document.getElementById("say");
const text = document.getElementById("text");
const photo = document.getElementById("photo");
const zoom = document.getElementById("photo-link");
let after = Number(room.dataset.after);
let shown = [...turns.children].map((line) => line.dataset.turn);

const key = (turn) => `${turn.user}${turn.share ? "!" : ":"}${turn.text}`;

const add = (turn) => {
  const line = document.createElement("li");
  line.className = turn.mine ? "mine" : "theirs";
  const who = line.appendChild(document.createElement("span"));
  who.className = "unseen";
  who.textContent = turn.mine ? words.you : words.partner;
  const what = line.appendChild(document.createElement(turn.share ? "em" : "span"));
  if (turn.share) line.classList.add("shares");
  else [what.className, what.dir, what.lang] = ["said", "auto", text.lang];
  what.textContent = turn.share ? (turn.mine ? words.i_shared : words.they_shared) : turn.text;
  turns.append(line);
};

// A new partner means a new room: what no longer holds goes, what is new comes.
const list = (all) => {
  const keys = all.map(key);
  if (keys.join("\n") === shown.join("\n")) return;
  let same = 0;
  while (same < shown.length && shown[same] === keys[same]) same += 1;
  [...turns.children].slice(same).forEach((line) => line.remove());
  all.slice(same).forEach(add);
  shown = keys;
  turns.scrollTop = turns.scrollHeight;
};

const apply = (news) => {
  if (news.go) return location.assign(news.go);
  if (news.room !== room.dataset.room) return location.reload(); // a new partner, another photo
  list(news.turns);
  after = news.after;
  const presence = document.getElementById("presence");
  presence.textContent = news.presence;
  presence.toggleAttribute("data-on", news.partner);
  document.getElementById("gate").textContent = news.gate;
  const share = document.getElementById("share-button");
  if (share) share.disabled = !news.may_share;
  document.getElementById("finish-button").disabled = !news.shared || news.done;
  if (news.photo && photo.hidden) {
    const image = zoom.appendChild(document.createElement("img"));
    image.alt = words.photo;
    image.src = zoom.href = news.photo;
    photo.hidden = false;
    room.classList.add("sees");
    turns.scrollTop = turns.scrollHeight;
  }
};

const pause = (seconds) => new Promise((done) => setTimeout(done, seconds * 1000));

const listen = async () => {
  for (;;) {
    try {
      const answer = await fetch(`${room.dataset.here}/events?after=${after}`);
      if (answer.ok) apply(await answer.json());
      else if (answer.status === 429 || answer.status === 503) await pause(5);
      else return location.reload();
    } catch {
      document.getElementById("presence").textContent = words.gone;
      after = -1; // then everything is news
      await pause(1);
    }
  }
};

const send = async (form) => {
  try {
    const body = new URLSearchParams(new FormData(form));
    const answer = await fetch(form.action, { method: "POST", body, headers: { accept: "application/json" } });
    const told = await answer.json();
    tell(told.problems ?? []);
    if (told.go) location.assign(told.go);
    if (answer.ok) say.elements.counted.value = "0 0 0";
    return answer.ok;
  } catch {
    tell([words.unsent]);
    return false;
  }
};

say.addEventListener("submit", async (event) => {
  event.preventDefault();
  if (!text.value.trim()) return;
  if (await send(say)) text.value = "";
  text.focus();
});
text.addEventListener("keydown", (event) => {
  if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
  event.preventDefault();
  say.requestSubmit();
});
for (const name of ["share", "finish"]) {
  document.getElementById(name)?.addEventListener("submit", (event) => {
    event.preventDefault();
    send(event.target);
  });
}
zoom.addEventListener("click", (event) => {
  event.preventDefault();
  near.open([zoom], 0);
});
addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing || near.takesText(document.activeElement)) return;
  if (event.key === "z" && !photo.hidden && !near.isOpen()) near.open([zoom], 0);
});
turns.scrollTop = turns.scrollHeight;
count(say);
addEventListener("formdata", (event) => event.formData.set("counted", say.elements.counted.value)); // leaving counts, too
text.focus();
listen();
