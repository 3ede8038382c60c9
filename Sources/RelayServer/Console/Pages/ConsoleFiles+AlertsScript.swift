extension ConsoleFiles {
    /// Alerts: what is watched, how it stands, how it stood in the last hour.
    static let alertsScript = #"""
        // Alerts: what is watched, how it stands, how it stood in the last hour.

        import { get } from "./api.js";
        import { fill, h, table } from "./dom.js";
        import { bytes, number, took } from "./format.js";

        /** A value in its rule's unit. */
        function shown(value, unit) {
          if (value === null || value === undefined) return "–";
          if (unit === "bytes") return bytes(value);
          if (unit === "milliseconds") return took(value);
          if (unit === "percent") return `${value < 10 ? value.toFixed(1) : Math.round(value)} %`;
          if (unit === "days") return value < 2 ? `${Math.round(value * 24)} h` : `${Math.round(value)} days`;
          return number(Math.round(value));
        }

        /** A bar for each minute of the hour: empty where nothing is known, high and red where it would have been an alert. */
        function strip(rule) {
          if (!rule.isOverTime) return h("small.quiet", null, "as it is now");
          if (!rule.past.length) return h("small.quiet", null, "known in a minute");
          const isBad = (value) => value !== null && (rule.isAboveBad ? value > rule.limit : value < rule.limit);
          const bad = rule.past.filter(isBad).length;
          return h("svg.strip", { viewBox: "0 0 120 18", role: "img", "aria-label": `${bad} of the last ${rule.past.length} minutes over the limit` },
            rule.past.map((value, index) => h(isBad(value) ? "rect.bad" : "rect", {
              x: (60 - rule.past.length + index) * 2, width: 1.5, y: isBad(value) ? 1 : value === null ? 15 : 10, height: isBad(value) ? 17 : value === null ? 3 : 8,
            })));
        }

        /** @type {import("./sections.js").Page} */
        export const alerts = {
          id: "alerts", title: "Alerts", key: "w",
          about: "What somebody should be told of, judged by the relay's own numbers. To be told while nobody looks, let Prometheus ask: Deploy/monitoring has the same rules.",
          command: () => "doctor",

          async show(body, { shell, signal }) {
            const draw = async () => {
              const { rules } = await get("alerts");
              const firing = rules.filter((rule) => rule.isFiring);
              fill(body,
                firing.length ? h("div.trouble", null, firing.length === 1 ? "One alert." : `${firing.length} alerts.`)
                  : h("p", null, h("b.added", null, "✓ "), "All is as it should be."),
                table([
                  ["State", (rule) => rule.isFiring ? h("span.badge.bad", null, "alert") : rule.value === null || rule.value === undefined ? h("span.badge", null, "nothing yet") : h("span.badge.good", null, "good")],
                  ["What", (rule) => [h("b", null, rule.name), h("br"), h("small.quiet", null, rule.meaning)], "wrap"],
                  ["Now", (rule) => shown(rule.value, rule.unit), "number"],
                  [ "Alert", (rule) => `${rule.isAboveBad ? "over" : "under"} ${shown(rule.limit, rule.unit)}`, "number"],
                  ["Last hour", strip],
                  ["What to do", (rule) => rule.action, "wrap"],
                ], rules, "Nothing is watched.", { caption: "Alerts", mark: (rule) => (rule.isFiring ? "bad" : undefined) }));
            };
            await draw();
            shell.every(10_000, signal, draw);
          },
        };

        """#
}
