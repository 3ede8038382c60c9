// The Changes page: the live change log of one zone, and the changes a device with a given sync token would receive.

import { get, post } from "./api.js";
import { button, copyable, field, fill, h, loading, table } from "./dom.js";
import { bytes, counted, moment, number, short } from "./format.js";

/** @type {import("./dom.js").Column[]} */
const columns = [
  ["Change", (row) => number(row.change), "number"], ["Tag", (row) => row.changeTag, "mono"],
  ["Record", (row) => h("code", { title: "A pseudonym that distinguishes records. Names of private records are not shown." }, row.mark)],
  ["Type", (row) => row.recordType],
  ["Kind", (row) => row.isDeleted ? h("span.badge.bad", null, "deleted") : h("span.badge.good", null, "saved")],
  ["Time", (row) => moment(row.modified)], ["By", (row) => h("code", { title: row.modifiedBy }, short(row.modifiedBy))],
  ["Device", (row) => h("code", null, row.device)], ["Bytes", (row) => bytes(row.bytes), "number"],
];

/** @type {import("./sections.js").Page} */
export const changes = {
  id: "changes", title: "Changes", key: "c",
  about: "The live change log of a zone, including tombstones. It shows the user, time and size of each change, never the contents.",
  command: ({ container, environment, url }) => `record changes --zone NAME --container ${container} --environment ${environment} --url ${url}`,

  async show(body, { shell, parameters, signal }) {
    const [zone, owner] = [parameters.get("zone"), parameters.get("owner")];
    if (!zone || !owner) return choose(body, shell);
    const list = h("div", null, loading());
    const head = h("p", null);
    const token = h("div");
    let isLive = true;
    const live = button("Live", () => {
      isLive = !isLive;
      live.setAttribute("aria-pressed", String(isLive));
    }, { "aria-pressed": "true", title: "Refreshes every two seconds" });
    fill(body, h("div.bar", null, h("strong", null, zone), h("code", { title: owner }, short(owner, 18)), live,
      h("a", { href: shell.link("changes") }, "Choose another zone")), head, list, question(zone, owner), h("h3", null, "The zone's current token"), token);

    let known = new Set();
    let last;
    const draw = async () => {
      if (!isLive && last !== undefined) return;
      const feed = await get("changes", { zone, owner, limit: 50 });
      if (feed.lastChange === last) return;
      const isFirst = last === undefined;
      last = feed.lastChange;
      const fresh = feed.records.filter((row) => !known.has(row.change)).map((row) => row.change);
      known = new Set(feed.records.map((row) => row.change));
      fill(head, `Last change: ${number(feed.lastChange)}.`);
      fill(token, copyable(feed.token));
      fill(list, table(columns, feed.records, "No changes in this zone yet.", {
        caption: "Changes, newest first",
        mark: (row) => (!isFirst && fresh.includes(row.change) ? "new" : row.isDeleted ? "off" : undefined),
      }));
    };
    await draw();
    shell.every(2_000, signal, draw);
  },
};

/**
 * A form that asks for a sync token and shows the changes a device with it would receive.
 * @param {string} zone
 * @param {string} owner
 */
function question(zone, owner) {
  const token = h("input", { type: "text", spellcheck: "false", autocomplete: "off", placeholder: "empty: a device without data" });
  const answer = h("div", { "aria-live": "polite" });
  const ask = async (syncToken) => {
    try {
      const page = await post("changes/since", { zone: { zoneName: zone, owner }, syncToken });
      fill(answer,
        h("p", null, counted(page.records.length, "record"), page.moreComing ? ". More pages follow." : ". After them the device is up to date."),
        table(columns, page.records, "No changes: this device is up to date.", { caption: "Changes that the device would receive" }),
        h("h3", null, "The device's token afterwards"), copyable(page.token),
        page.moreComing && button("Next page", () => ask(page.token)));
    } catch (error) {
      fill(answer, h("p.trouble", null, error.message === "client knowledge differs from server knowledge"
        ? "CHANGE_TOKEN_EXPIRED: the token belongs to another zone or is older than a restore, so the device would fetch everything again."
        : error.message));
    }
  };
  return h("section.panel", null, h("h2", null, "Changes since a token"),
    h("form.row", { onsubmit: (event) => { event.preventDefault(); ask(token.value.trim()); } },
      h("div.grow", null, field("Sync token", token)), h("button", { type: "submit" }, "Show changes")), answer);
}

/** Lists the zones that have a change feed, to choose one. */
async function choose(body, shell) {
  const { zones } = await get("zones", { limit: 100 });
  fill(body, h("p", null, "Choose a zone. The public database has no change feed; apps query it by ",
    h("code", null, "___modTime"), ", as the Records page does."),
  table([
    ["Zone", (zone) => h("a", { href: shell.link("changes", { zone: zone.zoneName, owner: zone.owner }), title: zone.zoneName }, zone.zoneName), "name"],
    ["Owner", (zone) => h("code", { title: zone.owner }, short(zone.owner))],
    ["Last written", (zone) => moment(zone.modified)],
  ], zones.filter((zone) => zone.tracksChanges), "No zones with a change feed yet. Apps create them in private databases.", { caption: "Zones" }));
}
