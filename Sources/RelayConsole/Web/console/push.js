// The Push page: push services and the devices registered with them.

import { get, post } from "./api.js";
import { button, copyable, fill, h, table } from "./dom.js";
import { moment, number, short } from "./format.js";

/** @type {import("./sections.js").Page} */
export const push = {
  id: "push", title: "Push gateways", key: "y",
  about: "A device with no open socket can be woken by a push service. A push says that something changed, and never what.",
  command: ({ container, environment, data }) => `push list --container ${container} --environment ${environment} --data ${data}`,

  async show(body, { shell, signal }) {
    const verdict = h("div", { "aria-live": "polite", id: "push-verdict" });
    const now = h("div");
    fill(body, now);
    const test = async (row) => {
      fill(verdict, h("p.quiet", null, `Asking ${row.kind} to wake the device…`));
      const { taken, sentence } = await post("pushes/test", { id: row.id });
      fill(verdict, h(taken ? "p" : "p.trouble", null, taken && h("b.added", null, "✓ "), sentence));
    };
    const draw = async () => {
      const { services, count, devices: rows, webPushKey } = await get("pushes");
      fill(now,
        table([
          ["Service", (one) => [h("b", null, one.name), one.detail && [h("br"), h("small.quiet", null, one.detail)]], "wrap"],
          ["State", (one) => one.isSetUp ? h("span.badge.good", null, "set up") : h("span.badge", null, "not set up")],
          ["Devices here", (one) => number(one.devices), "number"],
          ["Last error", (one) => one.lastFault ?? "", "wrap"],
          ["Set up by", (one) => h("code", null, one.command), "wrap"],
        ], services, "", { caption: "Push services", mark: (one) => (one.lastFault ? "bad" : undefined) }),
        webPushKey && [h("h3", null, "applicationServerKey, for pages that subscribe"), copyable(webPushKey)],
        h("h2", null, "Devices"), verdict,
        table([
          ["User", (row) => h("a", { href: shell.link("users", { words: row.user }), title: row.user }, h("code", null, short(row.user)))],
          ["Device", (row) => h("code", { title: row.device }, short(row.device))],
          ["By", (row) => h("span.badge", null, row.kind)], ["Since", (row) => moment(row.registered)],
          ["Last error", (row) => row.lastFault ?? "", "wrap"],
          ["", (row) => button("Test", () => test(row), { class: "small", title: "Wake this device: it asks for changes and finds none", "aria-label": `Test ${row.device}` })],
        ], rows, "No device here has asked to be woken.", { caption: "Devices that push services wake", mark: (row) => (row.lastFault ? "bad" : undefined) }),
        count > rows.length && h("p.quiet", null, `${number(rows.length)} of ${number(count)} are shown.`));
    };
    await draw();
    shell.every(10_000, signal, draw);
  },
};
