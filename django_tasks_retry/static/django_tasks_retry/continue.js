// Presses "Continue" by itself. Without scripts the user does; leaving the page stops the action.
"use strict";
window.setTimeout(() => document.getElementById("dtr-continue").requestSubmit(), 400);
