extension ConsoleFiles {
    /// Alerts: what is watched, how it stands, how it stood in the last hour.
    static let alertsScript = #"""
        // Alerts: what is watched, how it stands, how it stood in the last hour.

        import { get, post } from "./api.js";
        import { button, dialog, field, fill, guarded, h, say, select, table } from "./dom.js";
        import { bytes, moment, number, took } from "./format.js";

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

        /** Units as they are typed: what the rule counts in, and how many of those one is. */
        const TYPED = { bytes: ["GB", 1e9], milliseconds: ["milliseconds", 1], percent: ["percent", 1], days: ["days", 1] };

        /** Asks for a limit, and for how long to be silent. @returns {Promise<boolean>} */
        async function change(rule) {
          const [unit, scale] = TYPED[rule.unit] ?? ["", 1];
          const limit = h("input", { type: "number", min: 0, step: "any", required: true, value: rule.limit / scale });
          const silence = select([["", "as it is"], ["0", "tell me"], ["1", "silent for an hour"], ["24", "silent for a day"], ["168", "silent for a week"]], "");
          return Boolean(await dialog(rule.name, (done) => h("form", {
            onsubmit: guarded(async (event) => {
              event.preventDefault();
              const wanted = Number(limit.value) * scale;
              if (wanted !== rule.limit) await post("alerts/limit", { rule: rule.id, limit: wanted === (rule.standardLimit ?? rule.limit) ? null : wanted });
              if (silence.value) await post("alerts/mute", { rule: rule.id, hours: Number(silence.value) });
              done(true);
            }),
          },
          h("p.quiet", null, rule.meaning),
          field(`Alert ${rule.isAboveBad ? "over" : "under"}${unit ? `, in ${unit}` : ""}`, limit,
            rule.standardLimit === undefined ? "The usual limit." : `Usually ${shown(rule.standardLimit, rule.unit)}.`),
          field("Messages", silence),
          h("div.actions", null, h("button.strong", { type: "submit" }, "Set")))));
        }

        /** @type {import("./sections.js").Page} */
        export const alerts = {
          id: "alerts", title: "Alerts", key: "w",
          about: "What somebody should be told of, judged by the relay's own numbers. A relay that is dead tells nobody: let Prometheus ask as well, Deploy/monitoring has the same rules.",
          command: ({ data }) => `alerts show --data ${data}`,

          async show(body, { shell, signal }) {
            const draw = async () => {
              const { rules, receiver, fault } = await get("alerts");
              const firing = rules.filter((rule) => rule.isFiring);
              fill(body,
                fault ? h("div.trouble", null, fault) : null,
                firing.length ? h("div.trouble", null, firing.length === 1 ? "One alert." : `${firing.length} alerts.`)
                  : h("p", null, h("b.added", null, "✓ "), "All is as it should be."),
                receiver ? h("div.bar", null, h("span", null, "Told: ", receiver, ". "), button("Send a test", async () => {
                  await post("alerts/test");
                  say("The message was taken.");
                }, { class: "small", id: "test-alert" }))
                  : h("p.quiet", null, "Nobody is told. ", h("code", null, "alerts.webhook"), ", ", h("code", null, "alerts.ntfy"), " or ", h("code", null, "alerts.mail-to"), " in the configuration names a receiver."),
                table([
                  ["State", (rule) => rule.isFiring ? h("span.badge.bad", null, "alert") : rule.value === null || rule.value === undefined ? h("span.badge", null, "nothing yet") : h("span.badge.good", null, "good")],
                  ["What", (rule) => [h("b", null, rule.name), h("br"), h("small.quiet", null, rule.mutedUntil ? `Silent until ${moment(rule.mutedUntil)}. ` : "", rule.meaning)], "wrap"],
                  ["Now", (rule) => shown(rule.value, rule.unit), "number"],
                  [ "Alert", (rule) => `${rule.isAboveBad ? "over" : "under"} ${shown(rule.limit, rule.unit)}`, "number"],
                  ["Last hour", strip],
                  ["What to do", (rule) => rule.action, "wrap"],
                  ["", (rule) => button("Change", async () => { if (await change(rule)) await draw(); }, { class: "small", "aria-label": `Change ${rule.name}` })],
                ], rules, "Nothing is watched.", { caption: "Alerts", mark: (rule) => (rule.isFiring ? "bad" : undefined) }));
            };
            await draw();
            shell.every(10_000, signal, draw);
          },
        };

        """#
}
