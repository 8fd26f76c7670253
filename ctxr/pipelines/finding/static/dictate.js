// Dictation, on a page that was opened for it: the browser's own recognition types into a text.
const Recognition = window.SpeechRecognition ?? window.webkitSpeechRecognition;
const WHY = {
  "not-allowed": "The microphone is not allowed here. Allow it in the settings of the browser for this page, or type.",
  "service-not-allowed": "The browser does not allow speech recognition on this page. Please type.",
  "audio-capture": "The browser found no microphone.",
  network: "The browser does not reach its speech recognition. Please type.",
  "no-speech": "Nothing was heard. Press Dictate and speak again.",
};

// text: its field. say: shows a sentence. before: called before the page is left for the one with dictation.
export const dictation = (text, say, before) => {
  const button = document.getElementById("dictate"), dialog = document.getElementById("dictation"), on = "on" in button.dataset;
  document.getElementById("no-dictation").hidden = Boolean(Recognition);
  button.hidden = !Recognition;
  if (!Recognition) return;
  if (!on) {
    button.addEventListener("click", () => dialog.showModal());
    document.getElementById("turn-on").addEventListener("click", () => {
      before();
      location.assign("?dictate=1");
    });
    return;
  }
  let listening = null;
  const show = () => {
    button.setAttribute("aria-pressed", String(Boolean(listening)));
    button.querySelector("span").textContent = listening ? "Stop" : "Dictate";
  };
  button.addEventListener("click", () => {
    if (listening) return listening.stop();
    const before = text.value.trim();
    listening = Object.assign(new Recognition(), { continuous: true, interimResults: true, lang: navigator.language });
    listening.onresult = (event) => {
      text.value = [before, ...[...event.results].map((result) => result[0].transcript.trim())].filter(Boolean).join(" ");
      text.dispatchEvent(new Event("input", { bubbles: true }));
    };
    listening.onerror = (event) => event.error !== "aborted" && say(WHY[event.error] ?? `Dictation ended: ${event.error}. Please type.`);
    listening.onend = () => {
      listening = null;
      show();
    };
    say("");
    listening.start();
    show();
  });
};
