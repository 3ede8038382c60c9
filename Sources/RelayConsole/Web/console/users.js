// The Users page: accounts, their record names by container, storage, devices and sign-ins.

import { get, post } from "./api.js";
import { button, confirmed, dialog, download, field, fill, guarded, h, say, select, table } from "./dom.js";
import { kept } from "./explorer.js";
import { ago, bytes, counted, moment, number, short } from "./format.js";

/** @type {import("./sections.js").Page} */
export const users = {
  id: "users", title: "Users", key: "u",
  about: "Accounts belong to the relay. Each container knows a user by a different record name.",
  command: ({ data }) => `user list --data ${data}`,

  async show(body, { shell, parameters }) {
    if (parameters.get("id")) return person(body, shell, parameters.get("id"));
    const words = h("input", { type: "search", value: parameters.get("words") ?? "", placeholder: "name, address, record name", "aria-label": "Search users" });
    shell.search = words;
    const { users: rows, count } = await get("users", { words: parameters.get("words") });
    fill(body,
      h("div.bar", null, h("form.bar", { role: "search", onsubmit: (event) => {
        event.preventDefault();
        shell.go("users", { words: words.value });
      } }, words, h("button", { type: "submit" }, "Search")), button("Create user…", async () => { if (await add()) await shell.show(); })),
      table([
        ["User", (user) => h("a", { href: shell.link("users", { id: user.id }) }, user.name)],
        ["Sign-in", (user) => h("span.badge", null, user.way)],
        ["Name", (user) => [user.givenName, user.familyName].filter(Boolean).join(" ")],
        ["State", (user) => user.isDisabled ? h("span.badge.bad", null, "disabled") : ""],
        ["Created", (user) => moment(user.created)],
      ], rows, parameters.get("words") ? "No user matches." : "No users yet.", { caption: "Users", mark: (user) => (user.isDisabled ? "off" : undefined) }),
      count > rows.length && h("p.quiet", null, `${number(rows.length)} of ${number(count)} are shown. Search to find the others.`));
  },
};

function add() {
  return dialog("Create user", (done) => {
    const email = h("input", { type: "text", inputmode: "email", required: true, autocomplete: "off" });
    const password = h("input", { type: "password", required: true, minlength: 8, autocomplete: "new-password" });
    return h("form", { onsubmit: guarded(async (event) => {
      event.preventDefault();
      await post("users/add", { email: email.value, password: password.value });
      say(`${email.value} is created.`);
      done(true);
    }) }, field("E-mail address", email), field("Password", password, "At least 8 characters. The user can change it at /account."),
    h("div.actions", null, h("button.strong", { type: "submit" }, "Create")));
  });
}

/** Shows a dialog that sets a user's quota. Resolves to whether it was changed. */
export function quota(user, now) {
  return dialog(`Edit the quota of ${user.name}`, (done) => {
    const kind = select([["standard", "as configured"], ["own", "custom, in megabytes"], ["any", "no limit"]], now === 0 ? "any" : now ? "own" : "standard");
    const size = h("input", { type: "number", min: 1, step: 1, value: now ? Math.ceil(now / 1_000_000) : 500 });
    const own = field("Megabytes", size, "For each container's private database, records and assets together.");
    const fit = () => { own.hidden = kind.value !== "own"; };
    kind.addEventListener("change", fit);
    fit();
    return h("form", { onsubmit: guarded(async (event) => {
      event.preventDefault();
      const asked = kind.value === "standard" ? null : kind.value === "any" ? 0 : Number(size.value) * 1_000_000;
      await post("users/quota", { id: user.id, bytes: asked });
      say("The relay applies the change within a second.");
      done(true);
    }) }, field("Quota", kind), own, h("div.actions", null, h("button.strong", { type: "submit" }, "Save")));
  });
}

/** Shows a dialog that sets a user's password. The operator must tell it to the user. Resolves to whether it was set. */
function newPassword(user) {
  return dialog(`Set the password of ${user.name}`, (done) => {
    const password = h("input", { type: "password", required: true, minlength: 8, autocomplete: "new-password" });
    const own = h("input", { type: "password", required: true, autocomplete: "current-password" });
    return h("form", { onsubmit: guarded(async (event) => {
      event.preventDefault();
      await post("users/password", { id: user.id, password: password.value, own: own.value });
      say("The password is set, and all sessions are revoked.");
      done(true);
    }) },
    h("p.note", null, "Anyone who knows this password can sign in as the user. Send it over a channel that you trust. The audit log records that you set it."),
    field("New password", password, "At least 8 characters. The user can change it at /account."),
    field("Your own password", own, "Required to confirm."),
    h("div.actions", null, h("button.danger", { type: "submit" }, "Set password")));
  });
}

/** Asks for the code with which the user allows it, and opens the API explorer as this user. */
function actAs(user, shell) {
  return dialog(`Act as ${user.name}`, (done) => {
    const code = h("input", { type: "text", required: true, autocomplete: "off", spellcheck: "false" });
    return h("form", { id: "act-as", onsubmit: guarded(async (event) => {
      event.preventDefault();
      await post("act", { id: user.id, code: code.value.trim() });
      Object.assign(kept, { apiToken: "", webToken: code.value.trim() });
      done(true);
      shell.go("explorer", { operation: "zones/list", database: "private" });
    }) },
    h("p", null, "Only the user can allow this. Ask them to open ", h("a", { href: "../account", target: "_blank", rel: "noopener" }, new URL("../account", location.href).href),
      ", to choose “Let support act as me” at the app of this container and environment, and to send you the code."),
    field("Code", code, "It works for half an hour. The audit log records each call."),
    h("div.actions", null, h("button.strong", { type: "submit" }, "Act as this user")));
  });
}

/** Deletes a user, after the operator has typed the user's name. Resolves to whether the user was deleted. */
function remove(user) {
  return dialog(`Delete ${user.name}?`, (done) => {
    const name = h("input", { type: "text", required: true, autocomplete: "off", spellcheck: "false", "aria-label": "The user's name" });
    const go = h("button.danger", { type: "submit", disabled: true }, "Delete user");
    name.addEventListener("input", () => { go.disabled = name.value !== user.name; });
    return h("form", { id: "delete-user-form", onsubmit: guarded(async (event) => {
      event.preventDefault();
      const { zones } = await post("users/delete", { id: user.id, name: name.value });
      say(`${user.name} is deleted, with ${counted(zones, "zone")}.`);
      done(true);
    }) },
    h("p", null, "This deletes the user's private databases, shares and sessions in all containers and both environments, and then the account. Records that the user saved in public databases and in other users' zones stay, under a user record name that no account uses. Only a backup can undo this."),
    h("p", null, "Type ", h("code", null, user.name), " to confirm."), name, h("div.actions", null, go));
  });
}

async function person(body, shell, id) {
  const { user, privateQuota, containers, devices, sessions } = await get("users/one", { id });
  const end = async (session) => {
    await post("users/sign-out", { id: user.id, session });
    say(session ? "The session is revoked." : "All sessions are revoked.");
    await shell.show();
  };
  fill(body,
    h("div.bar", null, h("a", { href: shell.link("users") }, "All users"), h("strong", null, user.name),
      user.isDisabled && h("span.badge.bad", null, "disabled")),
    h("dl.facts", null,
      h("dt", null, "Sign-in"), h("dd", null, user.way), h("dt", null, "E-mail"), h("dd", null, user.email ?? "–"),
      h("dt", null, "Telephone"), h("dd", null, user.phone ?? "–"),
      h("dt", null, "Name"), h("dd", null, [user.givenName, user.familyName].filter(Boolean).join(" ") || "–"),
      h("dt", null, "Created"), h("dd", null, moment(user.created)),
      h("dt", null, "Quota"), h("dd", null, privateQuota === null || privateQuota === undefined ? "as configured" : privateQuota === 0 ? "no limit" : bytes(privateQuota), " ",
        button("Edit…", async () => { if (await quota(user, privateQuota)) await shell.show(); }, { class: "small" }))),
    h("h2", null, "Containers"),
    table([
      ["Container", (one) => one.container], ["Environment", (one) => one.environment],
      ["User record name", (one) => h("code", null, one.userRecordName)],
      ["Private database", (one) => [bytes(one.bytes), one.limit ? ` of ${bytes(one.limit)}` : ""], "number"],
      ["", (one) => one.isDiscoverable ? "discoverable" : ""],
    ], containers, "The user has not used any container yet.", { caption: "Containers" }),
    h("h2", null, "Devices"),
    table([
      ["Container", (one) => one.container], ["Environment", (one) => one.environment],
      ["Device", (one) => h("code", { title: one.device }, short(one.device, 24))], ["Connection", (one) => h("span.badge", null, one.way)],
      ["Notices", (one) => one.sent === null || one.sent === undefined ? "" : number(one.sent), "number"],
    ], devices, "No device is connected or registered for pushes.", { caption: "Devices" }),
    h("h2", null, "Sessions"),
    table([
      ["Container", (one) => one.container], ["Environment", (one) => one.environment],
      ["Kind", (one) => (one.isKept ? "kept signed in" : "short")], ["Created", (one) => moment(one.created)],
      ["Last used", (one) => ago(one.used)],
      ["", (one) => button("Revoke", () => end(one.id), { class: "small danger" })],
    ], sessions, "No sessions.", { caption: "Sessions" }),
    h("div.actions.left", null,
      button("Export", () => download(`${user.name}.json`, "application/json", JSON.stringify({ user, privateQuota, containers, sessions }, null, 2)), { title: "Exports what this page shows. For the user's records: zonecast user export" }),
      sessions.length > 1 && button("Revoke all sessions", () => end()),
      user.way === "password" && button("Act as this user…", () => actAs(user, shell), { id: "act-as-user" }),
      user.way === "password" && button("Set password…", async () => { if (await newPassword(user)) await shell.show(); }),
      button(user.isDisabled ? "Enable" : "Disable…", async () => {
        if (!user.isDisabled && !await confirmed(`Disable ${user.name}?`, "This revokes all sessions. The user cannot sign in until you enable the account again. The user's data stays.", "Disable")) return;
        await post("users/disable", { id: user.id, isDisabled: !user.isDisabled });
        await shell.show();
      }, { class: user.isDisabled ? "strong" : "danger" }),
      button("Delete…", async () => { if (await remove(user)) shell.go("users"); }, { class: "danger", id: "delete-user" })));
}
