// The Overview page: the relay's state, and suggested next steps.

import { get, place, post } from "./api.js";
import { button, dialog, field, fill, guarded, h, table } from "./dom.js";
import { ago, bytes, moment, number, span, took } from "./format.js";

const card = (value, name, link) => h("div.card", null, h("b", null, value),
  h("span", null, link ? h("a", { href: link }, name) : name));

/** Shows a dialog that sets the container's display name. Resolves to whether it was set. */
const displayName = (title) => dialog(`Display name of ${place.container}`, (done) => {
  const name = h("input", { type: "text", maxlength: 100, value: title ?? "" });
  return h("form", { onsubmit: guarded(async (event) => {
    event.preventDefault();
    await post("containers/name", { name: name.value });
    done(true);
  }) }, field("Display name", name, "Users see it on the sign-in and share pages. Empty: they see the container's ID."),
  h("div.actions", null, h("button.strong", { type: "submit" }, "Save")));
});

/** @type {import("./sections.js").Page} */
export const overview = {
  id: "overview", title: "Overview", key: "o",
  about: "The state of this container and environment, and of the relay.",
  command: ({ container, environment, data }) => `container show ${container} --environment ${environment} --data ${data}`,

  async show(body, { shell, signal }) {
    const draw = async () => {
      const now = await get("overview");
      const { totals, lastHour, gauges } = now;
      shell.learn(now.containers);
      fill(body, now.problems.map((problem) => h("p.trouble", { role: "alert" }, problem)),
        now.findings.filter((one) => one.isProblem).map((one) => h("p.trouble", { role: "alert" }, h("b", null, one.check), `: ${one.found}. `, one.next)),
        h("div.cards", null,
          card(number(totals.users), "users", shell.link("users")),
          card(number(totals.zones), "zones", shell.link("zones")),
          card(bytes(totals.recordBytes + totals.assetBytes), "records and assets", shell.link("quotas")),
          card(number(now.devices), "connected devices", shell.link("devices")),
          card(number(totals.subscriptions), "subscriptions", shell.link("devices")),
          card(number(totals.shares), "shares", shell.link("shares"))),
        h("h2", null, "The relay, last hour"),
        h("div.cards", null,
          card(number(lastHour.requests), "requests", shell.link("telemetry")),
          card(number(lastHour.errors), "refused", shell.link("logs", { errors: "1" })),
          card(took(lastHour.median), "requests p50"),
          card(took(lastHour.slowest), "requests p99"),
          card(number(lastHour.notices), "notices sent"),
          card(took(lastHour.noticeMedian), "notices p50"),
          card(took(lastHour.noticeSlowest), "notices p99"),
          card(bytes(gauges.zonecast_disk_free_bytes), "free on disk")),
        h("div.two", null,
          h("section.panel", null, h("h2", null, "Next steps"),
            h("ul.steps", null, now.steps.map((step) => h(step.isDone ? "li.done" : "li", null,
              step.isDone ? "✓ " : "○ ", step.isDone ? step.text : h("a", { href: shell.link(step.page) }, step.text))))),
          h("section.panel", null, h("h2", null, "State"), h("dl.facts", null,
            h("dt", null, "Display name"), h("dd", null, now.title ?? "none", " ",
              button("Edit…", async () => { if (await displayName(now.title)) await draw(); }, { class: "small", id: "edit-name" })),
            h("dt", null, "Version"), h("dd", null, now.version),
            h("dt", null, "Uptime"), h("dd", null, `${span((Date.now() - now.started) / 1000)}`),
            h("dt", null, "Backups"), h("dd", null, h("a", { href: shell.link("backups") },
              now.backups.latest ? `${now.backups.count}, latest ${ago(now.backups.latest)}` : "none yet"),
              now.backups.schedule ? `, ${now.backups.schedule}` : ", no schedule"),
            h("dt", null, "Schema"), h("dd", null, now.schemaChanges
              ? h("a", { href: shell.link("promote") }, `${now.schemaChanges} changes not yet in production`)
              : "development and production are equal"),
            h("dt", null, "Memory"), h("dd", null, bytes(gauges.zonecast_process_resident_bytes)),
            h("dt", null, "Sockets"), h("dd", null, number(now.connections))))),
        now.findings.length > 0 && h("section.panel", null, h("h2", null, "Doctor results"),
          h("ul.steps", null, now.findings.map((one) => h("li", null,
            h(one.isProblem ? "b.removed" : one.isAdvice ? "b.changed" : "b.added", null, one.isProblem ? "✘ " : one.isAdvice ? "! " : "✓ "),
            h("b", null, one.check), ` ${one.found}`, one.next && one.isAdvice && [h("br"), h("small.quiet", null, "→ ", one.next)]))),
          h("p.quiet", null, "These checks cover the data folder. To check the address, the certificate and a round trip too, run ", h("code", null, "zonecast doctor"), ".")),
        h("h2", null, "Recent actions"),
        table([
          ["Time", (entry) => moment(entry.at)], ["Actor", (entry) => entry.actor],
          ["Action", (entry) => h("code", null, entry.action)], ["Subject", (entry) => entry.subject, "wrap"],
        ], now.audit, "No actions yet.", { caption: "Audit log" }));
    };
    await draw();
    shell.every(10_000, signal, draw);
  },
};
