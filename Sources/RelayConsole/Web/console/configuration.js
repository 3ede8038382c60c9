// The Configuration page: every setting with its value, origin and meaning.

import { get } from "./api.js";
import { button, download, fill, h, table } from "./dom.js";

/** Returns a setting's value with its unit. Secrets have no value here. */
function value({ value, unit }) {
  if (value === null || value === undefined) return "hidden";
  return value ? [value, unit && h("span.quiet", null, ` ${unit}`)] : "–";
}

/** @type {import("./sections.js").Page} */
export const configuration = {
  id: "configuration", title: "Configuration", key: "n",
  about: "All settings of this relay. Edit them in its file, environment or flags; the relay reads them when it starts.",
  command: () => "config show --origin",

  async show(body, { shell, parameters }) {
    const { settings } = await get("configuration");
    const search = h("input", { type: "search", value: parameters.get("words") ?? "", placeholder: "part of a key or its meaning", "aria-label": "Search settings" });
    const own = h("input", { type: "checkbox" });
    const list = h("div");
    shell.search = search;
    const draw = () => {
      const words = search.value.toLowerCase();
      fill(list, table([
        ["Key", (one) => one.key, "mono"], ["Value", value, "wrap tight"],
        ["Origin", (one) => one.origin === "default" ? h("span.quiet", null, "default") : h("span.badge.accent", null, one.origin)],
        ["Default", (one) => one.origin === "default" ? "" : one.standard || "–", "wrap tight"], ["Meaning", (one) => one.meaning, "wrap wide"],
      ], settings.filter((one) => `${one.key} ${one.meaning}`.toLowerCase().includes(words) && !(own.checked && one.origin === "default")),
      "No setting matches.", { caption: "Settings" }));
    };
    search.addEventListener("input", draw);
    own.addEventListener("change", draw);
    fill(body, h("div.bar", null, search, h("label.check", null, own, "only non-default values"),
      button("Export", () => download("zonecast.yaml", "text/yaml",
        settings.map((one) => `${one.origin === "default" ? "# " : ""}${one.key}: ${one.value ?? ""}\n`).join("")))), list);
    draw();
  },
};
