// Looks again after a while.
const seconds = Number(document.querySelector("[data-again]").dataset.again);
setTimeout(() => location.reload(), seconds * 1000);
