// Places on a picture: a click or a drag fills in the numbers below, and these move the mark. Without this script they are typed.
for (const field of document.querySelectorAll(".mark")) {
  const frame = field.querySelector(".frame");
  const spot = field.querySelector(".spot");
  const numbers = [...field.querySelectorAll("input")];
  let start = null;

  const show = () => {
    const [left, top, width, height] = numbers.map((one) => `${one.value}%`);
    Object.assign(spot.style, { left, top, width, height });
    spot.hidden = numbers.some((one) => one.value === "");
  };
  const at = (event) => {
    const { left, top, width, height } = frame.getBoundingClientRect();
    const shares = [(event.clientX - left) / width, (event.clientY - top) / height];
    return shares.map((share) => Math.round(10000 * Math.min(1, Math.max(0, share))) / 100);
  };
  const fill = (values) => {
    for (const [place, one] of numbers.entries()) one.value = Number(values[place].toFixed(2));
    numbers[0].dispatchEvent(new Event("input", { bubbles: true }));
  };
  const draw = (end) => {
    const sides = [0, 1].map((axis) => [start[axis], end[axis]].sort((one, other) => one - other));
    fill([...sides.map(([from]) => from), ...sides.map(([from, to]) => to - from)]);
  };

  if (numbers.length === 2) frame.addEventListener("click", (event) => fill(at(event)));
  else {
    frame.addEventListener("pointerdown", (event) => {
      frame.setPointerCapture(event.pointerId);
      start = at(event);
    });
    frame.addEventListener("pointermove", (event) => start && draw(at(event)));
    for (const end of ["pointerup", "pointercancel"]) frame.addEventListener(end, () => (start = null));
  }
  field.addEventListener("input", show);
  show();
}

// Nothing has two places: what is chosen for one leaves the other to what was there.
for (const list of document.querySelectorAll(".order")) {
  const places = [...list.querySelectorAll("select")];
  const before = places.map((one) => one.value);
  list.addEventListener("input", (event) => {
    const other = places.find((one) => one !== event.target && one.value && one.value === event.target.value);
    if (other) other.value = before[places.indexOf(event.target)];
    for (const [place, one] of places.entries()) before[place] = one.value;
  });
}
