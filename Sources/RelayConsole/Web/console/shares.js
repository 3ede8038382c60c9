// The Shares page: owners and participants of shares. Lets an operator end a share or remove a participant. Titles and
// links of shares are private and not shown.

import { get, post } from "./api.js";
import { button, confirmed, dialog, field, fill, guarded, h, say, select, table } from "./dom.js";
import { short } from "./format.js";

const words = { NONE: "none", READ_ONLY: "read", READ_WRITE: "read and write" };
const RIGHTS = [["READ_ONLY", "read"], ["READ_WRITE", "read and write"]];

/** Shows a dialog that sets a permission. Resolves to whether it was changed. */
function change(title, now, choices, send) {
  return dialog(title, (done) => {
    const right = select(choices, now);
    return h("form", { onsubmit: guarded(async (event) => {
      event.preventDefault();
      if (right.value !== now) await send(right.value);
      done(right.value !== now);
    }) }, field("Permission", right, "Devices are notified at once."), h("div.actions", null, h("button.strong", { type: "submit" }, "Save")));
  });
}

/** @type {import("./sections.js").Page} */
export const shares = {
  id: "shares", title: "Shares", key: "h",
  about: "Shared zones and hierarchies with their participants, roles and states. Operators can edit permissions and remove participants; only owners can invite.",
  command: ({ container, environment, url }) => `share list --container ${container} --environment ${environment} --url ${url}`,

  async show(body, { shell }) {
    const { shares: rows } = await get("shares");
    const again = async (text) => { say(text); await shell.show(); };
    const participant = (share, one) => h("li", null,
      h("code", { title: one.user ?? "" }, one.user ? short(one.user, 16) : "invited"), " ",
      h(one.hasAccepted ? "span.badge.good" : "span.badge", null, one.hasAccepted ? "accepted" : "pending"), " ",
      words[one.permission], one.role === "ADMINISTRATOR" ? ", administrator" : one.role === "PUBLIC_USER" ? ", by the link" : "", " ",
      one.role !== "PUBLIC_USER" && button("Edit…", async () => {
        if (await change(`${one.user ?? "Invited user"} in ${share.zone}`, one.permission, RIGHTS,
          (permission) => post("shares/permission", { id: share.id, participant: one.id, permission }))) await again("The participant's permission is saved.");
      }, { class: "small", "aria-label": `Edit the permission of ${one.user ?? "an invited user"}` }), " ",
      (one.role !== "PUBLIC_USER" || share.publicPermission === "NONE") && button("Remove…", async () => {
        if (!await confirmed("Remove this participant?", `The participant loses access to ${share.zone} on all devices. The owner can invite them again.`, "Remove")) return;
        await post("shares/remove", { id: share.id, participant: one.id });
        await again("The participant is removed.");
      }, { class: "small danger", "aria-label": `Remove ${one.user ?? "an invited user"}` }));
    fill(body, table([
      ["Zone", (share) => h("a", { href: shell.link("zones", { words: share.owner }) }, share.zone)],
      ["Owner", (share) => h("a", { href: shell.link("users", { words: share.owner }), title: share.owner }, h("code", null, short(share.owner)))],
      ["Scope", (share) => (share.isZoneWide ? "whole zone" : "hierarchy")],
      ["Link", (share) => share.publicPermission === "NONE" ? h("span.badge", null, "invited only")
        : [h("span.badge.warn", null, `anyone: ${words[share.publicPermission]}`), " ", button("Edit…", async () => {
          const choices = [["NONE", "none: disables the link and removes those who joined by it"], ...RIGHTS];
          if (await change(`Anyone with the link of ${share.zone}`, share.publicPermission, choices,
            (permission) => post("shares/permission", { id: share.id, permission }))) await again("The link's permission is saved.");
        }, { class: "small", "aria-label": `Edit the link of ${share.zone}` })]],
      ["Participants", (share) => share.participants.length ? h("ul.steps", null, share.participants.map((one) => participant(share, one))) : "none"],
      ["", (share) => button("Stop sharing…", async () => {
        if (!await confirmed(`Stop sharing ${share.zone}?`, "All participants lose access on all devices, and the link stops working. The owner keeps all records.", "Stop sharing")) return;
        await post("shares/stop", { id: share.id });
        await again(`${share.zone} is no longer shared.`);
      }, { class: "small danger", "aria-label": `Stop sharing ${share.zone}` })],
    ], rows, "No shares yet.", { caption: "Shares" }), rows.length === 200 && h("p.quiet", null, "The newest 200 are shown."));
  },
};
