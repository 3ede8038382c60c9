// The console's pages, by section, in the order of the navigation.

import { assets } from "./assets.js";
import { audit, operators } from "./audit.js";
import { backups } from "./backups.js";
import { changes } from "./changes.js";
import { configuration } from "./configuration.js";
import { devices } from "./devices.js";
import { explorer } from "./explorer.js";
import { indexes } from "./indexes.js";
import { keys, tokens } from "./tokens.js";
import { logs } from "./logs.js";
import { overview } from "./overview.js";
import { promote } from "./promote.js";
import { push } from "./push.js";
import { quotas } from "./quotas.js";
import { records } from "./records.js";
import { roles } from "./roles.js";
import { schema } from "./schema.js";
import { shares } from "./shares.js";
import { telemetry } from "./telemetry.js";
import { users } from "./users.js";
import { zones } from "./zones.js";

/**
 * @typedef {{ shell: import("./shell.js").Shell, parameters: URLSearchParams, signal: AbortSignal }} Visit
 * @typedef {{ id: string, title: string, about: string, key?: string,
 *   command?: (place: { container: string, environment: string, data: string, url: string }) => string,
 *   show: (body: HTMLElement, visit: Visit) => any }} Page
 */

/** @type {{ title: string, pages: Page[] }[]} */
export const sections = [
  { title: "Container", pages: [overview] },
  { title: "Data", pages: [records, assets, zones, changes, devices, shares] },
  { title: "Schema", pages: [schema, indexes, roles, promote] },
  { title: "Users and access", pages: [users, tokens, keys, operators] },
  { title: "Operation", pages: [telemetry, logs, quotas, push, backups, configuration, explorer, audit] },
];
