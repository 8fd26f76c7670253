// A picture as large as the window; neighbours by arrow key. Without this script the links open the picture itself.
const dialog = document.getElementById("near");
const picture = dialog.querySelector("img");
const name = document.getElementById("near-name");
export const ahead = document.dir === "rtl" ? -1 : 1; // of the right arrow: what comes next stands where reading goes
let shown = [];
let place = 0;

const show = () => {
  picture.src = shown[place].href;
  picture.alt = shown[place].name;
  name.textContent = shown[place].name;
};

export const isOpen = () => dialog.open;

// Whether keys go into an element as text; then they are no shortcuts.
export const takesText = (element) =>
  Boolean(element) && (element.isContentEditable || element.matches("textarea, select, input:not([type=radio], [type=checkbox])"));

// links: anchors to pictures; closed(place) is told what was looked at last, chosen(place) what was taken with Enter.
export const open = (links, at, closed = () => {}, chosen = null) => {
  shown = links.map((link) => ({ href: link.href, name: link.dataset.name }));
  place = Math.max(0, at);
  show();
  dialog.onkeydown = (event) => {
    const step = { ArrowLeft: -ahead, ArrowUp: -1, PageUp: -1, ArrowRight: ahead, ArrowDown: 1, PageDown: 1 }[event.key];
    event.stopPropagation();
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (step) {
      event.preventDefault();
      place = Math.min(shown.length - 1, Math.max(0, place + step));
      show();
    } else if (event.key === "z" || event.key === "Enter") {
      event.preventDefault();
      if (event.key === "Enter" && chosen) dialog.onclose = () => chosen(place);
      dialog.close();
    }
  };
  dialog.onclose = () => closed(place);
  dialog.onclick = () => dialog.close();
  dialog.showModal();
};
