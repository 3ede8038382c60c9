// The Promote page: compares the schemas of development and production, and promotes changes to production.

import { get, place, post } from "./api.js";
import { button, fill, h, say, table } from "./dom.js";
import { moment } from "./format.js";
import { report } from "./schema.js";

/** @type {import("./sections.js").Page} */
export const promote = {
  id: "promote", title: "Promote", key: "p",
  about: "Differences between development's and production's schema. A promotion adds types and fields and never deletes any.",
  command: ({ container, data }) => `schema promote --container ${container} --dry-run --data ${data}`,

  async show(body, { shell }) {
    const difference = await get("schema/diff");
    const { entries } = await get("audit", { words: `schema.promote ${place.container}`, limit: 20 });
    fill(body, report(difference),
      h("div.actions.left", null, button("Promote to production…", async () => {
        const answer = await post("schema/promote");
        say(answer.isApplied ? "The schema is promoted to production." : "The promotion is refused. The reasons are listed below.", !answer.isApplied);
        await shell.show();
      }, { class: "danger", id: "promote", disabled: !difference.isAllowed || !difference.changes.length })),
      h("p.quiet", null, "To reset development to production's schema, without records, run ",
        h("code", null, `zonecast schema reset --container ${place.container} --data ${shell.welcome.data}`)),
      h("h2", null, "Past promotions"),
      table([["Time", (entry) => moment(entry.at)], ["Actor", (entry) => entry.actor], ["Subject", (entry) => entry.subject]],
        entries, "No promotions yet.", { caption: "Promotions" }));
  },
};
