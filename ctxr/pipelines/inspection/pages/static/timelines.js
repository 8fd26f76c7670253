"use strict";
const { data, make, figure, picture, follow, setWith } = window.ctxr;
const [INDEX, CODE, FATE, VALUE, NEAREST, DISTANCE, PICTURE] = [0, 1, 2, 3, 4, 5, 6];

const seconds = (code) => code.replace("−", "-").split(":").reduce((sum, part) => 60 * sum + Number.parseFloat(part), 0);

for (const track of document.querySelectorAll(".track")) {
  const rows = (data.ledger[Number(track.dataset.source)] || []).filter((row) => row[CODE] !== null);
  const told = track.querySelector(".told"), cursor = track.querySelector(".cursor");
  const times = rows.map((row) => seconds(row[CODE]));
  const name = data.sources[Number(track.dataset.source)].name;
  const from = Number(track.dataset.from), length = Number(track.dataset.length);
  let at = 0;
  track.ariaValueMax = String(Math.max(0, rows.length - 1));

  function show(to) {
    if (!rows.length) return;
    at = Math.max(0, Math.min(rows.length - 1, to));
    const row = rows[at];
    cursor.hidden = false;
    const share = (times[at] - from) / length;
    cursor.style.left = `${100 * share}%`;
    told.style.left = `clamp(0px, ${100 * share}% - 165px, 100% - 330px)`;
    const fate = row[FATE] < 0 ? "in a set" : data.reasons[row[FATE]].name;
    const unit = row[FATE] < 0 ? "" : data.reasons[row[FATE]].unit;
    const words = [` frame #${row[INDEX]}, `, make("b", "", fate)];
    if (row[FATE] >= 0 && row[VALUE] !== null) words.push(` (${unit} ${Number(row[VALUE].toFixed(3))})`);
    if (row[DISTANCE] !== null) words.push(`, ${figure(row[DISTANCE])} from #${row[NEAREST]}, the nearest chosen frame`);
    told.replaceChildren(...(row[PICTURE] >= 0 ? [picture(row[PICTURE], `frame ${row[INDEX]}`)] : []), make("span", "", make("b", "", row[CODE]), ...words));
    told.lastChild.append(make("span", "on", make("kbd", "", "Enter"), setWith(name, row[INDEX]) ? " opens its set" : " shows what else was left out for this"));
    track.ariaValueNow = String(at);
    track.ariaValueText = `${row[CODE]}, frame ${row[INDEX]}, ${fate}`;
  }

  // the set of the frame at the cursor, or what fell out for its reason
  function lead() {
    const row = rows[at], set = row && setWith(name, row[INDEX]);
    if (set) window.ctxr.openSet(set);
    else if (row && row[FATE] >= 0) location.hash = `dropped?${new URLSearchParams({ reason: data.reasons[row[FATE]].key, from: name })}`;
  }
  follow((asked) => {
    const found = location.hash.startsWith("#timelines?") && asked.get("at")?.match(/^(.*):(\d+)$/s), to = found && found[1] === name ? rows.findIndex((row) => row[INDEX] === Number(found[2])) : -1;
    if (to < 0) return;
    track.closest("details").open = true;
    show(to);
    setTimeout(() => { track.focus(); track.scrollIntoView({ block: "center" }); });
  });

  track.addEventListener("pointermove", (event) => {
    const box = track.getBoundingClientRect();
    const time = from + (length * (event.clientX - box.left)) / box.width;
    let best = 0;
    times.forEach((one, index) => { if (Math.abs(one - time) < Math.abs(times[best] - time)) best = index; });
    show(best);
  });
  track.addEventListener("focus", () => show(at));
  track.addEventListener("keydown", (event) => {
    if (event.key === "Enter") lead();
    const to = { ArrowLeft: at - 1, ArrowRight: at + 1, Home: 0, End: rows.length - 1, PageUp: at - 10, PageDown: at + 10 }[event.key];
    if (to === undefined) return;
    show(to);
    event.preventDefault();
  });
  track.addEventListener("click", (event) => {
    const id = event.target.dataset && event.target.dataset.set;
    if (id) window.ctxr.openSet(id);
    else lead();
  });
}
