// Looks again after a while, but not while somebody reads what they opened.
const seconds = Number(document.querySelector("[data-again]").dataset.again);
setInterval(() => document.querySelector("details[open]") || location.reload(), seconds * 1000);
