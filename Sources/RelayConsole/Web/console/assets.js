// The Assets page: counts and sizes of assets, and unused ones. Shows no contents.

import { get, post } from "./api.js";
import { button, fill, h, say, table } from "./dom.js";
import { bytes, counted, number } from "./format.js";

const card = (value, name) => h("div.card", null, h("b", null, value), h("span", null, name));

/** @type {import("./sections.js").Page} */
export const assets = {
  id: "assets", title: "Assets",
  about: "Counts and sizes of the assets in all databases of this container. The Records page shows assets of public records.",
  command: ({ container, environment, data }) => `asset list --container ${container} --environment ${environment} --data ${data}`,

  async show(body, { shell }) {
    const now = await get("assets");
    const most = Math.max(...now.sizes.map((size) => size.bytes), 1);
    let from = 0;
    const sizes = now.sizes.map((size) => {
      const name = size.upTo === null || size.upTo === undefined ? `over ${bytes(from)}` : `up to ${bytes(size.upTo)}`;
      from = size.upTo ?? from;
      return { ...size, name };
    });
    fill(body,
      now.missing > 0 && h("div.trouble", null, `${number(now.missing)} assets that records use are missing on disk. Backups may contain them.`),
      h("div.cards", null, card(number(now.count), "assets"), card(bytes(now.bytes), "total"),
        card(number(now.unused), "unused"), card(bytes(now.unusedBytes), "unused bytes")),
      now.unused > 0 && h("div.bar", null, button("Delete unused assets", async () => {
        const { removed } = await post("assets/collect");
        say(removed ? `${counted(removed, "asset is", "assets are")} deleted.` : "No asset is deleted: unused assets can still be saved in a record for some time.");
        await shell.show();
      }, { id: "collect" })),
      h("p.quiet", null, "Identical contents are stored once. The relay deletes an unused asset an hour after assets.upload-lifetime and assets.receipt-lifetime have expired."),
      h("h2", null, "By size"),
      now.count ? table([
        ["Size", (size) => size.name], ["Assets", (size) => number(size.count), "number"], ["Bytes", (size) => bytes(size.bytes), "number"],
        ["", (size) => h("progress.meter", { value: size.bytes, max: most, "aria-label": `${Math.round((100 * size.bytes) / most)} percent of the largest group` })],
      ], sizes, "", { caption: "Assets by size" }) : h("p.empty", null, "No assets yet."),
      now.largest.length > 0 && h("p.quiet", null, `The largest: ${now.largest.slice(0, 5).map((size) => bytes(size)).join(", ")}.`));
  },
};
