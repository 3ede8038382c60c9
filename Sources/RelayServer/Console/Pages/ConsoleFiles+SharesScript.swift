extension ConsoleFiles {
    /// Who shares with whom.
    static let sharesScript = #"""
        // Who shares with whom. Titles and addresses are the owners' own and not shown.

        import { get } from "./api.js";
        import { fill, h, table } from "./dom.js";
        import { short } from "./format.js";

        const words = { NONE: "nothing", READ_ONLY: "read", READ_WRITE: "read and write" };

        /** @type {import("./sections.js").Page} */
        export const shares = {
          id: "shares", title: "Shares", key: "h",
          about: "Zones and hierarchies that people share: participants, roles, states. Only an owner changes them.",
          command: ({ container, environment }) => `shares list --container ${container} --environment ${environment}`,

          async show(body) {
            const { shares: rows } = await get("shares");
            fill(body, table([
              ["Zone", (share) => share.zone], ["Owner", (share) => h("code", { title: share.owner }, short(share.owner, 20))],
              ["What", (share) => (share.isZoneWide ? "the whole zone" : "a hierarchy")],
              ["Link", (share) => share.publicPermission === "NONE" ? h("span.badge", null, "invited only")
                : h("span.badge.warn", null, `anybody: ${words[share.publicPermission]}`)],
              ["Participants", (share) => h("ul.steps", null, share.participants.map((one) => h("li", null,
                h("code", { title: one.user ?? "" }, one.user ? short(one.user, 16) : "invited"), " ",
                h(one.hasAccepted ? "span.badge.good" : "span.badge", null, one.hasAccepted ? "accepted" : "pending"), " ",
                words[one.permission], one.role === "ADMINISTRATOR" ? ", administrator" : one.role === "PUBLIC_USER" ? ", by the link" : "")))],
            ], rows, "Nobody shares anything here.", { caption: "Shares" }), rows.length === 200 && h("p.quiet", null, "The newest 200 are shown."));
          },
        };

        """#
}
