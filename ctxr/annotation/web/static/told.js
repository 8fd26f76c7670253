// Puts a message away without leaving what is being written.
const form = document.getElementById("told");
form.addEventListener("submit", async (event) => {
  event.preventDefault();
  try {
    const answer = await fetch(form.action, { method: "POST", body: new URLSearchParams(new FormData(form)), redirect: "manual" });
    if (answer.type === "opaqueredirect" || answer.ok) return form.parentElement.remove();
  } catch {
    // offline: the button works again later
  }
});
