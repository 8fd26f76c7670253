// What somebody says and draws, with one clock for both: words as they are typed or dictated, strokes of a mouse, pen, finger or key.
const MOST_WORDS = 200, MOST_STROKES = 300, MOST_POINTS = 5000; // sent; the server refuses more than it reads
const NEAR = 0.006, LONG = 400; // least distance of two points, a share of the canvas; points of a stroke before every second one is left out
const STEP = 0.02, LEAP = 0.1; // of the pen by arrow keys

const rounded = (value) => Math.round(value * 1000) / 1000;
const share = (value) => rounded(Math.min(1, Math.max(0, value)));

// Times of words: those before and behind an edit keep theirs, a word that grows keeps its start.
const timed = (before, texts, now) => {
  const most = Math.min(before.length, texts.length);
  let head = 0, tail = 0;
  while (head < most && before[head].text === texts[head]) head += 1;
  while (tail < most - head && before.at(-1 - tail).text === texts.at(-1 - tail)) tail += 1;
  return texts.map((text, at) => {
    if (at < head) return before[at];
    if (at >= texts.length - tail) return before[at - texts.length + before.length];
    return { text, start: at < before.length - tail ? before[at].start : now, end: now };
  });
};

// Words and the strokes drawn while or after they were said, up to the next words. Strokes before all words belong to the first ones.
const grouped = (words, strokes) => {
  const groups = [];
  let open = null;
  const events = [...words.map((word) => ({ word, at: word.start })), ...strokes.map((stroke) => ({ stroke, at: stroke.at(-1)[2] }))];
  for (const { word, stroke } of events.sort((a, b) => a.at - b.at)) {
    if (!open || (word && open.drawn)) groups.push((open = { words: [], strokes: [], drawn: false }));
    if (word) open.words.push(word);
    else open.strokes.push(stroke);
    open.drawn ||= Boolean(stroke) && open.words.length > 0;
  }
  return groups;
};

const colour = (number) => `oklch(0.64 0.17 ${(265 - 75 * number + 36000) % 360})`;

// The words of each group of strokes, in its colour.
const legend = (groups) => {
  const chips = groups.flatMap((group, number) => {
    if (!group.strokes.length || !group.words.length) return [];
    const chip = document.createElement("li");
    chip.style.setProperty("--c", colour(number));
    chip.textContent = group.words.map((word) => word.text).join(" ");
    return [chip];
  });
  document.getElementById("legend").replaceChildren(...chips);
};

export class Recorder {
  // changed: called after every word, point, undo and clear. casing: strokes get a light edge, for photos.
  constructor(text, canvas, changed, casing = false) {
    Object.assign(this, { text, canvas, changed, casing, words: [], strokes: [], pen: { x: 0.5, y: 0.5 }, began: null, drawing: null, keys: false });
    text.addEventListener("input", () => this.read());
    canvas.addEventListener("pointerdown", (event) => this.down(event));
    canvas.addEventListener("pointermove", (event) => this.move(event));
    for (const kind of ["pointerup", "pointercancel"]) canvas.addEventListener(kind, (event) => this.up(event));
    canvas.addEventListener("keydown", (event) => this.key(event));
    for (const kind of ["focus", "blur"]) canvas.addEventListener(kind, () => this.focus());
    new ResizeObserver(() => this.draw()).observe(canvas);
  }

  get now() {
    this.began ??= performance.now();
    return rounded((performance.now() - this.began) / 1000);
  }

  read() {
    const now = this.now;
    this.words = timed(this.words, this.text.value.split(/\s+/).filter(Boolean), now);
    this.draw();
    this.changed();
  }

  at(event) {
    const box = this.canvas.getBoundingClientRect();
    return [share((event.clientX - box.left) / box.width), share((event.clientY - box.top) / box.height)];
  }

  down(event) {
    if (event.button !== 0 || this.drawing) return;
    event.preventDefault();
    this.pointer = event.pointerId;
    this.keys = false;
    this.canvas.focus({ preventScroll: true });
    this.canvas.setPointerCapture(event.pointerId);
    this.start(...this.at(event));
  }

  move(event) {
    if (!this.drawing || event.pointerId !== this.pointer) return;
    for (const one of event.getCoalescedEvents?.() ?? [event]) this.point(...this.at(one));
  }

  up(event) {
    if (!this.drawing || event.pointerId !== this.pointer) return;
    this.pointer = null;
    this.end();
  }

  start(x, y) {
    this.drawing = [[x, y, this.now]];
    this.strokes.push(this.drawing);
    this.draw();
    this.changed();
  }

  point(x, y) {
    const [lastX, lastY] = this.drawing.at(-1);
    if (Math.hypot(x - lastX, y - lastY) < NEAR) return;
    this.drawing.push([x, y, this.now]);
    if (this.drawing.length > LONG) this.drawing.splice(0, this.drawing.length, ...this.drawing.filter((_, number) => number % 2 === 0));
    this.draw();
    this.changed();
  }

  end() {
    const [x, y] = this.drawing.at(-1);
    this.drawing.push([x, y, this.now]);
    this.drawing = null;
    this.draw();
    this.changed();
  }

  key(event) {
    const step = event.shiftKey ? LEAP : STEP;
    const move = { ArrowLeft: [-step, 0], ArrowRight: [step, 0], ArrowUp: [0, -step], ArrowDown: [0, step] }[event.key];
    const undo = event.key === "Backspace" || (event.key === "z" && (event.ctrlKey || event.metaKey));
    if (!move && !undo && ![" ", "Enter", "Escape"].includes(event.key)) return;
    if (event.key === "Escape" && !this.drawing) return;
    event.preventDefault();
    this.keys = true;
    if (undo) this.undo();
    else if (!move && this.drawing) this.end();
    else if (!move) this.start(this.pen.x, this.pen.y);
    else {
      this.pen = { x: share(this.pen.x + move[0]), y: share(this.pen.y + move[1]) };
      if (this.drawing) this.point(this.pen.x, this.pen.y);
      this.draw();
    }
  }

  focus() {
    this.keys = document.activeElement === this.canvas && this.pointer == null;
    if (!this.keys && this.pointer == null && this.drawing) this.end();
    this.draw();
  }

  undo() {
    this.drawing = null;
    this.strokes.pop();
    this.draw();
    this.changed();
  }

  clear() {
    Object.assign(this, { words: [], strokes: [], drawing: null, began: null });
    this.text.value = "";
    this.draw();
    this.changed();
  }

  // Words end when the last stroke of their group ends; those said after it begin with the first one.
  get query() {
    const words = this.words.slice(0, MOST_WORDS), strokes = this.strokes.slice(-MOST_STROKES);
    for (const group of grouped(words, strokes)) {
      for (const word of group.words) {
        word.from = Math.min(word.start, ...group.strokes.map((stroke) => stroke[0][2]));
        word.to = Math.max(word.end, ...group.strokes.map((stroke) => stroke.at(-1)[2]));
      }
    }
    const points = strokes.reduce((sum, stroke) => sum + stroke.length, 0), every = Math.ceil(points / MOST_POINTS);
    return {
      words: words.map((word) => [word.text, word.from, word.to]),
      strokes: strokes.map((stroke) => stroke.filter((_, number) => number % every === 0 || number === stroke.length - 1)),
    };
  }

  get kept() {
    return JSON.stringify({ text: this.text.value, words: this.words, strokes: this.strokes, now: this.now });
  }

  restore(kept) {
    const { text, words, strokes, now } = JSON.parse(kept);
    Object.assign(this, { words, strokes, began: performance.now() - now * 1000 });
    this.text.value = text;
    this.draw();
    this.changed();
  }

  draw() {
    this.frame ??= requestAnimationFrame(() => {
      this.frame = null;
      this.paint();
    });
  }

  paint() {
    const { canvas } = this, scale = devicePixelRatio, width = canvas.clientWidth, height = canvas.clientHeight;
    canvas.width = width * scale;
    canvas.height = height * scale;
    canvas.classList.toggle("drawn", this.strokes.length > 0);
    canvas.classList.toggle("keyed", this.keys);
    const pencil = canvas.getContext("2d");
    pencil.scale(scale, scale);
    Object.assign(pencil, { lineCap: "round", lineJoin: "round" });
    const line = (stroke, style, thick) => {
      Object.assign(pencil, { strokeStyle: style, lineWidth: thick });
      pencil.beginPath();
      for (const [x, y] of stroke) pencil.lineTo(x * width, y * height);
      const [x, y] = stroke[0];
      if (stroke.every((one) => one[0] === x && one[1] === y)) pencil.lineTo(x * width + 0.1, y * height);
      pencil.stroke();
    };
    const groups = grouped(this.words, this.strokes);
    legend(groups);
    groups.forEach((group, number) => group.strokes.forEach((stroke) => {
      if (this.casing) line(stroke, "white", 7);
      line(stroke, colour(number), 4);
    }));
    if (!this.keys) return;
    const x = this.pen.x * width, y = this.pen.y * height;
    for (const [style, thick] of [["white", 5], [this.drawing ? "#0b6b62" : "#1d1c1a", 2]]) {
      Object.assign(pencil, { strokeStyle: style, lineWidth: thick });
      pencil.beginPath();
      pencil.moveTo(x - 11, y);
      pencil.lineTo(x + 11, y);
      pencil.moveTo(x, y - 11);
      pencil.lineTo(x, y + 11);
      pencil.stroke();
    }
  }
}
