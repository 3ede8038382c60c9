// The Devices page: connected devices, counts of sent, merged and dropped notices, and subscriptions.

import { get, post } from "./api.js";
import { button, confirmed, fill, h, say, table } from "./dom.js";
import { number, short, span } from "./format.js";

/** @type {import("./sections.js").Page} */
export const devices = {
  id: "devices", title: "Devices", key: "d",
  about: "Devices connected by socket or long poll, the notices sent to them, and subscriptions.",
  command: ({ container, environment, url }) => `zone changes --follow --container ${container} --environment ${environment} --url ${url} --json`,

  async show(body, { shell, signal }) {
    const now = h("div");
    const subscriptions = h("div");
    fill(body, now, h("p.quiet", null, "Devices without a connection are woken by ", h("a", { href: shell.link("push") }, "push services"), "."), h("h2", null, "Subscriptions"), subscriptions);

    const draw = async () => {
      const { devices: rows, count, sent, waiting, merged, dropped } = await get("devices");
      fill(now,
        h("div.cards", null, [[count, "connected devices here"], [sent, "notices sent, all containers"], [waiting, "queued for slow clients"],
          [merged, "merged with later ones"], [dropped, "dropped with a connection"]].map(([value, name]) =>
          h("div.card", null, h("b", null, number(value)), h("span", null, name)))),
        h("p.quiet", null, "A queued notice is merged with a later one for the same zone. A dropped notice loses no data: a device that reconnects is told which zones changed."),
        h("h2", null, "Connected devices"),
        table([
          ["User", (row) => h("a", { href: shell.link("users", { words: row.user }), title: row.user }, h("code", null, short(row.user)))],
          ["Device", (row) => h("code", { title: row.device }, short(row.device))],
          ["Connection", (row) => row.seconds === null || row.seconds === undefined ? "long poll" : "socket"],
          ["Duration", (row) => row.seconds === null || row.seconds === undefined ? "" : span(row.seconds), "number"],
          ["Sent", (row) => number(row.sent), "number"], ["Merged", (row) => number(row.merged), "number"],
          ["Dropped", (row) => number(row.dropped), "number"], ["Subscriptions", (row) => number(row.subscriptions), "number"],
          ["", (row) => [
            button("Test notice", async () => {
              await post("devices/notice", { user: row.user, device: row.device });
              say(row.subscriptions ? "A notice was sent to this user's devices." : "This user has no subscription, so nothing was sent.", !row.subscriptions);
            }, { class: "small" }), " ",
            button("Disconnect…", async () => {
              if (!await confirmed("Disconnect this device?", "The device may reconnect at once. It is then told which zones changed.", "Disconnect")) return;
              await post("devices/disconnect", { user: row.user, device: row.device });
              say("The device is disconnected.");
              await draw();
            }, { class: "small danger" }),
          ]],
        ], rows, "No connected devices.", { caption: "Connected devices" }),
        count > rows.length && h("p.quiet", null, `${number(rows.length)} of ${number(count)} are shown.`));
    };
    await draw();
    const all = (await get("subscriptions")).subscriptions;
    fill(subscriptions, table([
      ["User", (row) => h("code", { title: row.user }, short(row.user, 20))], ["Database", (row) => row.database],
      ["Kind", (row) => h("span.badge", null, row.kind)], ["Target", (row) => row.kind === "query" ? `${row.recordType}${row.zone ? ` in ${row.zone}` : ""}` : row.zone ?? "all"],
      ["ID", (row) => h("code", { title: row.id }, short(row.id, 24))], ["", (row) => row.firesOnce ? "fires once" : ""],
    ], all, "No subscriptions yet.", { caption: "Subscriptions" }),
    all.length === 500 && h("p.quiet", null, "The first 500 are shown."));
    shell.every(3_000, signal, draw);
  },
};
