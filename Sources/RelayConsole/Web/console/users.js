// The Users page: accounts, their record names by container, storage, devices and sign-ins.

import { get, post } from "./api.js";
import { button, confirmed, dialog, download, field, fill, guarded, h, say, select, table } from "./dom.js";
import { ago, bytes, counted, moment, number, short } from "./format.js";

/** @type {import("./sections.js").Page} */
export const users = {
  id: "users", title: "Users", key: "u",
  about: "Accounts belong to the relay; each container knows a user by another record name.",
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
      } }, words, h("button", { type: "submit" }, "Search")), button("New user…", async () => { if (await add()) await shell.show(); })),
      table([
        ["Signs in as", (user) => h("a", { href: shell.link("users", { id: user.id }) }, user.name)],
        ["By", (user) => h("span.badge", null, user.way)],
        ["Name", (user) => [user.givenName, user.familyName].filter(Boolean).join(" ")],
        ["State", (user) => user.isDisabled ? h("span.badge.bad", null, "disabled") : ""],
        ["Since", (user) => moment(user.created)],
      ], rows, parameters.get("words") ? "Nobody has this in their name." : "No users yet.", { caption: "Users", mark: (user) => (user.isDisabled ? "off" : undefined) }),
      count > rows.length && h("p.quiet", null, `${number(rows.length)} of ${number(count)} are shown: search for the others.`));
  },
};

function add() {
  return dialog("New user", (done) => {
    const email = h("input", { type: "text", inputmode: "email", required: true, autocomplete: "off" });
    const password = h("input", { type: "password", required: true, minlength: 8, autocomplete: "new-password" });
    return h("form", { onsubmit: guarded(async (event) => {
      event.preventDefault();
      await post("users/add", { email: email.value, password: password.value });
      say(`${email.value} can sign in now.`);
      done(true);
    }) }, field("E-mail address", email), field("Password", password, "8 characters or more; they change it at /account."),
    h("div.actions", null, h("button.strong", { type: "submit" }, "Add")));
  });
}

/** Shows a dialog that sets a user's quota. Resolves to whether it was changed. */
export function quota(user, now) {
  return dialog(`Quota of ${user.name}`, (done) => {
    const kind = select([["standard", "as everybody"], ["own", "a number of megabytes"], ["any", "any number"]], now === 0 ? "any" : now ? "own" : "standard");
    const size = h("input", { type: "number", min: 1, step: 1, value: now ? Math.ceil(now / 1_000_000) : 500 });
    const own = field("Megabytes", size, "In each container's private database, records and assets together.");
    const fit = () => { own.hidden = kind.value !== "own"; };
    kind.addEventListener("change", fit);
    fit();
    return h("form", { onsubmit: guarded(async (event) => {
      event.preventDefault();
      const asked = kind.value === "standard" ? null : kind.value === "any" ? 0 : Number(size.value) * 1_000_000;
      await post("users/quota", { id: user.id, bytes: asked });
      say("The relay goes by it within a second.");
      done(true);
    }) }, field("May hold", kind), own, h("div.actions", null, h("button.strong", { type: "submit" }, "Set")));
  });
}

/** Shows a dialog that sets a user's password. The operator must tell it to the user. Resolves to whether it was set. */
function newPassword(user) {
  return dialog(`New password for ${user.name}`, (done) => {
    const password = h("input", { type: "password", required: true, minlength: 8, autocomplete: "new-password" });
    const own = h("input", { type: "password", required: true, autocomplete: "current-password" });
    return h("form", { onsubmit: guarded(async (event) => {
      event.preventDefault();
      await post("users/password", { id: user.id, password: password.value, own: own.value });
      say("It is set, and all their sign-ins have ended.");
      done(true);
    }) },
    h("p.note", null, "Whoever knows it can sign in as them. Give it to them by a way you trust; that you set it is in the audit log."),
    field("Their new password", password, "8 characters or more; they change it at /account."),
    field("Your own password", own, "Once more, for this."),
    h("div.actions", null, h("button.danger", { type: "submit" }, "Set")));
  });
}

/** Deletes a user, after the operator has typed the user's name. Resolves to whether the user was deleted. */
function remove(user) {
  return dialog(`Delete ${user.name}?`, (done) => {
    const name = h("input", { type: "text", required: true, autocomplete: "off", spellcheck: "false", "aria-label": "The user's name" });
    const go = h("button.danger", { type: "submit", disabled: true }, "Delete the user");
    name.addEventListener("input", () => { go.disabled = name.value !== user.name; });
    return h("form", { id: "delete-user-form", onsubmit: guarded(async (event) => {
      event.preventDefault();
      const { zones } = await post("users/delete", { id: user.id, name: name.value });
      say(`${user.name} is deleted, with ${counted(zones, "zone")}.`);
      done(true);
    }) },
    h("p", null, "Their private databases, shares and sign-ins go, in every container and both environments, and then the account. What they saved in public databases and in other people's zones stays, under a name that is nobody's. There is no way back but a backup."),
    h("p", null, "Type ", h("code", null, user.name), " to go on."), name, h("div.actions", null, go));
  });
}

async function person(body, shell, id) {
  const { user, privateQuota, containers, devices, sessions } = await get("users/one", { id });
  const end = async (session) => {
    await post("users/sign-out", { id: user.id, session });
    say(session ? "This sign-in has ended." : "All sign-ins have ended.");
    await shell.show();
  };
  fill(body,
    h("div.bar", null, h("a", { href: shell.link("users") }, "All users"), h("strong", null, user.name),
      user.isDisabled && h("span.badge.bad", null, "disabled")),
    h("dl.facts", null,
      h("dt", null, "Signs in by"), h("dd", null, user.way), h("dt", null, "E-mail"), h("dd", null, user.email ?? "–"),
      h("dt", null, "Telephone"), h("dd", null, user.phone ?? "–"),
      h("dt", null, "Name"), h("dd", null, [user.givenName, user.familyName].filter(Boolean).join(" ") || "–"),
      h("dt", null, "Since"), h("dd", null, moment(user.created)),
      h("dt", null, "Quota"), h("dd", null, privateQuota === null || privateQuota === undefined ? "as everybody" : privateQuota === 0 ? "any number of bytes" : bytes(privateQuota), " ",
        button("Change…", async () => { if (await quota(user, privateQuota)) await shell.show(); }, { class: "small" }))),
    h("h2", null, "Known to"),
    table([
      ["Container", (one) => one.container], ["Environment", (one) => one.environment],
      ["User record name", (one) => h("code", null, one.userRecordName)],
      ["Private database", (one) => [bytes(one.bytes), one.limit ? ` of ${bytes(one.limit)}` : ""], "number"],
      ["", (one) => one.isDiscoverable ? "may be found by others" : ""],
    ], containers, "No app has met this user yet.", { caption: "Containers" }),
    h("h2", null, "Devices"),
    table([
      ["Container", (one) => one.container], ["Environment", (one) => one.environment],
      ["Device", (one) => h("code", { title: one.device }, short(one.device, 24))], ["By", (one) => h("span.badge", null, one.way)],
      ["Notices", (one) => one.sent === null || one.sent === undefined ? "" : number(one.sent), "number"],
    ], devices, "None listens now, and none asked to be woken.", { caption: "Devices" }),
    h("h2", null, "Signed in"),
    table([
      ["Container", (one) => one.container], ["Environment", (one) => one.environment],
      ["Kind", (one) => (one.isKept ? "kept signed in" : "short")], ["Since", (one) => moment(one.created)],
      ["Last used", (one) => ago(one.used)],
      ["", (one) => button("End", () => end(one.id), { class: "small danger" })],
    ], sessions, "Nowhere.", { caption: "Sign-ins" }),
    h("div.actions.left", null,
      button("Save as file", () => download(`${user.name}.json`, "application/json", JSON.stringify({ user, privateQuota, containers, sessions }, null, 2)), { title: "What this page shows; the contents are for zonecast user export" }),
      sessions.length > 1 && button("End all sign-ins", () => end()),
      user.way === "password" && button("New password…", async () => { if (await newPassword(user)) await shell.show(); }),
      button(user.isDisabled ? "Enable" : "Disable…", async () => {
        if (!user.isDisabled && !await confirmed(`Disable ${user.name}?`, "All their sign-ins end at once and they cannot sign in again until you enable them. Their data stays.", "Disable")) return;
        await post("users/disable", { id: user.id, isDisabled: !user.isDisabled });
        await shell.show();
      }, { class: user.isDisabled ? "strong" : "danger" }),
      button("Delete…", async () => { if (await remove(user)) shell.go("users"); }, { class: "danger", id: "delete-user" })));
}
