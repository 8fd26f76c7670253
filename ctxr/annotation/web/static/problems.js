// Sentences beside a field; nothing is touched, and so read out again, where they are the same.
const place = document.getElementById("problems");

// mayStand: whether a reason overrules them, for which is asked then, and as long as one is given.
export const tell = (sentences, mayStand = false) => {
  const exception = document.getElementById("exception");
  if (exception) exception.hidden = !mayStand && !exception.querySelector("textarea").value;
  if ([...place.querySelectorAll("li")].map((one) => one.textContent).join() === sentences.join()) return;
  const list = document.createElement("ul");
  list.className = "problems";
  for (const sentence of sentences) list.appendChild(document.createElement("li")).textContent = sentence;
  place.replaceChildren(...(sentences.length ? [list] : []));
};
