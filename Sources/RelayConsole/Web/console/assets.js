// The Assets page: counts and sizes of assets, and unused ones. Shows no contents.

import { get, post } from "./api.js";
import { button, fill, h, say, table } from "./dom.js";
import { bytes, counted, number } from "./format.js";

const card = (value, name) => h("div.card", null, h("b", null, value), h("span", null, name));

/** @type {import("./sections.js").Page} */
export const assets = {
  id: "assets", title: "Assets",
  about: "Of all databases of this container, as numbers. Those of public records are shown with their records.",
  command: ({ container, environment, data }) => `assets list --container ${container} --environment ${environment} --data ${data}`,

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
      now.missing > 0 && h("div.trouble", null, `${number(now.missing)} that records use are not on the disk. A backup has them.`),
      h("div.cards", null, card(number(now.count), "assets"), card(bytes(now.bytes), "in all"),
        card(number(now.unused), "used by no record"), card(bytes(now.unusedBytes), "the relay will free")),
      now.unused > 0 && h("div.bar", null, button("Free them now", async () => {
        const { removed } = await post("assets/collect");
        say(removed ? `${counted(removed, "asset is", "assets are")} removed.` : "None could go yet: they may still be on their way into a record.");
        await shell.show();
      }, { id: "collect" })),
      h("p.quiet", null, "The same content is kept once. What no record uses goes an hour after assets.upload-lifetime and assets.receipt-lifetime are over."),
      h("h2", null, "By size"),
      now.count ? table([
        ["Size", (size) => size.name], ["Assets", (size) => number(size.count), "number"], ["Bytes", (size) => bytes(size.bytes), "number"],
        ["", (size) => h("progress.meter", { value: size.bytes, max: most, "aria-label": `${Math.round((100 * size.bytes) / most)} percent of the largest group` })],
      ], sizes, "", { caption: "Assets by size" }) : h("p.empty", null, "Nothing was uploaded here yet."),
      now.largest.length > 0 && h("p.quiet", null, `The largest: ${now.largest.slice(0, 5).map((size) => bytes(size)).join(", ")}.`));
  },
};
