// The Security roles page: the rights of each role by record type, members, and a trial of their combinations.

import { get, isProduction, post } from "./api.js";
import { button, confirmed, dialog, field, fill, guarded, h, say, select, table } from "./dom.js";
import { short } from "./format.js";

const RIGHTS = ["CREATE", "READ", "WRITE"];
const NAMES = { _world: "World", _icloud: "Authenticated", _creator: "Creator" };

/** @type {import("./sections.js").Page} */
export const roles = {
  id: "roles", title: "Security roles",
  about: "Permissions to create, read and write records of the public database, by type and role. Private databases belong to their users.",
  command: ({ container, environment, data }) => `user role list --container ${container} --environment ${environment} --data ${data}`,

  async show(body, { shell }) {
    const now = await get("schema");
    const all = ["_world", "_icloud", "_creator", ...now.roles];
    const mayChange = !isProduction();
    const granted = (type, role) => type.grants.find((grant) => grant.role === role)?.rights ?? [];
    // A right that another grant implies is shown as granted, and cannot be revoked by itself.
    const isIncluded = (type, role, right) => right === "READ" && granted(type, role).includes("WRITE")
      || role === "_creator" && right !== "CREATE"
        && ["_world", "_icloud", "_creator"].some((one) => granted(type, one).includes("CREATE"));
    const box = (type, role, right) => {
      const own = granted(type, role);
      const included = isIncluded(type, role, right);
      return h("label.check", { title: `${type.name}: ${NAMES[role] ?? role} ${right.toLowerCase()}${included ? ", included in another grant" : ""}` }, h("input", {
        type: "checkbox", checked: own.includes(right) || included, disabled: !mayChange || included, "aria-label": `${NAMES[role] ?? role} may ${right.toLowerCase()} ${type.name}`,
        onchange: guarded(async (event) => {
          const rights = event.target.checked ? [...own, right] : own.filter((one) => one !== right);
          await post("schema/edit", { recordType: type.name, grants: { [role]: rights } });
          await shell.show();
        }),
      }), right[0]);
    };
    /** @returns {import("./dom.js").Column} */
    const column = (role) => [NAMES[role] ?? role, (type) => RIGHTS.map((right) => box(type, role, right))];
    fill(body,
      h("p.quiet", null, "C create, R read, W write. Write includes read. Create includes reading and writing the user's own records, and no others. ", mayChange ? "" : "Production changes only by promotion from development."),
      table([["Type", (type) => type.name], ...all.map(column)],
        now.types, "No record types yet.", { caption: "Permissions by type and role" }),
      mayChange && h("div.bar", null, button("Create role…", async () => { if (await newRole()) await shell.show(); }),
        now.roles.map((role) => button(`Delete ${role}…`, async () => {
          if (!await confirmed(`Delete the role ${role}?`, "A role can be deleted only if no user has it.", "Delete role")) return;
          await post("schema/edit", { removeRole: role });
          await shell.show();
        }, { class: "small danger" }))),
      h("div.two", null, trial(now, all), members(now, shell)));
  },
};

function newRole() {
  return dialog("Create role", (done) => {
    const name = h("input", { type: "text", required: true, pattern: "[A-Za-z][A-Za-z0-9_]*" });
    return h("form", { onsubmit: guarded(async (event) => {
      event.preventDefault();
      await post("schema/edit", { addRole: name.value });
      done(true);
    }) }, field("Name", name, "Such as moderator."), h("div.actions", null, h("button.strong", { type: "submit" }, "Create")));
  });
}

/** Shows the rights that a user with chosen roles would have. */
function trial(now, all) {
  const outcome = h("div", { "aria-live": "polite" });
  const chosen = new Set();
  let isCreator = false;
  /** @returns {import("./dom.js").Column} */
  const column = (right) => [right.toLowerCase(), (row) => row.rights.includes(right) ? h("b.added", null, "✓") : h("span.quiet", null, "–")];
  const ask = guarded(async () => {
    const rows = await post("schema/try", { roles: [...chosen], isCreator });
    fill(outcome, table([
      ["Type", (row) => row.recordType],
      ...RIGHTS.map(column),
    ], rows, "No record types yet.", { caption: "Effective permissions" }));
  });
  const people = h("div", null, all.filter((role) => role !== "_world" && role !== "_creator").map((role) => h("label.check", null,
    h("input", { type: "checkbox", onchange: (event) => {
      if (event.target.checked) chosen.add(role); else chosen.delete(role);
      ask();
    } }), NAMES[role] ?? role)),
  h("label.check", null, h("input", { type: "checkbox", onchange: (event) => { isCreator = event.target.checked; ask(); } }), "creator of the record"));
  ask();
  return h("section.panel", { id: "try-as" }, h("h2", null, "Effective permissions"),
    h("p.quiet", null, "Every caller has the role World. Choose further roles."), people, outcome);
}

/** Lists the members of roles, with a form to add one. */
function members(now, shell) {
  const user = h("input", { type: "text", required: true, placeholder: "_user record name", spellcheck: "false" });
  const role = select(now.roles);
  const send = async (name, which, isGiven) => {
    await post("schema/member", { user: name, role: which, isGiven });
    say(isGiven ? `The role ${which} is assigned to ${short(name)}.` : `The role ${which} is removed from ${short(name)}.`);
    await shell.show();
  };
  return h("section.panel", null, h("h2", null, "Role members"),
    table([
      ["User", (member) => h("code", { title: member.user }, short(member.user, 20))],
      ["Roles", (member) => member.roles.map((one) => h("span.badge", null, one, " ",
        button("×", () => send(member.user, one, false), { class: "plain small", "aria-label": `Remove ${one} from ${member.user}` })))],
    ], now.members, "No user has a role besides the built-in ones.", { caption: "Members" }),
    now.roles.length > 0 && h("form.row", { onsubmit: guarded(async (event) => {
      event.preventDefault();
      await send(user.value.trim(), role.value, true);
    }) }, h("div.grow", null, field("User record name", user)), field("Role", role), h("button", { type: "submit" }, "Assign")));
}
