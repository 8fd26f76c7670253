// Counts pastes into a form, and how often and for how long its page is left: what was not sent yet, in a field that goes with the form.
// People are told, and no rule uses it.
export const count = (form) => {
  const field = form.elements.counted;
  let since = 0;
  const add = (place, more) => {
    const counts = (field.value || "0 0 0").split(" ").map(Number);
    counts[place] += more;
    field.value = counts.join(" ");
  };
  const leave = () => {
    since ||= performance.now();
  };
  const back = () => {
    if (!since) return;
    add(1, 1);
    add(2, Math.round(performance.now() - since));
    since = 0;
  };
  add(0, 0);
  form.addEventListener("input", (event) => {
    if (/^insertFrom(Paste|Drop)/.test(event.inputType)) add(0, 1);
  });
  addEventListener("blur", leave);
  addEventListener("focus", back);
  document.addEventListener("visibilitychange", () => (document.hidden ? leave() : back()));
};
