// The credentials of programs: API tokens for apps, keys for servers, and trusted issuers of identity tokens.

import { get, post } from "./api.js";
import { button, confirmed, copyable, dialog, field, fill, guarded, h, say, table } from "./dom.js";
import { ago, moment, short } from "./format.js";

const state = (one) => (one.revoked ? h("span.badge.bad", null, `revoked ${moment(one.revoked)}`) : h("span.badge.good", null, "active"));
const off = (one) => (one.revoked ? "off" : undefined);

/** @type {import("./sections.js").Page} */
export const tokens = {
  id: "tokens", title: "API tokens", key: "t",
  about: "An app sends its API token with every request. The relay shows a token once and stores only its hash.",
  command: ({ container, environment, data }) => `token list --container ${container} --environment ${environment} --data ${data}`,

  async show(body, { shell }) {
    const { tokens: rows } = await get("tokens");
    fill(body,
      h("div.bar", null, button("Create token…", async () => { if (await newToken()) await shell.show(); }, { class: "strong", id: "new-token" })),
      table([
        ["Name", (one) => one.name || h("span.quiet", null, "no name")], ["ID", (one) => one.id, "mono"],
        ["Callback URL", (one) => one.callbackURL ?? "–", "wrap tight"], ["Allowed origins", (one) => one.origins.join(", ") || "–", "wrap"],
        ["Created", (one) => moment(one.created)], ["State", state],
        ["", (one) => !one.revoked && button("Rotate…", async () => {
          if (!await confirmed(`Rotate ${one.name || one.id}?`, "A new token with the same name, callback URL and origins replaces it. The old token is revoked at once.", "Rotate")) return;
          await showOnce((await post("tokens/rotate", { id: one.id })).text);
          await shell.show();
        }, { class: "small" })],
        ["", (one) => !one.revoked && button("Revoke…", async () => {
          if (!await confirmed(`Revoke ${one.name || one.id}?`, "The relay refuses apps that use it within a second.", "Revoke")) return;
          await post("tokens/revoke", { id: one.id });
          await shell.show();
        }, { class: "small danger" })],
      ], rows, "No API tokens yet. Apps need one, except for a relay with --dev.", { caption: "API tokens", mark: off }));
  },
};

async function newToken() {
  const made = await dialog("Create API token", (done) => {
    const name = h("input", { type: "text", required: true, placeholder: "Notes for iPhone" });
    const callback = h("input", { type: "text", placeholder: "https://app.example/done", spellcheck: "false" });
    const origins = h("textarea", { rows: 2, placeholder: "https://app.example", spellcheck: "false" });
    return h("form", { onsubmit: guarded(async (event) => {
      event.preventDefault();
      done(await post("tokens/add", {
        name: name.value, callbackURL: callback.value.trim(), origins: origins.value.split(/\s+/).filter(Boolean),
      }));
    }) }, field("Name", name), field("Callback URL", callback, "Optional. The browser opens it after sign-in."),
    field("Allowed origins", origins, "Optional, one per line. Pages of these origins may use the token."),
    h("div.actions", null, h("button.strong", { type: "submit" }, "Create")));
  });
  if (made) await showOnce(made.text);
  return made;
}

const showOnce = (text) => dialog("Copy the token now: it is shown only once", (done) => [copyable(text),
  h("div.actions", null, button("Done", () => done(), { class: "strong" }))]);

/** @type {import("./sections.js").Page} */
export const keys = {
  id: "keys", title: "Keys", key: "k",
  about: "Servers sign requests with a server key (public database only). Issuers vouch for users who sign in elsewhere. Build machines change schemas with a management token.",
  command: ({ container, environment, data }) => `token list --kind server --container ${container} --environment ${environment} --data ${data}`,

  async show(body, { shell }) {
    const { keys: rows, issuers, management } = await get("keys");
    fill(body,
      h("div.bar", null, button("Create key…", async () => { if (await newKey()) await shell.show(); }, { class: "strong" })),
      table([
        ["Name", (one) => one.name], ["Key ID", (one) => h("code", { title: one.id }, short(one.id, 20))],
        ["User record name", (one) => h("code", { title: one.user }, short(one.user, 16))], ["Created", (one) => moment(one.created)], ["State", state],
        ["", (one) => !one.revoked && button("Revoke…", async () => {
          if (!await confirmed(`Revoke ${one.name}?`, "The relay refuses requests signed with it within a second.", "Revoke")) return;
          await post("keys/revoke", { id: one.id });
          await shell.show();
        }, { class: "small danger" })],
      ], rows, "No server keys yet.", { caption: "Server keys", mark: off }),
      h("h2", null, "Trusted issuers of identity tokens"),
      table([["Issuer", (one) => one.issuer, "wrap"], ["Audiences", (one) => one.audiences.join(", "), "wrap"], ["Created", (one) => moment(one.created)]],
        issuers, "No trusted issuers. Create one: zonecast user issuer create", { caption: "Issuers" }),
      h("h2", null, "Management tokens"),
      h("p.quiet", null, "With a management token, a build machine can change this container's schemas and nothing else: ", h("code", null, "zonecast schema promote --url …"), "."),
      h("div.bar", null, button("Create management token…", async () => { if (await newManagement()) await shell.show(); }, { id: "new-management" })),
      table([
        ["Name", (one) => one.name || h("span.quiet", null, "no name")], ["ID", (one) => one.id, "mono"], ["Created", (one) => moment(one.created)],
        ["Last used", (one) => ago(one.used)], ["Expires", (one) => (one.expires ? moment(one.expires) : "never")], ["State", state],
        ["", (one) => !one.revoked && button("Revoke…", async () => {
          if (!await confirmed(`Revoke ${one.name || one.id}?`, "The relay refuses it from the next request on.", "Revoke")) return;
          await post("management/revoke", { id: one.id });
          await shell.show();
        }, { class: "small danger" })],
      ], management, "No management tokens yet.", { caption: "Management tokens", mark: off }));
  },
};

async function newManagement() {
  const made = await dialog("Create management token", (done) => {
    const name = h("input", { type: "text", required: true, placeholder: "build machine" });
    const days = h("input", { type: "number", min: 0, max: 3660, value: 365 });
    return h("form", { onsubmit: guarded(async (event) => {
      event.preventDefault();
      done(await post("management/add", { name: name.value, days: Number(days.value) }));
    }) }, field("Name", name, "The audit log shows it."), field("Days until it expires", days, "0: never."),
    h("div.actions", null, h("button.strong", { type: "submit" }, "Create")));
  });
  if (made) await showOnce(made.text);
  return made;
}

async function newKey() {
  const made = await dialog("Create server key", (done) => {
    const name = h("input", { type: "text", required: true });
    const pem = h("textarea", { rows: 6, required: true, spellcheck: "false", placeholder: "-----BEGIN PUBLIC KEY-----" });
    return h("form", { onsubmit: guarded(async (event) => {
      event.preventDefault();
      done(await post("keys/add", { name: name.value, publicKey: pem.value }));
    }) }, field("Name", name), field("Public key (P-256, PEM)", pem, "The private key stays on the server."),
    copyable("openssl ecparam -name prime256v1 -genkey -noout -out eckey.pem\nopenssl ec -in eckey.pem -pubout"),
    h("div.actions", null, h("button.strong", { type: "submit" }, "Create")));
  });
  if (made) {
    await dialog("Key ID", (done) => [h("p", null, "The server sends it as ", h("code", null, "X-Apple-CloudKit-Request-KeyID"), "."),
      copyable(made.id), h("div.actions", null, button("Done", () => done(), { class: "strong" }))]);
    say("The key is created.");
  }
  return made;
}
