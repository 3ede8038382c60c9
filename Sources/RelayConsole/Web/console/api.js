// The console's own API: every call says where (container, environment) and that it is this page's.

import { typedName } from "./dom.js";
import { readJSON, writeJSON } from "./json.js";

/** What the relay did not do, and why: `message` is for people. */
export class Refusal extends Error {
  /**
   * @param {{ error?: string, code?: string, reason?: string, serverErrorCode?: string }} answer @param {number} status
   * @param {string} [text] The answer as it came.
   */
  constructor(answer, status, text = "") {
    super(answer.error ?? answer.reason ?? `The relay answered ${status}.`);
    this.code = answer.code ?? answer.serverErrorCode;
    this.status = status;
    this.answer = answer;
    this.text = text;
  }
}

/** Where everything happens. @type {{ container: string, environment: string }} */
export const place = { container: "", environment: "development" };
export const isProduction = () => place.environment === "production";

/** The sign-in: what to send with each change, and what to do when it has ended. @type {{ token: string, ended: () => void }} */
export const session = { token: "1", ended: () => {} };

/**
 * @param {string} method @param {string} name What follows `/console/api/`.
 * @param {Record<string, any>} [parameters] @param {any} [body]
 * @returns {Promise<any>}
 */
export async function call(method, name, parameters = {}, body) {
  return parsed(await callText(method, name, parameters, body === undefined ? undefined : writeJSON(body)));
}

/** Like `call`, with the texts of the request and response bodies. @param {string} [body] @returns {Promise<string>} */
export async function callText(method, name, parameters = {}, body) {
  const query = new URLSearchParams();
  for (const [key, value] of Object.entries({ ...place, ...parameters })) {
    if (value !== undefined && value !== null && value !== "") query.set(key, String(value));
  }
  let response;
  try {
    response = await fetch(`api/${name}?${query}`, {
      method,
      headers: { "X-Zonecast-Console": session.token, ...(body !== undefined && { "Content-Type": "application/json" }) },
      body, credentials: "same-origin",
    });
  } catch {
    throw new Refusal({ error: "The relay does not answer. Is it running?", code: "offline" }, 0);
  }
  const text = await response.text().catch(() => "");
  if (response.ok) return text;
  const answer = parsed(text);
  if (answer.code === "confirm" && parameters.confirm === undefined && await typedName(place.container)) {
    return callText(method, name, { ...parameters, confirm: place.container }, body);
  }
  if (answer.code === "signIn") session.ended();
  throw new Refusal(answer.code === "confirm" ? { error: "Nothing was changed." } : answer, response.status, text);
}

/** The answer in a text; an empty one if the text is not JSON, such as a proxy's error page. */
function parsed(text) {
  try { return readJSON(text); } catch { return {}; }
}

export const get = (name, parameters) => call("GET", name, parameters);
export const post = (name, body = {}, parameters = {}) => call("POST", name, parameters, body);

/** An operation of the wire on the public database, as an operator. @param {string} operation */
export const wire = (operation, body, parameters) => call("POST", `wire/${operation}`, parameters, body);
