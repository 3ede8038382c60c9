// The Backups page: existing backups, their verification, and the schedule.

import { get, post } from "./api.js";
import { button, dialog, field, fill, guarded, h, say, select, table } from "./dom.js";
import { ago, bytes, moment, number, span } from "./format.js";

/** Downloads a backup. Asks for the password first, since a backup contains private data that the console never shows. */
function fetchFile(one) {
  return dialog(`Download ${one.name}`, (done) => {
    const password = h("input", { type: "password", required: true, autocomplete: "current-password" });
    return h("form", { id: "download-backup", onsubmit: guarded(async (event) => {
      event.preventDefault();
      const { ticket, file } = await post("backups/ticket", { name: one.name, password: password.value });
      const link = h("a", { href: `api/backups/download?ticket=${encodeURIComponent(ticket)}`, download: file });
      document.body.append(link);
      link.click();
      link.remove();
      say(`The download of ${file} has started.`);
      done(true);
    }) },
    h("p.note", null, "A backup contains the private data, accounts and keys of all users. Protect it like the relay's own disk. The audit log records the download."),
    field("Your password", password, "Required to confirm."),
    h("p.quiet", null, "The download is a tar file. Unpack it with tar xf, then run zonecast backup verify or restore with the folder's path."),
    h("div.actions", null, h("button.strong", { type: "submit" }, "Download")));
  });
}

const verified = (one) => !one.verified ? h("span.badge", null, "not yet")
  : one.faults ? h("span.badge.bad", { title: moment(one.verified) }, `${one.faults} faults, ${ago(one.verified)}`)
    : h("span.badge.good", { title: moment(one.verified) }, `good, ${ago(one.verified)}`);

/** @type {import("./sections.js").Page} */
export const backups = {
  id: "backups", title: "Backups", key: "b",
  about: "Backups of the whole relay, created while it runs. To restore one, run zonecast backup restore; the relay pauses meanwhile.",
  command: ({ data }) => `backup list --data ${data}`,

  async show(body, { shell }) {
    const now = await get("backups");
    const verdict = h("div", { "aria-live": "polite" });
    const interval = select([["off", "off"], ["hourly", "hourly"], ["daily", "daily"], ["weekly", "weekly"]], now.interval ?? "off");
    const keep = h("input", { type: "number", min: 1, max: 1000, value: now.keep ?? 7 });
    const latest = now.backups[0];
    const due = now.interval && (now.next && now.next > Date.now() ? `The next backup is due in ${span((now.next - Date.now()) / 1000)}. ` : "The next backup is due within a minute. ");
    const list = h("div");
    const draw = (rows) => fill(list, latest && table([
      ["Created", (one) => moment(one.made)], ["Age", (one) => span((Date.now() - one.made) / 1000), "number"],
      ["Verified", verified], ["Size", (one) => bytes(one.bytes), "number"], ["Zones", (one) => number(one.zones), "number"],
      ["Records", (one) => number(one.records), "number"], ["Assets", (one) => [number(one.assets), one.missingAssets ? [" ", h("span.badge.bad", null, `${number(one.missingAssets)} missing`)] : ""], "number"],
      ["Name", (one) => h("span", { title: one.name }, one.name.replace(/\.zonecastbak$/, "")), "mono"],
      ["", (one) => [button("Verify", async () => {
        fill(verdict, h("p.quiet", null, `Verifying ${one.name}…`));
        const { faults } = await post("backups/verify", { name: one.name });
        fill(verdict, faults.length ? h("div.trouble", null, `${one.name} is damaged:`, faults.map((fault) => h("p", null, fault)))
          : h("p", null, h("b.added", null, "✓ "), `${one.name} is good: every file, every zone's log and every asset is intact.`));
        draw((await get("backups")).backups);
      }, { class: "small" }), " ", button("Download…", () => fetchFile(one), { class: "small", "aria-label": `Download ${one.name}` })]],
    ], rows, "", { caption: "Backups, newest first" }));
    fill(body,
      !latest ? h("p.note", null, "There is no backup yet.") : Date.now() - latest.made > 8 * 86_400_000
        && h("p.note", null, `The latest backup was created ${ago(latest.made)}.`),
      h("div.bar", null, button("Create backup", async () => {
        const made = await post("backups/create");
        say(`${made.name} is created, ${bytes(made.bytes)}.`);
        await shell.show();
      }, { class: "strong", id: "make-backup" })),
      verdict,
      list,
      h("section.panel", null, h("h2", null, "Schedule"),
        h("form.row", { onsubmit: guarded(async (event) => {
          event.preventDefault();
          await post("backups/schedule", { interval: interval.value, keep: Number(keep.value) });
          say("The relay applies the change within a minute.");
          await shell.show();
        }) }, field("Interval", interval), field("Keep", keep), h("button", { type: "submit" }, "Save")),
        h("p.quiet", null, due, "Backups are stored in ", h("code", null, now.folder), ". Copy them to another machine as well.")));
    draw(now.backups);
  },
};
