// The Devices page: connected devices, counts of sent, merged and dropped notices, and subscriptions.

import { get, post } from "./api.js";
import { button, confirmed, fill, h, say, table } from "./dom.js";
import { number, short, span } from "./format.js";

/** @type {import("./sections.js").Page} */
export const devices = {
  id: "devices", title: "Devices", key: "d",
  about: "Subscriptions; devices with an open socket or a long poll, and the notices they were sent.",
  command: ({ container, environment, url }) => `watch --container ${container} --environment ${environment} --url ${url} --json`,

  async show(body, { shell, signal }) {
    const now = h("div");
    const subscriptions = h("div");
    fill(body, now, h("p.quiet", null, "Devices that sleep are woken by ", h("a", { href: shell.link("push") }, "push services"), "."), h("h2", null, "Subscriptions"), subscriptions);

    const draw = async () => {
      const { devices: rows, count, sent, waiting, merged, dropped } = await get("devices");
      fill(now,
        h("div.cards", null, [[count, "devices listen here"], [sent, "notices sent, all containers"], [waiting, "wait for slow readers"],
          [merged, "merged into others"], [dropped, "dropped with a connection"]].map(([value, name]) =>
          h("div.card", null, h("b", null, number(value)), h("span", null, name)))),
        h("p.quiet", null, "A notice that waits merges with a newer one about the same zone. One that is dropped costs nothing: a device that comes back is told what it missed."),
        h("h2", null, "Connected now"),
        table([
          ["User", (row) => h("a", { href: shell.link("users", { words: row.user }), title: row.user }, h("code", null, short(row.user)))],
          ["Device", (row) => h("code", { title: row.device }, short(row.device))],
          ["By", (row) => row.seconds === null || row.seconds === undefined ? "long poll" : "socket"],
          ["For", (row) => row.seconds === null || row.seconds === undefined ? "" : span(row.seconds), "number"],
          ["Sent", (row) => number(row.sent), "number"], ["Merged", (row) => number(row.merged), "number"],
          ["Dropped", (row) => number(row.dropped), "number"], ["Subscriptions", (row) => number(row.subscriptions), "number"],
          ["", (row) => [
            button("Test notice", async () => {
              await post("devices/notice", { user: row.user, device: row.device });
              say(row.subscriptions ? "A notice is on its way to this user's devices." : "This user has no subscription, so nothing was sent.", !row.subscriptions);
            }, { class: "small" }), " ",
            button("Disconnect…", async () => {
              if (!await confirmed("Disconnect this device?", "It may come back at once, and is told what it missed.", "Disconnect")) return;
              await post("devices/disconnect", { user: row.user, device: row.device });
              say("The device is disconnected.");
              await draw();
            }, { class: "small danger" }),
          ]],
        ], rows, "Nobody listens here now.", { caption: "Connected devices" }),
        count > rows.length && h("p.quiet", null, `${number(rows.length)} of ${number(count)} are shown.`));
    };
    await draw();
    const all = (await get("subscriptions")).subscriptions;
    fill(subscriptions, table([
      ["User", (row) => h("code", { title: row.user }, short(row.user, 20))], ["Database", (row) => row.database],
      ["Kind", (row) => h("span.badge", null, row.kind)], ["Of", (row) => row.kind === "query" ? `${row.recordType}${row.zone ? ` in ${row.zone}` : ""}` : row.zone ?? "all"],
      ["ID", (row) => h("code", { title: row.id }, short(row.id, 24))], ["", (row) => row.firesOnce ? "fires once" : ""],
    ], all, "Nobody subscribes to anything here.", { caption: "Subscriptions" }),
    all.length === 500 && h("p.quiet", null, "The first 500 are shown."));
    shell.every(3_000, signal, draw);
  },
};
