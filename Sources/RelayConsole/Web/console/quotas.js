// The Quotas page: storage used and its limits, rate limits, and the users who reach them.

import { get, post } from "./api.js";
import { button, dialog, field, fill, guarded, h, say, select, table } from "./dom.js";
import { bytes, number, short, span } from "./format.js";
import { quota as quotaOfUser } from "./users.js";

const KINDS = [
  ["publicRecords", "public records"], ["publicAssets", "public assets"], ["publicTransfer", "sent this month"],
  ["privateBytes", "a user's private database"],
];

function meter(name, { used, limit, own }) {
  const isOwn = own !== null && own !== undefined && h("small.quiet", null, "set for this container");
  if (used === null || used === undefined) return h("div.card", null, h("span", null, name), h("b", null, limit ? bytes(limit) : "no limit"), isOwn);
  return h("div.card", null, h("span", null, name), h("b", null, bytes(used)),
    limit ? [h("progress.meter", { value: used, max: limit, "aria-label": `${name}: ${bytes(used)} of ${bytes(limit)}` }), h("span", null, `of ${bytes(limit)}`)]
      : h("span", null, "no limit"), " ", isOwn);
}

/** Shows a dialog that sets the container's quotas. Resolves to whether they were changed. */
function change(now, place) {
  return dialog(`Edit quotas of ${place.container}, ${place.environment}`, (done) => {
    const rows = KINDS.map(([key, name]) => {
      const { own, limit, configured } = now[key];
      const standard = `as configured (${configured ? bytes(configured) : "no limit"})`;
      const kind = select([["standard", standard], ["own", "custom, in megabytes"], ["any", "no limit"]],
        own === 0 ? "any" : own ? "own" : "standard", { "aria-label": `${name}: limit` });
      const size = h("input", { type: "number", min: 0.001, step: "any", "aria-label": `${name}: megabytes`, value: (own || limit || 1e9) / 1e6, required: true });
      const fit = () => { size.hidden = kind.value !== "own"; size.disabled = size.hidden; };
      kind.addEventListener("change", fit);
      fit();
      const read = () => kind.value === "standard" ? null : kind.value === "any" ? 0 : Math.max(1, Math.round(Number(size.value) * 1e6));
      return { key, read, view: h("div.row.tokens", null, h("div.grow", null, field(name === "sent this month" ? "sent in a month" : name, kind)), size) };
    });
    return h("form", { id: "container-quota", onsubmit: guarded(async (event) => {
      event.preventDefault();
      await post("quotas/container", Object.fromEntries(rows.map(({ key, read }) => [key, read()])));
      say("The relay applies the change within a second.");
      done(true);
    }) },
    h("p.quiet", null, "Users above a new quota keep their data but cannot store more. A custom quota does not grow with the number of users."),
    rows.map(({ view }) => view), h("div.actions", null, h("button.strong", { type: "submit" }, "Save")));
  });
}

const WHO = { user: "user", address: "address", account: "account", anyone: "not signed in" };

function rates(view, shell, { rates: rows, hits }) {
  const meaning = (id) => rows.find((row) => row.id === id)?.meaning ?? id;
  fill(view,
    h("h2", null, "Rate limits"),
    table([
      ["Rate", (row) => row.meaning, "wrap"],
      ["Limit", (row) => row.settings.map(({ key, value }, index) => [index > 0 && h("br"),
        value === "0" ? "no limit" : value || "–", " ", h("code", null, key)])],
      ["Refused in 24 h", (row) => row.refused ? h("span.badge.warn", null, number(row.refused)) : "0", "number"],
    ], rows, "", { caption: "Rate limits" }),
    h("p.quiet", null, "Rate limits apply to all containers. Edit them in the configuration (",
      h("a", { href: shell.link("configuration", { words: "limits." }) }, "Configuration"), ") and restart the relay."),
    h("h2", null, "Throttled callers"),
    table([
      ["Caller", (hit) => [h("span.badge", null, WHO[hit.kind] ?? hit.kind), " ",
        hit.kind === "user" ? h("a", { href: shell.link("logs", { user: hit.who, everywhere: "1" }), title: "Show this user's requests" }, h("code", null, hit.who)) : h("code", null, hit.who)]],
      ["Rate", (hit) => meaning(hit.rate), "wrap"],
      ["Refused", (hit) => number(hit.count), "number"],
      ["Last", (hit) => `${span(hit.seconds)} ago`, "number"],
    ], hits, "No caller was throttled in the last 24 hours.", { caption: "Throttled callers" }),
    hits.length > 0 && h("p.quiet", null, "Users have the same pseudonyms as in the log, where ", h("code", null, "zonecast log show --user"), " finds a user's requests. Addresses and accounts have other pseudonyms, which cannot be resolved."));
}

/** @type {import("./sections.js").Page} */
export const quotas = {
  id: "quotas", title: "Quotas and limits", key: "q",
  about: "Storage and transfer with their quotas, rate limits, and the callers that exceed them.",
  command: ({ container, environment, data }) => `container quota ${container} --environment ${environment} --data ${data}`,

  async show(body, { shell, signal }) {
    const now = await get("quotas");
    const [container, environment] = shell.address();
    const below = h("div");
    fill(body,
      h("div.cards", null, KINDS.map(([key, name]) => meter(name, now[key]))),
      h("div.bar", null, button("Edit quotas…", async () => { if (await change(now, { container, environment })) await shell.show(); }, { class: "strong", id: "change-quota" }),
        h("small.quiet", null, "Defaults are set in the configuration: ", h("a", { href: shell.link("configuration", { words: "quota." }) }, "quota.…"))),
      h("h2", null, now.users === 1 ? "1 user" : `${number(now.users)} users, largest first`),
      table([
        ["User", (row) => [row.name ? h("a", { href: shell.link("users", { id: row.id }) }, row.name) : "", " ", h("code", { title: row.user }, short(row.user))]],
        ["Zones", (row) => h("a", { href: shell.link("zones", { words: row.user }) }, number(row.zones)), "number"],
        ["Private database", (row) => bytes(row.bytes), "number"],
        ["Quota", (row) => [row.limit ? bytes(row.limit) : "no limit", (row.own ?? null) !== null && h("small.quiet", null, " (set for this user)")], "number"],
        ["", (row) => row.limit ? h("progress.meter", { value: row.bytes, max: row.limit, "aria-label": `${Math.round((100 * row.bytes) / row.limit)} percent` }) : ""],
        ["", (row) => row.id ? button("Edit…", async () => {
          if (await quotaOfUser({ id: row.id, name: row.name }, row.own)) await shell.show();
        }, { class: "small", "aria-label": `Edit the quota of ${row.name}` }) : ""],
      ], now.owners, "No user has a private database here.", { caption: "Users by size" }),
      below);
    const draw = async () => rates(below, shell, await get("rates"));
    await draw();
    shell.every(10_000, signal, draw);
  },
};
