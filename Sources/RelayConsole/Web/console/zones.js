// The Zones page: zones of all databases with owner, size and last change number.

import { get, isProduction, place, post } from "./api.js";
import { button, confirmed, dialog, field, fill, guarded, h, say, table } from "./dom.js";
import { ago, bytes, moment, number, short, upTo } from "./format.js";

/** Shows a dialog that creates a zone in a user's private database. Resolves to whether it was created. */
function make() {
  return dialog("Create zone", (done) => {
    const name = h("input", { type: "text", required: true, maxlength: 255, spellcheck: "false", placeholder: "Notes" });
    const owner = h("input", { type: "text", required: true, spellcheck: "false", autocomplete: "off", placeholder: "_0f88b66c…", pattern: "_[0-9a-f]{32}" });
    return h("form", { id: "zone-form", onsubmit: guarded(async (event) => {
      event.preventDefault();
      await post("zones/create", { zoneName: name.value, owner: owner.value.trim() });
      say(`${name.value} is created.`);
      done(true);
    }) }, field("Name", name), field("User record name", owner, "The owner of the private database, as shown on the Users page. The public database has only one zone."),
    h("div.actions", null, h("button.strong", { type: "submit" }, "Create")));
  });
}

/** @type {import("./sections.js").Page} */
export const zones = {
  id: "zones", title: "Zones", key: "z",
  about: "Names, sizes and positions in the change log. Only the owner and participants see the contents of a private zone.",
  command: ({ container, environment, url }) => `zone list --container ${container} --environment ${environment} --url ${url}`,

  async show(body, { shell, parameters }) {
    const words = h("input", { type: "search", placeholder: "zone or user", value: parameters.get("words") ?? "", "aria-label": "Search zones" });
    const list = h("div");
    shell.search = words;
    fill(body, h("div.bar", null, h("form.bar", { role: "search", onsubmit: (event) => {
      event.preventDefault();
      shell.go("zones", { words: words.value });
    } }, words, h("button", { type: "submit" }, "Search")),
    button("Create zone…", async () => { if (await make()) await load(); }, { id: "new-zone" })), list);

    let rows = [];
    const load = async (before) => {
      const page = await get("zones", { words: parameters.get("words"), before, limit: 50 });
      rows = before ? [...rows, ...page.zones] : page.zones;
      fill(list, table([
        ["Zone", (zone) => zone.tracksChanges ? h("a", { href: shell.link("changes", { zone: zone.zoneName, owner: zone.owner }), title: zone.zoneName }, zone.zoneName)
          : zone.database === "public" ? h("a", { href: shell.link("records") }, zone.zoneName) : zone.zoneName, "name"],
        ["Database", (zone) => h(zone.database === "public" ? "span.badge.accent" : "span.badge", null, zone.database)],
        ["Owner", (zone) => zone.database === "public" ? "" : h("a", { href: shell.link("users", { words: zone.owner }), title: zone.owner }, h("code", null, short(zone.owner, 10)))],
        ["Records", (zone) => upTo(zone.records, zone.isMore), "number"],
        ["Size", (zone) => bytes(zone.recordBytes + zone.assetBytes), "number"],
        ["Change", (zone) => number(zone.lastChange), "number"],
        ["Last written", (zone) => h("span", { title: moment(zone.modified) }, zone.modified ? ago(zone.modified) : "–")],
        ["Capabilities", (zone) => [zone.tracksChanges ? h("span", { title: "Has a change feed, supports atomic writes, can be shared" }, "feed, atomic, share") : "query",
          zone.sharing !== "none" && [" ", h("span.badge.accent", null, zone.sharing === "zone" ? "shared" : "partly shared")]]],
        ["", (zone) => zone.tracksChanges && [!isProduction() && button("Reset…", () => reset(zone), { class: "small", "aria-label": `Reset zone ${zone.zoneName}` }), " ", button("Delete…", () => remove(zone), { class: "small danger", "aria-label": `Delete zone ${zone.zoneName}` })]],
      ], rows, parameters.get("words") ? "No zone or user matches." : "No zones yet.", { caption: "Zones" }),
      page.zones.length === 50 && button("More", () => load(rows.at(-1).lastChange)));
    };
    const reset = async (zone) => {
      const isSure = await confirmed(`Reset ${zone.zoneName}?`,
        "This deletes all records of the zone, and participants lose access. The zone stays, as if it was just created. Devices fetch it again.", "Reset zone");
      if (!isSure) return;
      await post("zones/reset", { zoneName: zone.zoneName, owner: zone.owner });
      say(`${zone.zoneName} is reset.`);
      await load();
    };
    const remove = async (zone) => {
      const isSure = await confirmed(`Delete ${zone.zoneName}?`,
        `All records of this zone are deleted on every device of ${zone.owner}, and participants lose access. This cannot be undone.`,
        "Delete zone");
      if (!isSure) return;
      await post("zones/delete", { zoneName: zone.zoneName, owner: zone.owner });
      say(`${zone.zoneName} is deleted from ${place.container}.`);
      await load();
    };
    await load();
  },
};
