// Sign-in: by a one-time link the first time, later by name and password or by a passkey.

import { call } from "./api.js";
import { button, complain, field, fill, h } from "./dom.js";
import { hasPasskeys, usePasskey } from "./passkeys.js";

/**
 * Shows a page outside of the shell.
 * @param {Element} app
 * @param {string} title
 * @param {any[]} inside
 */
function door(app, title, ...inside) {
  document.title = `${title} · Zonecast Console`;
  document.body.className = "";
  fill(app, h("main.door", null, h("p.brand", null, h("span.mark", { "aria-hidden": "true" }), "Zonecast Console"),
    h("h1", null, title), inside));
  /** @type {HTMLElement | null} */ (app.querySelector("input:not([value]), input"))?.focus();
}

/** Creates a form that shows the error if sending fails. */
function form(verb, fields, send) {
  const trouble = h("p.trouble", { role: "alert", hidden: true });
  const go = h("button.strong", { type: "submit" }, verb);
  return h("form", {
    onsubmit: async (event) => {
      event.preventDefault();
      trouble.hidden = true;
      go.disabled = true;
      try { await send(); } catch (error) {
        trouble.textContent = error.message;
        trouble.hidden = false;
      } finally { go.disabled = false; }
    },
  }, fields, trouble, h("div.actions", null, go));
}

/**
 * Shows the sign-in page.
 * @param {Element} app
 * @param {(welcome: any) => void} open
 */
export function signIn(app, open) {
  const name = h("input", { type: "text", name: "name", autocomplete: "username", required: true, autocapitalize: "none" });
  const password = h("input", { type: "password", name: "password", autocomplete: "current-password", required: true });
  door(app, "Sign in",
    form("Sign in", [field("Name", name), field("Password", password)], async () => {
      open(await call("POST", "session", {}, { name: name.value, password: password.value }));
    }),
    hasPasskeys() && h("p", null, button("Sign in with a passkey", async () => open(await usePasskey()), { id: "use-passkey" })),
    h("p.quiet", null, "No account yet, or password forgotten? On the relay's machine, run ",
      h("code", null, "zonecast user operator create"), " and open the link that it prints."));
}

/**
 * Shows the page of a one-time link.
 * @param {Element} app
 * @param {string} code
 * @param {(welcome: any) => void} open
 */
export async function setUp(app, code, open) {
  let link;
  try { link = await call("GET", "setup", { code }); } catch (error) {
    door(app, "This link does not work", h("p.trouble", null, error.message),
      h("div.actions", null, button("Sign in instead", () => signIn(app, open))));
    return;
  }
  const name = h("input", {
    type: "text", name: "name", autocomplete: "username", required: true, autocapitalize: "none",
    value: link.name ?? "", readonly: Boolean(link.name),
  });
  const password = h("input", { type: "password", autocomplete: "new-password", required: true, minlength: 8 });
  const again = h("input", { type: "password", autocomplete: "new-password", required: true, minlength: 8 });
  door(app, link.name ? "Choose a new password" : "Welcome",
    h("p", null, link.name ? "This link resets your password. It works once."
      : "This link creates your operator account. It works once. Choose the name and password for signing in."),
    form("Continue", [
      field("Name", name, "Such as your e-mail address. The audit log shows it."),
      field("Password", password, "At least 8 characters."), field("Password again", again),
    ], async () => {
      if (password.value !== again.value) throw new Error("The two passwords differ.");
      open(await call("POST", "setup", {}, { code, name: name.value, password: password.value }));
    }));
}

/**
 * Returns a dialog's form that changes the operator's own password.
 * @param {(value?: any) => void} done
 */
export function passwordForm(done) {
  const old = h("input", { type: "password", autocomplete: "current-password", required: true });
  const fresh = h("input", { type: "password", autocomplete: "new-password", required: true, minlength: 8 });
  return form("Change password", [field("Current password", old), field("New password", fresh, "At least 8 characters.")], async () => {
    await call("POST", "password", {}, { password: old.value, newPassword: fresh.value });
    done(true);
  });
}

/**
 * Ends the session.
 * @param {() => void} then
 */
export async function signOut(then) {
  try { await call("DELETE", "session"); } catch (error) { complain(error); }
  then();
}
