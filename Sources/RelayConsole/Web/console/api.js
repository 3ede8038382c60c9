// Calls the console's own API. Every call names the container and environment, and carries this session's token.

import { typedName } from "./dom.js";
import { readJSON, writeJSON } from "./json.js";

/** Thrown when the relay refuses a call or cannot be reached. `message` is shown to the user. */
export class Refusal extends Error {
  /**
   * @param {{ error?: string, code?: string, reason?: string, serverErrorCode?: string }} answer
   * @param {number} status
   * @param {string} [text] The unparsed response body.
   */
  constructor(answer, status, text = "") {
    super(answer.error ?? answer.reason ?? `The relay answered ${status}.`);
    this.code = answer.code ?? answer.serverErrorCode;
    this.status = status;
    this.answer = answer;
    this.text = text;
  }
}

/**
 * The container and environment that the console shows.
 * @type {{ container: string, environment: string }}
 */
export const place = { container: "", environment: "development" };
export const isProduction = () => place.environment === "production";

/**
 * The operator's session: its token, sent with each call, and the function to call when it ends.
 * @type {{ token: string, ended: () => void }}
 */
export const session = { token: "1", ended: () => {} };

/**
 * @param {string} method
 * @param {string} name The path below `/console/api/`.
 * @param {Record<string, any>} [parameters]
 * @param {any} [body]
 * @returns {Promise<any>}
 */
export async function call(method, name, parameters = {}, body) {
  return parsed(await callText(method, name, parameters, body === undefined ? undefined : writeJSON(body)));
}

/**
 * Like `call`, with the texts of the request and response bodies.
 * @param {string} [body]
 * @param {Record<string, string>} [headers]
 * @returns {Promise<string>}
 */
export async function callText(method, name, parameters = {}, body, headers = {}) {
  const query = new URLSearchParams();
  for (const [key, value] of Object.entries({ ...place, ...parameters })) {
    if (value !== undefined && value !== null && value !== "") query.set(key, String(value));
  }
  let response;
  try {
    response = await fetch(`api/${name}?${query}`, {
      method,
      headers: { ...headers, "X-Zonecast-Console": session.token, ...(body !== undefined && { "Content-Type": "application/json" }) },
      body, credentials: "same-origin",
    });
  } catch {
    throw new Refusal({ error: "The relay does not answer. Check that it is running.", code: "offline" }, 0);
  }
  const text = await response.text().catch(() => "");
  if (response.ok) return text;
  const answer = parsed(text);
  if (answer.code === "confirm" && parameters.confirm === undefined && await typedName(place.container)) {
    return callText(method, name, { ...parameters, confirm: place.container }, body, headers);
  }
  if (answer.code === "signIn") session.ended();
  throw new Refusal(answer.code === "confirm" ? { error: "Nothing was changed." } : answer, response.status, text);
}

/** Parses a response body. Returns `{}` if it is not JSON, such as a proxy's error page. */
function parsed(text) {
  try { return readJSON(text); } catch { return {}; }
}

export const get = (name, parameters) => call("GET", name, parameters);
export const post = (name, body = {}, parameters = {}) => call("POST", name, parameters, body);

/**
 * Calls an operation of the wire protocol on the public database as an operator.
 * @param {string} operation
 */
export const wire = (operation, body, parameters) => call("POST", `wire/${operation}`, parameters, body);
