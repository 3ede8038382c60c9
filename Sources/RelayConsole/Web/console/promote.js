// The Promote page: compares the schemas of development and production, and promotes changes to production.

import { get, place, post } from "./api.js";
import { button, fill, h, say, table } from "./dom.js";
import { moment } from "./format.js";
import { report } from "./schema.js";

/** @type {import("./sections.js").Page} */
export const promote = {
  id: "promote", title: "Promote", key: "p",
  about: "What development's schema has and production's has not. A promotion adds types and fields and never takes any away.",
  command: ({ container, data }) => `schema promote --container ${container} --dry-run --data ${data}`,

  async show(body, { shell }) {
    const difference = await get("schema/diff");
    const { entries } = await get("audit", { words: `schema.promote ${place.container}`, limit: 20 });
    fill(body, report(difference),
      h("div.actions.left", null, button("Promote to production…", async () => {
        const answer = await post("schema/promote");
        say(answer.isApplied ? "Production has development's schema now." : "Production cannot take this; see why below.", !answer.isApplied);
        await shell.show();
      }, { class: "danger", id: "promote", disabled: !difference.isAllowed || !difference.changes.length })),
      h("p.quiet", null, "To begin development anew, with no records and production's schema, the relay is stopped: ",
        h("code", null, `zonecast schema reset --container ${place.container} --data ${shell.welcome.data}`)),
      h("h2", null, "Promoted before"),
      table([["When", (entry) => moment(entry.at)], ["Who", (entry) => entry.actor], ["What", (entry) => entry.subject]],
        entries, "Nothing was promoted at this console yet.", { caption: "Promotions" }));
  },
};
