extension ConsoleFiles {
    /// How much there is, of how much there may be.
    static let quotasScript = #"""
        // How much there is, of how much there may be.

        import { get } from "./api.js";
        import { fill, h, table } from "./dom.js";
        import { bytes, number, short } from "./format.js";

        function meter(name, value, limit) {
          return h("div.card", null, h("span", null, name), h("b", null, bytes(value)),
            limit ? [h("progress.meter", { value, max: limit, "aria-label": `${name}: ${bytes(value)} of ${bytes(limit)}` }), h("span", null, `of ${bytes(limit)}`)]
              : h("span", null, "no limit"));
        }

        /** @type {import("./sections.js").Page} */
        export const quotas = {
          id: "quotas", title: "Quotas", key: "q",
          about: "What is stored and sent, as quotas count it. The limits are settings (quota.…).",
          command: ({ container, environment }) => `container usage ${container} --environment ${environment}`,

          async show(body, { shell }) {
            const now = await get("quotas");
            fill(body,
              h("div.cards", null,
                meter("public records", now.publicRecords, now.publicRecordsLimit),
                meter("public assets", now.publicAssets, now.publicAssetsLimit),
                meter("sent this month", now.sent, now.sentLimit),
                h("div.card", null, h("span", null, "a user's private database"), h("b", null, now.privateLimit ? bytes(now.privateLimit) : "no limit"), h("span", null, now.users === 1 ? "1 user" : `${number(now.users)} users`))),
              h("h2", null, "Who holds most"),
              table([
                ["User", (row) => h("a", { href: shell.link("users", { words: row.user }), title: row.user }, h("code", null, short(row.user, 24)))],
                ["Zones", (row) => h("a", { href: shell.link("zones", { words: row.user }) }, number(row.zones)), "number"],
                ["Private database", (row) => bytes(row.bytes), "number"],
                ["", (row) => now.privateLimit ? h("progress.meter", { value: row.bytes, max: now.privateLimit, "aria-label": `${Math.round((100 * row.bytes) / now.privateLimit)} percent` }) : ""],
              ], now.owners, "Nobody has a private database here.", { caption: "Users by size" }));
          },
        };

        """#
}
