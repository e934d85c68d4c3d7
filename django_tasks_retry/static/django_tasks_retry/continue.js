// Presses "Go on" by itself. Without scripts a person presses it; leaving the page stops the work.
"use strict";
window.setTimeout(() => document.getElementById("dtr-continue").requestSubmit(), 400);
