// Starts the console: shows the set-up page, the sign-in page, or the shell with the requested page.

import { get, place, session } from "./api.js";
import { fill, h } from "./dom.js";
import { Shell } from "./shell.js";
import { setUp, signIn } from "./signin.js";

const app = document.getElementById("app");

/** @type {Shell | undefined} */ let shell;
const setupCode = () => /^#setup=([\w-]+)$/.exec(location.hash)?.[1];

// A one-time link may be opened in a tab that already shows the console.
addEventListener("hashchange", (event) => {
  if (!setupCode()) return;
  event.stopImmediatePropagation();
  shell?.stop();
  begin();
});

async function begin() {
  const code = setupCode();
  if (code) {
    // Remove the code from the address and the browser's history.
    history.replaceState(null, "", location.pathname);
    return setUp(app, code, open);
  }
  try { open(await get("session")); } catch (error) {
    if (error.code === "signIn") return;
    fill(app, h("main.door", null, h("h1", null, "Zonecast Console"), h("p.trouble", null, error.message),
      h("p", null, h("a", { href: "./" }, "Retry"))));
  }
}

/** @param {{ name: string, version: string, isDev: boolean, data: string, token: string, containers: { name: string }[] }} welcome */
function open(welcome) {
  session.token = welcome.token;
  shell?.stop();
  shell = new Shell(app, welcome);
  shell.start();
}

session.ended = () => {
  shell?.stop();
  place.container = "";
  signIn(app, open);
};

begin();
