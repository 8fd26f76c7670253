// How a picture is shown: its shape, the region that answered, its name and time, and a sentence where it is gone.
export const index = document.querySelector("[data-index]").dataset.index;

// JSON or bytes to the server, which refuses what is about another index.
export const post = (address, body, type = "application/json") =>
  fetch(address, { method: "POST", headers: { "content-type": type, "x-ctxr-index": index }, body });

export const name = (one) => one.file.split("/").pop();

// Seconds in a video as mm:ss.t
export const clock = (time) => {
  if (time === null) return "";
  const tenths = Math.round(time * 10), two = (value) => String(value).padStart(2, "0");
  return `${two(Math.floor(tenths / 600))}:${two(Math.floor(tenths / 10) % 60)}.${tenths % 10}`;
};

export const shape = (shot, width, height) => shot.style.setProperty("--r", String(width / Math.max(1, height)));

export const fill = (shot, one, address = `picture/${one.place}?index=${index}`) => {
  const image = shot.querySelector("img"), region = shot.querySelector(".region");
  if (image.getAttribute("src") !== address || shot.classList.contains("lost")) {
    shot.classList.remove("lost");
    image.onerror = () => shot.classList.add("lost");
    image.src = address;
  }
  shape(shot.parentElement, one.width, one.height);
  region.hidden = !one.box;
  if (!one.box) return;
  const [left, top, right, bottom] = one.box.map((value) => 100 * value);
  Object.assign(region.style, { left: `${left}%`, top: `${top}%`, width: `${right - left}%`, height: `${bottom - top}%` });
};
