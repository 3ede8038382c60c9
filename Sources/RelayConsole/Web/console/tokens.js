// The credentials of programs: API tokens for apps, keys for servers, and trusted issuers of identity tokens.

import { get, post } from "./api.js";
import { button, confirmed, copyable, dialog, field, fill, guarded, h, say, table } from "./dom.js";
import { ago, moment, short } from "./format.js";

const state = (one) => (one.revoked ? h("span.badge.bad", null, `revoked ${moment(one.revoked)}`) : h("span.badge.good", null, "active"));
const off = (one) => (one.revoked ? "off" : undefined);

/** @type {import("./sections.js").Page} */
export const tokens = {
  id: "tokens", title: "API tokens", key: "t",
  about: "An app shows one with every request. The token itself is shown once and kept nowhere.",
  command: ({ container, environment, data }) => `token list --container ${container} --environment ${environment} --data ${data}`,

  async show(body, { shell }) {
    const { tokens: rows } = await get("tokens");
    fill(body,
      h("div.bar", null, button("New token…", async () => { if (await newToken()) await shell.show(); }, { class: "strong", id: "new-token" })),
      table([
        ["Name", (one) => one.name || h("span.quiet", null, "no name")], ["ID", (one) => one.id, "mono"],
        ["After sign-in to", (one) => one.callbackURL ?? "–", "wrap"], ["Pages of", (one) => one.origins.join(", ") || "–", "wrap"],
        ["Made", (one) => moment(one.created)], ["State", state],
        ["", (one) => !one.revoked && button("Rotate…", async () => {
          if (!await confirmed(`Rotate ${one.name || one.id}?`, "A new token takes its place, with its name, address and origins; the old one ends at once.", "Rotate")) return;
          await showOnce((await post("tokens/rotate", { id: one.id })).text);
          await shell.show();
        }, { class: "small" })],
        ["", (one) => !one.revoked && button("Revoke…", async () => {
          if (!await confirmed(`Revoke ${one.name || one.id}?`, "Apps that use it are refused from the next second on.", "Revoke")) return;
          await post("tokens/revoke", { id: one.id });
          await shell.show();
        }, { class: "small danger" })],
      ], rows, "No token yet: apps need one, except with a --dev relay.", { caption: "API tokens", mark: off }));
  },
};

async function newToken() {
  const made = await dialog("New API token", (done) => {
    const name = h("input", { type: "text", required: true, placeholder: "Notes for iPhone" });
    const callback = h("input", { type: "text", placeholder: "https://app.example/done", spellcheck: "false" });
    const origins = h("textarea", { rows: 2, placeholder: "https://app.example", spellcheck: "false" });
    return h("form", { onsubmit: guarded(async (event) => {
      event.preventDefault();
      done(await post("tokens/add", {
        name: name.value, callbackURL: callback.value.trim(), origins: origins.value.split(/\s+/).filter(Boolean),
      }));
    }) }, field("Name", name), field("Where the browser goes after sign-in", callback, "Optional."),
    field("Origins whose pages may use it", origins, "Optional, one on a line."),
    h("div.actions", null, h("button.strong", { type: "submit" }, "Make it")));
  });
  if (made) await showOnce(made.text);
  return made;
}

const showOnce = (text) => dialog("The token, shown this once", (done) => [copyable(text),
  h("div.actions", null, button("I have it", () => done(), { class: "strong" }))]);

/** @type {import("./sections.js").Page} */
export const keys = {
  id: "keys", title: "Keys", key: "k",
  about: "Servers sign their requests with a key of theirs (public database only); issuers vouch for people who sign in elsewhere; build machines change schemas by a management token.",
  command: ({ container, environment, data }) => `key list --container ${container} --environment ${environment} --data ${data}`,

  async show(body, { shell }) {
    const { keys: rows, issuers, management } = await get("keys");
    fill(body,
      h("div.bar", null, button("New key…", async () => { if (await newKey()) await shell.show(); }, { class: "strong" })),
      table([
        ["Name", (one) => one.name], ["Key ID", (one) => h("code", { title: one.id }, short(one.id, 20))],
        ["Writes as", (one) => h("code", { title: one.user }, short(one.user, 16))], ["Made", (one) => moment(one.created)], ["State", state],
        ["", (one) => !one.revoked && button("Revoke…", async () => {
          if (!await confirmed(`Revoke ${one.name}?`, "Its server is refused from the next second on.", "Revoke")) return;
          await post("keys/revoke", { id: one.id });
          await shell.show();
        }, { class: "small danger" })],
      ], rows, "No server key yet.", { caption: "Server keys", mark: off }),
      h("h2", null, "Issuers of identity tokens"),
      table([["Issuer", (one) => one.issuer, "wrap"], ["Audiences", (one) => one.audiences.join(", "), "wrap"], ["Since", (one) => moment(one.created)]],
        issuers, "None is trusted. Add one with: zonecast issuer add", { caption: "Issuers" }),
      h("h2", null, "Management tokens"),
      h("p.quiet", null, "A build machine changes this container's schemas with one, and nothing else: ", h("code", null, "zonecast schema promote --url …"), "."),
      h("div.bar", null, button("New management token…", async () => { if (await newManagement()) await shell.show(); }, { id: "new-management" })),
      table([
        ["Name", (one) => one.name || h("span.quiet", null, "no name")], ["ID", (one) => one.id, "mono"], ["Made", (one) => moment(one.created)],
        ["Last used", (one) => ago(one.used)], ["Ends", (one) => (one.expires ? moment(one.expires) : "never")], ["State", state],
        ["", (one) => !one.revoked && button("Revoke…", async () => {
          if (!await confirmed(`Revoke ${one.name || one.id}?`, "Whoever has it is refused from the next request on.", "Revoke")) return;
          await post("management/revoke", { id: one.id });
          await shell.show();
        }, { class: "small danger" })],
      ], management, "None yet.", { caption: "Management tokens", mark: off }));
  },
};

async function newManagement() {
  const made = await dialog("New management token", (done) => {
    const name = h("input", { type: "text", required: true, placeholder: "build machine" });
    const days = h("input", { type: "number", min: 0, max: 3660, value: 365 });
    return h("form", { onsubmit: guarded(async (event) => {
      event.preventDefault();
      done(await post("management/add", { name: name.value, days: Number(days.value) }));
    }) }, field("Name", name, "The audit log has it."), field("Days until it ends", days, "0: never."),
    h("div.actions", null, h("button.strong", { type: "submit" }, "Make it")));
  });
  if (made) await showOnce(made.text);
  return made;
}

async function newKey() {
  const made = await dialog("New server key", (done) => {
    const name = h("input", { type: "text", required: true });
    const pem = h("textarea", { rows: 6, required: true, spellcheck: "false", placeholder: "-----BEGIN PUBLIC KEY-----" });
    return h("form", { onsubmit: guarded(async (event) => {
      event.preventDefault();
      done(await post("keys/add", { name: name.value, publicKey: pem.value }));
    }) }, field("Name", name), field("Public key (P-256, PEM)", pem, "The private one stays with the server."),
    copyable("openssl ecparam -name prime256v1 -genkey -noout -out eckey.pem\nopenssl ec -in eckey.pem -pubout"),
    h("div.actions", null, h("button.strong", { type: "submit" }, "Take it in")));
  });
  if (made) {
    await dialog("The key's identifier", (done) => [h("p", null, "The server sends it as ", h("code", null, "X-Apple-CloudKit-Request-KeyID"), "."),
      copyable(made.id), h("div.actions", null, button("I have it", () => done(), { class: "strong" }))]);
    say("The key is taken in.");
  }
  return made;
}
