// Sentences beside a field; nothing is touched, and so read out again, where they are the same.
const place = document.getElementById("problems");

export const tell = (sentences) => {
  if ([...place.querySelectorAll("li")].map((one) => one.textContent).join() === sentences.join()) return;
  const list = document.createElement("ul");
  list.className = "problems";
  for (const sentence of sentences) list.appendChild(document.createElement("li")).textContent = sentence;
  if (sentences.length) document.querySelectorAll("details.exception").forEach((one) => { one.open = true; });
  place.replaceChildren(...(sentences.length ? [list] : []));
};
