// The Push page: push services and the devices registered with them.

import { get, post } from "./api.js";
import { button, copyable, fill, h, table } from "./dom.js";
import { moment, number, short } from "./format.js";

/** @type {import("./sections.js").Page} */
export const push = {
  id: "push", title: "Push gateways", key: "y",
  about: "A push service can wake a device that has no open socket. A push reports that something changed, never what.",
  command: ({ container, environment, data }) => `push list --container ${container} --environment ${environment} --data ${data}`,

  async show(body, { shell, signal }) {
    const verdict = h("div", { "aria-live": "polite", id: "push-verdict" });
    const now = h("div");
    fill(body, now);
    const test = async (row) => {
      fill(verdict, h("p.quiet", null, `Sending a test push by ${row.kind}…`));
      const { taken, sentence } = await post("pushes/test", { id: row.id });
      fill(verdict, h(taken ? "p" : "p.trouble", null, taken && h("b.added", null, "✓ "), sentence));
    };
    const draw = async () => {
      const { services, count, devices: rows, webPushKey } = await get("pushes");
      fill(now,
        table([
          ["Service", (one) => [h("b", null, one.name), one.detail && [h("br"), h("small.quiet", null, one.detail)]], "wrap"],
          ["State", (one) => one.isSetUp ? h("span.badge.good", null, "configured") : h("span.badge", null, "not configured")],
          ["Devices here", (one) => number(one.devices), "number"],
          ["Last error", (one) => one.lastFault ?? "", "wrap"],
          ["Command", (one) => h("code", null, one.command), "wrap"],
        ], services, "", { caption: "Push services", mark: (one) => (one.lastFault ? "bad" : undefined) }),
        webPushKey && [h("h3", null, "applicationServerKey for Web Push subscriptions"), copyable(webPushKey)],
        h("h2", null, "Devices"), verdict,
        table([
          ["User", (row) => h("a", { href: shell.link("users", { words: row.user }), title: row.user }, h("code", null, short(row.user)))],
          ["Device", (row) => h("code", { title: row.device }, short(row.device))],
          ["Service", (row) => h("span.badge", null, row.kind)], ["Registered", (row) => moment(row.registered)],
          ["Last error", (row) => row.lastFault ?? "", "wrap"],
          ["", (row) => button("Test", () => test(row), { class: "small", title: "Sends a push to this device, which fetches and finds no changes", "aria-label": `Test ${row.device}` })],
        ], rows, "No device has registered for pushes.", { caption: "Devices registered for pushes", mark: (row) => (row.lastFault ? "bad" : undefined) }),
        count > rows.length && h("p.quiet", null, `${number(rows.length)} of ${number(count)} are shown.`));
    };
    await draw();
    shell.every(10_000, signal, draw);
  },
};
